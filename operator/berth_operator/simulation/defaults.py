"""The defaults that the API server and the kubelet set before Berth reads an object.

Only those that the core relies on: a pod has a namespace, a uid and a priority, and variables that name its
cards; a node has allocatable amounts. A missing uid is derived from namespace and name, so that it is the
same in every run.
"""

import uuid
from collections.abc import Mapping
from typing import Final

import msgspec

from berth_crds import names
from berth_operator.simulation import kinds, manifests
from berth_operator.translate import delivery, raw

PODS: Final = "pods"
MAX_PODS: Final = "110"  # The kubelet's own default.
UID_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_DNS, f"simulation.{names.GROUP}")


def pod(manifest: manifests.Manifest, classes: Mapping[str, kinds.PriorityClass]) -> raw.Pod:
    """Return a pod as the API server would store it."""
    pod: raw.Pod = manifest.value
    meta = msgspec.structs.replace(
        pod.metadata,
        name=manifest.name,
        namespace=manifest.namespace,
        uid=pod.metadata.uid or str(uuid.uuid5(UID_NAMESPACE, manifest.title)),
    )
    spec = pod.spec if pod.metadata.uid else _fed(pod.spec)
    if spec.priority is None:
        spec = msgspec.structs.replace(
            spec,
            priority=_priority(manifest, classes),
            priority_class_name=spec.priority_class_name or _default_class(classes),
        )
    return msgspec.structs.replace(pod, metadata=meta, spec=spec)


def _fed(spec: raw.PodSpec) -> raw.PodSpec:
    """Return the spec of a pod that is still to be made as Berth's admission policy will change it."""
    init, main = map(_with_variables, (spec.init_containers, spec.containers))
    return msgspec.structs.replace(spec, init_containers=init, containers=main)


def _with_variables(containers: tuple[raw.Container, ...] | None) -> tuple[raw.Container, ...]:
    return tuple(msgspec.structs.replace(one, env=(delivery.variable(one.name),)) for one in containers or ())


def _priority(manifest: manifests.Manifest, classes: Mapping[str, kinds.PriorityClass]) -> int | None:
    name = manifest.value.spec.priority_class_name or _default_class(classes)
    if not name:
        return None
    return classes[name].value if name in classes else kinds.SYSTEM_CLASSES.get(name)


def _default_class(classes: Mapping[str, kinds.PriorityClass]) -> str | None:
    """Return the PriorityClass of pods that name none, if there is one."""
    return next((name for name, one in classes.items() if one.global_default), None)


def node(manifest: manifests.Manifest) -> raw.Node:
    """Return a node as the kubelet would report it; without allocatable its whole capacity counts."""
    node: kinds.Node = manifest.value
    written = node.status
    allocatable = (written.capacity or {}) if written.allocatable is None else written.allocatable
    status = msgspec.structs.replace(written, allocatable={PODS: MAX_PODS, **allocatable})
    return msgspec.structs.replace(node, status=status)
