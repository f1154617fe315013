"""Decides on each container that is being made: what Berth's get, and what is taken from others."""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from berth_agent.delivery import containers, guard
from berth_agent.delivery.containers import Delivery, Undeliverable
from berth_agent.kubelet import podresources
from berth_agent.nri.messages import NewContainer
from berth_crds import names, wire

log = logging.getLogger(__name__)

KUBELET_SECONDS: Final = 1.0  # The runtime waits for 2 s and then makes the container as it is.

Cards = Callable[[], Sequence[wire.Card] | None]  # None while they have not been read.


@dataclasses.dataclass(frozen=True, slots=True)
class Guard:
    """Which containers have GPUs of a device plugin, and in which namespaces nothing is taken away."""

    kubelet: podresources.PodResourcesLister
    resources: tuple[str, ...]
    unguarded_namespaces: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class NriConfig:
    """The runtime's socket, how the node opens cards to containers, and the guard if there is one."""

    socket: Path
    means: containers.Means
    guard: Guard | None = None


class Adjuster:
    """The decisions for the containers of one node."""

    def __init__(self, node: str, cards: Cards, config: NriConfig) -> None:
        self._node = node
        self._cards = cards
        self._config = config

    async def delivery(self, container: NewContainer) -> Delivery | None:
        """Return what a container gets, None if it stays as it is, or raise `Undeliverable`."""
        if names.TERM in container.annotations:
            return self._ours(container)
        if self._config.guard and await self._is_stray(container, self._config.guard):
            log.warning(
                "node %s: container %s of pod %s/%s asks for cards that nobody gave it, and gets none",
                self._node,
                container.name,
                container.namespace,
                container.pod,
            )
            return guard.NO_CARDS
        return None

    def _ours(self, container: NewContainer) -> Delivery | None:
        if (cards := self._cards()) is None:
            raise Undeliverable("the cards of the node have not been read yet")
        return containers.delivery(
            container.annotations, container.name, self._node, cards, self._config.means
        )

    async def _is_stray(self, container: NewContainer, rules: Guard) -> bool:
        asked = guard.asked_for(container.environment)
        if not asked or container.namespace in rules.unguarded_namespaces:
            return False
        try:
            async with asyncio.timeout(KUBELET_SECONDS):
                listed = _resources(await rules.kubelet.pods(), container)
        except (podresources.PodResourcesError, TimeoutError) as error:
            why = str(error) or f"no answer within {KUBELET_SECONDS:g} s"
            raise Undeliverable(f"the kubelet does not say what it gave the container: {why}") from error
        return guard.is_stray(asked, listed, rules.resources)


def _resources(pods: Iterable[podresources.ListedPod], container: NewContainer) -> tuple[str, ...] | None:
    """Return the resources that the kubelet gave to a container; None if it does not list it."""
    for pod in pods:
        if (pod.namespace, pod.name) == (container.namespace, container.pod):
            for listed in pod.containers:
                if listed.name == container.name:
                    return tuple(devices.resource for devices in listed.devices)
    return None
