"""Follows what the kubelet gave to whom: asks now and then, and keeps the last good answer.

The kubelet has no watch for this. So it is asked at an interval, and sooner when a pod
of the node has changed, but never twice within a second: its limit is shared by all who
ask it on the node. While it does not answer, what it said last stands, the pauses grow,
and after a few failures in a row the trouble is official. A single refusal is not worth
a word to the cluster, a kubelet that restarts is.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable
from typing import Final

from berth_agent import patience
from berth_agent.kubelet import podresources
from berth_crds import vocabulary, wire

log = logging.getLogger(__name__)

SHORTEST_REST_SECONDS: Final = 1.0
MOST_PAUSE_SECONDS: Final = 20.0
TOLERATED: Final = 2  # Failures in a row that are not yet a trouble.


@dataclasses.dataclass(frozen=True, slots=True)
class Heard:
    """The last good answer, None before the first one, and the trouble since then if it is official."""

    pods: tuple[podresources.Pod, ...] | None = None
    trouble: podresources.Refused | None = None

    @property
    def spoke(self) -> bool:
        """Whether there is anything to go by: an answer, or the certainty that none comes."""
        return self.pods is not None or self.trouble is not None


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """How often to ask in seconds, and chance between 0 and 1 to spread the pauses after failures."""

    interval: float
    chance: Callable[[], float]


class Follower:
    """Follows one kubelet.

    `stirred` is told whenever something else is heard, and what is heard after a hurry: that
    the kubelet says the same of what has changed since is news as well.
    """

    def __init__(
        self,
        lister: podresources.Lister,
        node: str,
        pace: Pace,
        hurry: asyncio.Event,
        *,
        stirred: Callable[[Heard], None],
    ) -> None:
        """Remember what is set when something has changed that the kubelet may know more about: `hurry`."""
        self._lister = lister
        self._pace = pace
        self._stirred = stirred
        self._complaint = patience.Complaint(log, f"node {node}: the kubelet does not tell who holds what")
        self._hurry = hurry
        self.heard = Heard()
        self.answered: float | None = None  # When it last answered, by the event loop's clock.

    def __repr__(self) -> str:
        """Tell the state in words."""
        return f"<Follower of {self._lister!r}: {self._complaint.failures} failures in a row>"

    async def run(self) -> None:
        """Follow for ever."""
        try:
            hurried = False
            while True:
                hurried = await self._rest(await self._ask(hurried=hurried))
        finally:
            await self._lister.close()

    async def _ask(self, *, hurried: bool) -> float:
        """Ask once, and give how long to rest."""
        try:
            pods = await self._lister.pods()
        except podresources.Refused as refused:
            return self._failed(refused)
        self._complaint.succeeded()
        self.answered = asyncio.get_running_loop().time()
        self._hear(Heard(pods), anew=hurried)
        return self._pace.interval

    def _failed(self, refused: podresources.Refused) -> float:
        self._complaint.failed(refused)
        before = self.heard.trouble
        # The words may differ each time (a port, a count); the kind of trouble is what matters.
        same = before is not None and before.trouble == refused.trouble
        if not same and self._complaint.failures > TOLERATED:
            self._hear(dataclasses.replace(self.heard, trouble=refused))
        # Nobody's news makes a kubelet answer that does not: what comes meanwhile waits as well.
        self._hurry.clear()
        most = max(SHORTEST_REST_SECONDS, min(self._pace.interval, MOST_PAUSE_SECONDS))
        return patience.pause(refused, self._complaint.failures, most=most, chance=self._pace.chance())

    def _hear(self, heard: Heard, *, anew: bool = False) -> None:
        if anew or heard != self.heard:
            self.heard = heard
            self._stirred(heard)

    async def _rest(self, seconds: float) -> bool:
        """Rest, and tell whether that was ended by a hurry."""
        await asyncio.sleep(min(SHORTEST_REST_SECONDS, seconds))
        if self._complaint.failures:
            await asyncio.sleep(max(0.0, seconds - SHORTEST_REST_SECONDS))
            return False
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), max(0.0, seconds - SHORTEST_REST_SECONDS))
        hurried = self._hurry.is_set()
        self._hurry.clear()
        return hurried


def condition(heard: Heard) -> wire.Condition | None:
    """Say whether the kubelet can be relied on; None while that is not known. It is not dated yet."""
    kind = vocabulary.DeviceCondition.POD_RESOURCES_READY
    if heard.trouble is not None:
        return wire.Condition(kind, vocabulary.Truth.FALSE, heard.trouble.trouble, str(heard.trouble))
    if heard.pods is None:
        return None
    return wire.Condition(
        kind,
        vocabulary.Truth.TRUE,
        "Answered",
        "The kubelet tells which devices it gave to which containers.",
    )
