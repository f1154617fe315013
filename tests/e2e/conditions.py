"""The conditions of objects of the API, in which pods and Devices say how they are."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

Thing = dict[str, Any]


def condition(thing: Thing, kind: str) -> Thing:
    """Return a condition of an object, or nothing."""
    found = thing.get("status", {}).get("conditions", [])
    return next((one for one in found if one["type"] == kind), {})


def scheduled(pod: Thing) -> Thing:
    """Return a pod's PodScheduled condition, or nothing."""
    return condition(pod, "PodScheduled")


def not_ready(pods: Iterable[Thing]) -> Iterator[str]:
    """Yield what each pod that is not ready says of itself."""
    for pod in pods:
        if condition(pod, "Ready").get("status") != "True":
            yield f"{pod['metadata']['name']} says: {json.dumps(pod.get('status', {}))}"
