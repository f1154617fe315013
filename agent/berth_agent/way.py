"""A way in which cards reach containers, as the agent of the node sees it.

A way runs beside the loop, which passes cards and pods on to it; a condition says whether it works.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from berth_agent.gpupods import watched_pod
from berth_agent.kubelet import podresources
from berth_crds import wire


class NodePods(Protocol):
    """The pods that are bound to the node."""

    def pods(self) -> Iterable[watched_pod.Pod]:
        """Return those that are known."""

    @property
    def are_current(self) -> bool:
        """Whether these are all there are now."""


Cards = Callable[[], Sequence[wire.Card] | None]  # None while none were read since the boot.
# Which resources a container asks the kubelet for, by the namespace and name of its pod, and its own name.
Requested = Callable[[tuple[str, str], str], Iterable[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class NodeAccess:
    """What a way can learn of its node, and whom it notifies.

    `hangup` is set for a moment at each SIGHUP. A way calls `on_change` when its condition has changed.
    """

    node: str
    cards: Cards
    pods: NodePods
    requested: Requested
    hangup: asyncio.Event
    on_change: Callable[[], None]


class Way:
    """One way on one node; each overrides what concerns it."""

    async def run(self) -> None:
        """Work until cancelled, if there is work to do."""

    def condition(self) -> wire.Condition | None:
        """Return whether it works, without a time; None if that is not told."""
        return None

    def set_device(self, spec: wire.DeviceSpec, unusable: Collection[str]) -> None:
        """Set what the Device will say, and the uuids of the cards that are sick or cordoned."""

    def set_listed(self, listed: tuple[podresources.ListedPod, ...]) -> None:
        """Set what the kubelet lists as given."""

    def pods_changed(self) -> None:
        """Note that the pods of the node have changed."""

    async def end(self, published: Callable[[], wire.DeviceStatus]) -> None:
        """Return when nobody needs it any more; `published` returns what the Device says then."""


MakeWay = Callable[[NodeAccess], Way]
