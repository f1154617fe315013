"""Pods as they travel, for the tests of translation: only what a test is about need be said."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import hypothesis
import msgspec

from berth_crds import allocation, names
from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import requests
from berth_operator.translate import asks, raw

GIB: Final = 2**30
MEMORY: Final = 80 * GIB
NAMESPACE: Final = "ml"

# Loaded machines are slow without being wrong.
PROPERTY: Final = hypothesis.settings(
    deadline=None,
    max_examples=500,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)


def container(name: str = "main", gpus: int = 0, **fields: Any) -> dict[str, Any]:
    """Give a container in a pod's spec; `gpus` are asked as limits, as people do."""
    asked = {"resources": {"limits": {names.NVIDIA_GPU: gpus}}} if gpus else {}
    return {"name": name, **asked, **fields}


def asking(name: str = "main", requests: Mapping[str, object] = {}, **fields: Any) -> dict[str, Any]:
    """Give a container with these requests."""
    return container(name, resources={"requests": dict(requests)}, **fields)


def pod(
    name: str = "p",
    *,
    gpus: int = 0,
    annotations: Mapping[str, str] = {},
    labels: Mapping[str, str] = {},
    meta: Mapping[str, Any] = {},
    phase: str = "Pending",
    **spec: Any,
) -> raw.Pod:
    """Give a pod of ours; the rest is its spec, spelled as in a manifest."""
    about = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-{name}",
        "annotations": dict(annotations),
        "labels": dict(labels),
    }
    plain = {"schedulerName": names.SCHEDULER_NAME, "containers": [container(gpus=gpus)]}
    body = {"metadata": about | dict(meta), "spec": plain | spec, "status": {"phase": phase}}
    return msgspec.json.decode(msgspec.json.encode(body), type=raw.Pod)


def one(resources: Mapping[str, object], **about: Any) -> raw.Pod:
    """Give a pod whose only container asks for this."""
    return pod(containers=[asking("main", resources)], **about)


def uuid(at: str, minor: int) -> str:
    """Name a card of a node."""
    return f"GPU-{at}-{minor}"


def share(minor: int = 0, *, at: str = "n1", core: int = 100, memory: int = MEMORY) -> decisions.Share:
    """Give a card, the whole of it if nothing else is said."""
    return decisions.Share(uuid(at, minor), minor, core, memory)


def record(at: str = "n1", **minors: Sequence[int]) -> dict[str, str]:
    """Give the annotation that hands whole cards of a node to containers, named by keyword."""
    found = {
        name: {"gpu": [allocation.Share(uuid(at, minor), minor, 100, MEMORY) for minor in those]}
        for name, those in minors.items()
    }
    return written(at, found)


def written(at: str, found: Mapping[str, Mapping[str, Sequence[allocation.Share]]]) -> dict[str, str]:
    """Give the annotation that hands these devices to containers."""
    return {names.ALLOCATION: allocation.encode(allocation.of(at, found))}


def answered(placement: decisions.Placement) -> dict[str, str]:
    """Give the annotation that a Binding of this placement writes."""
    found: dict[str, dict[str, list[allocation.Share]]] = {}
    for grant in placement.grants:
        for one_ in grant.shares:
            share_ = allocation.Share(
                one_.uuid, one_.minor, one_.core, one_.memory, one_.profile, one_.function
            )
            found.setdefault(grant.container, {}).setdefault(one_.type, []).append(share_)
    return written(placement.node, found) if found else {}


def asked(pod: raw.Pod) -> requests.Request:
    """Read a request that must be sound."""
    request, faults = asks.request(pod)
    assert [fault.detail for fault in faults] == []
    return request


def faults(pod: raw.Pod) -> list[tuple[decisions.Reason, str]]:
    """List what is wrong with a pod's request."""
    return [(fault.reason, fault.detail) for fault in asks.request(pod)[1]]


def sentences(pod: raw.Pod) -> list[str]:
    """List what people are told is wrong."""
    return [detail for _, detail in faults(pod)]
