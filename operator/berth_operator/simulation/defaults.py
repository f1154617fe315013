"""What the API server and the kubelet would have filled in before Berth reads an object.

Only what the core relies on: a pod has a namespace, a uid and a priority; a node has
amounts that can be given out. A uid that is not given is made of namespace and name, so
that it is the same in every run.
"""

import uuid
from collections.abc import Mapping
from typing import Final

import msgspec

from berth_crds import names
from berth_operator.simulation import kinds, manifests
from berth_operator.translate import raw

PODS: Final = "pods"
MOST_PODS: Final = "110"  # The kubelet's own default.
UIDS: Final = uuid.uuid5(uuid.NAMESPACE_DNS, f"simulation.{names.GROUP}")


def pod(thing: manifests.Thing, classes: Mapping[str, kinds.PriorityClass]) -> raw.Pod:
    """Give a pod as the API server would store it."""
    given: raw.Pod = thing.value
    meta = msgspec.structs.replace(
        given.metadata,
        name=thing.name,
        namespace=thing.namespace,
        uid=given.metadata.uid or str(uuid.uuid5(UIDS, thing.title)),
    )
    spec = given.spec
    if spec.priority is None:
        spec = msgspec.structs.replace(spec, priority=_priority(thing, classes))
    return msgspec.structs.replace(given, metadata=meta, spec=spec)


def _priority(thing: manifests.Thing, classes: Mapping[str, kinds.PriorityClass]) -> int | None:
    name = class_name(thing)
    if not name:
        return next((one.value for one in classes.values() if one.global_default), None)
    if name in classes:
        return classes[name].value
    return kinds.SYSTEM_CLASSES.get(name)


def class_name(thing: manifests.Thing) -> str:
    """Say which PriorityClass a pod names."""
    name = thing.body["spec"].get("priorityClassName") if thing.body.get("spec") else None
    return name if isinstance(name, str) else ""


def node(thing: manifests.Thing) -> raw.Node:
    """Give a node as the kubelet would report it; without allocatable its whole capacity counts."""
    given: kinds.Node = thing.value
    allocatable = given.status.allocatable
    if allocatable is None:
        allocatable = given.status.capacity or {}
    status = kinds.NodeStatus(allocatable={PODS: MOST_PODS, **allocatable})
    return msgspec.structs.replace(given, status=status)
