"""A Pod as the agent decodes it: identity, phase, and which containers ask for devices. Pure."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from berth_crds import aliases, vocabulary, wire

SIDECAR: Final = "Always"  # The restart policy of sidecars: init containers that keep running.


class Resources(wire.Struct, frozen=True):
    """The resources that a container asks for."""

    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None


class Container(wire.Struct, frozen=True):
    """A container, and the resources that it asks for."""

    name: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None


class PodSpec(wire.Struct, frozen=True):
    """The node of a pod, and its containers."""

    node_name: str = ""
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None


class Running(wire.Struct, frozen=True):
    """What is said of a container that runs; that it is said is all that matters."""


class ContainerState(wire.Struct, frozen=True):
    """Whether a container runs: without `running` it waits, or has ended."""

    running: Running | None = None


class ContainerStatus(wire.Struct, frozen=True):
    """A started container, its id in the runtime, and its state as far as that is told."""

    name: str = ""
    container_id: str = msgspec.field(default="", name="containerID")
    state: ContainerState | None = None


class PodStatus(wire.Struct, frozen=True):
    """The phase of a pod, and its started containers."""

    phase: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(wire.Struct, frozen=True):
    """The parts of a Pod that matter here."""

    metadata: wire.Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def runs(self) -> bool:
        """Whether its containers were started."""
        return self.status.phase == vocabulary.PodPhase.RUNNING


def container_ids(pod: Pod) -> Iterator[tuple[str, str]]:
    """Yield the ids of a pod's containers, without the name of the runtime before them, and their names."""
    started = _statuses(pod)
    return ((one.container_id.rpartition("://")[2], one.name) for one in started if one.container_id)


def stopped(pod: Pod) -> frozenset[str]:
    """Return the names of the containers that have ended, or wait to be started again."""
    return frozenset(one.name for one in _statuses(pod) if one.state and one.state.running is None)


def _statuses(pod: Pod) -> tuple[ContainerStatus, ...]:
    status = pod.status
    return (
        *status.container_statuses,
        *status.init_container_statuses,
        *status.ephemeral_container_statuses,
    )


def containers(pod: Pod) -> tuple[Container, ...]:
    """Return the containers of a pod in the order in which they are admitted."""
    return (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))


def at_one_time(spec: PodSpec, holding: Iterable[str]) -> Iterator[frozenset[str]]:
    """Yield which of these containers run at the same time: with each init container, and with the main ones.

    Containers that the spec of the pod does not name, and sidecars, run all the time.
    """
    ending = temporary(spec)
    last = frozenset(holding) - ending
    staying = last - frozenset(one.name for one in spec.containers or ())
    for container in spec.init_containers or ():
        if container.name in ending:
            yield (staying - _later(spec, container)) | {container.name}
    yield last


def temporary(spec: PodSpec) -> frozenset[str]:
    """Return the init containers that end before the main ones start."""
    return frozenset(one.name for one in spec.init_containers or () if one.restart_policy != SIDECAR)


def _later(spec: PodSpec, than: Container) -> frozenset[str]:
    """Return the containers that start after an init container."""
    every = spec.init_containers or ()
    return frozenset(one.name for one in every[every.index(than) + 1 :])


def requesting_containers(pod: Pod) -> tuple[Container, ...]:
    """Return the containers of a pod that ask for devices by a resource that Berth serves."""
    return tuple(container for container in containers(pod) if _asks(container))


def asking_for_devices(some: Iterable[Container] | None) -> tuple[Container, ...]:
    """Return those of some containers that ask for what a device plugin may serve."""
    return tuple(one for one in some or () if any("/" in name for name in _asked(one)))


def amounts(container: Container) -> dict[str, int]:
    """Return how many devices of each resource a container asks the kubelet for."""
    limits = (container.resources or Resources()).limits or {}
    # The API server writes 1000 as 1k.
    texts = {name: re.sub(r"k\Z", "000", str(amount)) for name, amount in limits.items()}
    return {name: int(text) for name, text in texts.items() if text.isdecimal()}


def _asked(container: Container) -> dict[str, Any]:
    resources = container.resources or Resources()
    return (resources.requests or {}) | (resources.limits or {})


def _asks(container: Container) -> bool:
    return any(aliases.is_served(name) and str(amount) != "0" for name, amount in _asked(container).items())


def keys_by_uid(pods: Iterable[Pod]) -> dict[str, tuple[str, str]]:
    """Return namespace and name of each pod, by its uid."""
    return {pod.metadata.uid: (pod.metadata.namespace, pod.metadata.name) for pod in pods}


def has_ended(pod: Pod) -> bool:
    """Whether a pod has ended, and so holds nothing, even if an old kubelet still lists it."""
    return pod.status.phase in {vocabulary.PodPhase.SUCCEEDED, vocabulary.PodPhase.FAILED}
