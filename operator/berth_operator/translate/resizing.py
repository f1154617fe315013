"""What a bound pod requests while it is resized in place: the larger of what is asked and what it has.

People may change cpu and memory of a running pod. Its spec then has what they want; its status what its
kubelet has allocated and what the containers really have. As in kube-scheduler the largest counts, until the
kubelet has caught up; of a resize that its kubelet calls infeasible only what the pod has.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from berth_crds import aliases
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import quantities, raw, resources

PENDING: Final = "PodResizePending"
INFEASIBLE: Final = "Infeasible"
ALWAYS: Final = "Always"
NOTHING: Final[raw.Resources] = {}


def effective_spec(pod: raw.Pod) -> raw.PodSpec:
    """Return the spec of a bound pod with the requests that count; the very same if its status agrees."""
    spec, status = pod.spec, pod.status
    if (
        _agree(spec.containers, status.container_statuses)
        and _agree(spec.init_containers, status.init_container_statuses)
        and status.resources is None
    ):
        return spec  # Nearly every pod.
    statuses = _statuses(status)
    changed = {
        "containers": _effective_containers(pod, spec.containers, statuses),
        "init_containers": _effective_containers(pod, spec.init_containers or (), statuses),
        "resources": _of_whole_pod(pod),
    }
    changed = {name: value for name, value in changed.items() if value is not None}
    return msgspec.structs.replace(spec, **changed) if changed else spec


def _agree(
    containers: tuple[raw.Container, ...] | None, statuses: tuple[raw.ContainerStatus, ...] | None
) -> bool:
    """Whether the statuses say that the containers have, word for word, what they ask for; or say nothing."""
    if not statuses:
        return True
    asked = {one.name: one.resources.requests if one.resources else None for one in containers or ()}
    for one in statuses:
        if one.resources is None:
            continue
        requests, allocated = asked.get(one.name), one.allocated_resources
        if (one.resources.requests or None) != requests or (allocated and allocated != requests):
            return False
    return True


def _statuses(status: raw.PodStatus) -> dict[str, raw.ContainerStatus]:
    """Return the statuses that tell what a container has, by its name."""
    listed = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    return {one.name: one for one in listed if one.resources is not None}


def _effective_containers(
    pod: raw.Pod, containers: tuple[raw.Container, ...], statuses: Mapping[str, raw.ContainerStatus]
) -> tuple[raw.Container, ...] | None:
    """Return the containers with the requests that count; None if they are as they stand."""
    if not statuses:
        return None
    starting = containers is pod.spec.init_containers
    found = tuple(
        _effective_container(pod, one, status)
        if (status := statuses.get(one.name)) is not None and (not starting or one.restart_policy == ALWAYS)
        else one
        for one in containers
    )
    return found if any(one is not was for one, was in zip(found, containers, strict=True)) else None


def _effective_container(
    pod: raw.Pod, container: raw.Container, status: raw.ContainerStatus
) -> raw.Container:
    asked = resources.asked(container.resources)
    given = (status.resources.requests if status.resources else None) or NOTHING
    allocated = status.allocated_resources
    if given == asked and (not allocated or allocated == asked):
        return container
    found = _effective(pod, asked, given, allocated or NOTHING)
    return msgspec.structs.replace(container, resources=raw.ContainerResources(requests=found))


def _of_whole_pod(pod: raw.Pod) -> raw.ContainerResources | None:
    """Return the requests of the pod as a whole that count; None if they are as they stand."""
    asked, status = pod.spec.resources, pod.status
    if asked is None or not asked.requests or status.resources is None:
        return None
    given, allocated = status.resources.requests or NOTHING, status.allocated_resources or NOTHING
    found = _effective(pod, asked.requests, given, allocated)
    # Only what the pod asks for as a whole is replaced: of the rest its containers' requests count.
    return msgspec.structs.replace(asked, requests={name: found.get(name, 0) for name in asked.requests})


def _effective(
    pod: raw.Pod, asked: raw.Resources, given: raw.Resources, allocated: raw.Resources
) -> raw.Resources:
    """Return the largest of what is asked, given and allocated; nobody resizes devices."""
    infeasible = is_infeasible(pod.status.conditions or ())
    counting = (given, allocated) if infeasible else (asked, given, allocated)
    names = {name for amounts in counting for name in amounts if not aliases.is_served(name)}
    devices = {name: amount for name, amount in asked.items() if aliases.is_served(name)}
    return {name: _largest(name, counting) for name in sorted(names)} | devices


def _largest(name: str, counting: Iterable[raw.Resources]) -> raw.Quantity:
    return max(
        (amounts[name] for amounts in counting if name in amounts),
        key=lambda amount: quantities.demand(amount, thousandths=name == facts.CPU),
    )


def is_infeasible(conditions: Iterable[raw.PodCondition]) -> bool:
    """Whether the kubelet says that the resize that is asked for can never be."""
    pending = next((one for one in conditions if one.type == PENDING), None)
    return pending is not None and pending.reason == INFEASIBLE
