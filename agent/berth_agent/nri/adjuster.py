"""Decides on each container that is being made: what Berth's get, and what is taken from others."""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from berth_agent import flag_table
from berth_agent.delivery import containers, guard, other_devices
from berth_agent.delivery.containers import Delivery, Undeliverable
from berth_agent.delivery.device_nodes import DEV, DeviceNodes
from berth_agent.delivery.isolation import NOT_ISOLATED, Isolation
from berth_agent.kubelet import device_ids, podresources
from berth_agent.nri.messages import NewContainer
from berth_agent.way import Cards
from berth_crds import names

log = logging.getLogger(__name__)

HOST_NODES: Final = DeviceNodes(DEV, flag_table.PROCFS)
# Which resources a container asks the kubelet for; None while its pod is not known.
Requested = Callable[[NewContainer], Iterable[str] | None]
KUBELET_SECONDS: Final = 1.0  # The runtime waits for 2 s and then makes the container as it is.


@dataclasses.dataclass(frozen=True, slots=True)
class Guard:
    """Which containers have GPUs of a device plugin, and in which namespaces nothing is taken away."""

    kubelet: podresources.PodResourcesLister
    resources: tuple[str, ...]
    unguarded_namespaces: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class NriConfig:
    """The runtime's socket, how the node opens cards to containers, and the guard if there is one.

    `isolation` keeps containers to their parts of cards. `openers` open devices of other types, by type, and
    their device nodes are looked up among `device_nodes`.
    """

    socket: Path
    means: containers.Means
    guard: Guard | None = None
    isolation: Isolation = NOT_ISOLATED
    openers: Mapping[str, other_devices.Opener] = dataclasses.field(default_factory=dict)
    device_nodes: DeviceNodes = HOST_NODES


class Adjuster:
    """The decisions for the containers of one node."""

    def __init__(self, node: str, cards: Cards, requested: Requested, config: NriConfig) -> None:
        self._node = node
        self._cards = cards
        self._requested = requested
        self._config = config

    async def delivery(self, container: NewContainer) -> Delivery | None:
        """Return what a container gets, None if it stays as it is, or raise `Undeliverable`."""
        if names.TERM in container.annotations:
            found = await self._ours(container)
        else:
            found = await self._guarded(container, self._config.guard) if self._config.guard else None
        if found is not None and (name := overruled(container.environment, found.env)):
            raise Undeliverable(
                f"{name} is set both in the image and in the pod, and the runtime changes only the first:"
                " remove it from the pod"
            )
        return found

    async def _ours(self, container: NewContainer) -> Delivery | None:
        if (cards := self._cards()) is None:
            raise Undeliverable("the cards of the node have not been read yet")
        found = containers.delivery(
            container.annotations,
            container.name,
            self._node,
            cards,
            self._config.means,
            self._config.isolation.limits,
        )
        if found is None:
            return None
        opened = self._config.openers
        others = other_devices.given(
            container.annotations, container.name, self._node, cards, opened=opened.keys()
        )
        openers = {kind: opened[kind] for kind in others if kind in opened}
        # At the same time: the runtime waits for all of them no longer than for one.
        openings = await asyncio.gather(*(opener.open(others[kind]) for kind, opener in openers.items()))
        for kind, opening in zip(openers, openings, strict=True):
            found = other_devices.with_opening(found, kind, opening, self._config.device_nodes)
        return found

    async def _guarded(self, container: NewContainer, rules: Guard) -> Delivery | None:
        """Return what is left to a container that asks for cards that nobody gave it; None to all others."""
        asked = guard.asked_for(container.environment)
        if not asked or container.namespace in rules.unguarded_namespaces:
            return None
        try:
            async with asyncio.timeout(KUBELET_SECONDS):
                given = _given(await rules.kubelet.pods(), container, rules.resources)
        except (podresources.PodResourcesError, TimeoutError) as error:
            why = str(error) or f"no answer within {KUBELET_SECONDS:g} s"
            raise Undeliverable(f"the kubelet does not say what it gave the container: {why}") from error
        requests_cards = self._requests_cards(container, rules.resources)
        if not guard.is_stray(asked, given, self._uuid_of_index(), requests_cards=requests_cards):
            return None
        log.warning(
            "node %s: container %s of pod %s/%s asks for cards that it was not given, and does not get them",
            self._node,
            container.name,
            container.namespace,
            container.pod,
        )
        return guard.only(given)

    def _requests_cards(self, container: NewContainer, resources: Sequence[str]) -> bool | None:
        """Whether a container requests cards from the kubelet; None while its pod is not known."""
        if (requested := self._requested(container)) is None:
            return None
        return any(device_ids.is_gpu_resource(name, resources) for name in requested)

    def _uuid_of_index(self) -> dict[str, str]:
        return {str(card.index): card.uuid for card in self._cards() or () if card.index is not None}


def overruled(environment: Iterable[str], env: Mapping[str, str]) -> str:
    """Return a variable that would not be as it is delivered, because the container has it twice.

    A runtime changes the first of two with one name, and the last one wins. That is no harm where it says the
    same, or names no further card.
    """
    written: dict[str, list[str]] = {}
    for text in environment:
        name, _, value = text.partition("=")
        written.setdefault(name, []).append(value)
    for name, value in env.items():
        *others, last = written.get(name, [""])
        if name == containers.VISIBLE_DEVICES:
            is_as_delivered = set(guard.asked_for([f"{name}={last}"])) <= set(value.split(","))
        else:
            is_as_delivered = last == value
        if others and not is_as_delivered:
            return name
    return ""


def _given(
    pods: Iterable[podresources.ListedPod], container: NewContainer, resources: Sequence[str]
) -> set[str] | None:
    """Return the uuids of the GPUs that the kubelet gave to a container; None if it does not list it.

    A pod that has ended may be listed beside the next one of its name, and nothing says which is which. The
    devices of both count: the kubelet gives none that it lists to anybody else.
    """
    found = [
        listed
        for pod in pods
        if (pod.namespace, pod.name) == (container.namespace, container.pod)
        for listed in pod.containers
        if listed.name == container.name
    ]
    if not found:
        return None
    return {
        device_ids.uuid_of(device)
        for listed in found
        for devices in listed.devices
        if device_ids.is_gpu_resource(devices.resource, resources)
        for device in devices.ids
    }
