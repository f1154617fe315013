"""Follows what the kubelet gave to whom: asks now and then, and keeps the last good answer.

The kubelet has no watch for this. So it is asked at an interval, and at once when a pod of
the node has changed: until the GpuPod is written, the operator keeps back all cards that the
pod may have. A few such questions may follow each other quickly after some quiet, and then
they are spread: the kubelet's limit is shared by all who ask it on the node, and a long
answer costs the agent as well. While the kubelet does not answer, what it said last stands,
the pauses grow, and after a few failures in a row the trouble is official. A single refusal
is not worth a word to the cluster, a kubelet that restarts is.
"""

import asyncio
import contextlib
import dataclasses
import logging
import math
from collections.abc import Callable
from typing import Final

from berth_agent import backoff
from berth_agent.kubelet import podresources
from berth_crds import vocabulary, wire

log = logging.getLogger(__name__)

# The kubelet takes a hundred questions a second from all together, and ten at once.
SHORTEST_REST_SECONDS: Final = 0.05
QUESTION_SECONDS: Final = (0.25, 2.0)  # From question to question, on average, by how long the answers take.
ANSWERS_SHARE: Final = 0.1  # So much of that time may be spent on them.
SAVED_SECONDS: Final = 1.0  # So much of a quiet time is saved, for questions that follow each other quickly.
LONGEST_PAUSE_SECONDS: Final = (1.0, 20.0)  # After failures the pauses grow to the interval, within these.
TOLERATED: Final = 2  # Failures in a row that are not yet a trouble.


@dataclasses.dataclass(frozen=True, slots=True)
class KubeletReport:
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

    `on_change` is told whenever something else is reported, and of what is reported after a hurry: that
    the kubelet says the same of what has changed since is news as well. `asking` is called before
    each question: what changes from then on may not be in the answer.
    """

    def __init__(
        self,
        lister: podresources.Lister,
        node: str,
        pace: Pace,
        hurry: asyncio.Event,
        *,
        on_change: Callable[[KubeletReport], None],
        asking: Callable[[], None] = lambda: None,
    ) -> None:
        """Remember what is set when something has changed that the kubelet may know more about: `hurry`."""
        self._lister = lister
        self._pace = pace
        self._on_change = on_change
        self._asking = asking
        self._complaint = backoff.Complaint(log, f"node {node}: the kubelet does not tell who holds what")
        self._hurry = hurry
        self._owed = False  # Whether something has changed since the last answer was asked for.
        self._paid = -math.inf  # Until when the time is spent that the answers were worth.
        self.report = KubeletReport()
        self.answered: float | None = None  # When it last answered, by the event loop's clock.

    def __repr__(self) -> str:
        """Return the state in words."""
        return f"<Follower of {self._lister!r}: {self._complaint.failures} failures in a row>"

    async def run(self) -> None:
        """Follow for ever."""
        try:
            while True:
                await self._rest(await self._ask())
        finally:
            await self._lister.close()

    async def _ask(self) -> float:
        """Ask once, and give how long to rest if there is no hurry."""
        time = asyncio.get_running_loop().time
        started = time()
        self._owed |= self._hurry.is_set()
        self._hurry.clear()
        self._asking()
        try:
            pods = await self._lister.pods()
        except podresources.Refused as refused:
            return self._failed(refused)
        self._complaint.succeeded()
        self.answered = time()
        owed, self._owed = self._owed, False
        self._keep(KubeletReport(pods), anew=owed)
        self._paid = max(self._paid, started) + _worth(time() - started)
        return self._pace.interval

    def _failed(self, refused: podresources.Refused) -> float:
        self._complaint.failed(refused)
        before = self.report.trouble
        # The words may differ each time (a port, a count); the kind of trouble is what matters.
        same = before is not None and before.trouble == refused.trouble
        if not same and self._complaint.failures > TOLERATED:
            self._keep(dataclasses.replace(self.report, trouble=refused))
        most = _within(self._pace.interval, LONGEST_PAUSE_SECONDS)
        return backoff.pause(refused, self._complaint.failures, most=most, chance=self._pace.chance())

    def _keep(self, report: KubeletReport, *, anew: bool = False) -> None:
        if anew or report != self.report:
            self.report = report
            self._on_change(report)

    async def _rest(self, seconds: float) -> None:
        """Rest until the time is over, or there is a hurry and time for another question."""
        if self._complaint.failures:
            # Nobody's news makes a kubelet answer that does not.
            await asyncio.sleep(seconds)
            return
        overspent = self._paid - SAVED_SECONDS - asyncio.get_running_loop().time()
        least = min(seconds, max(SHORTEST_REST_SECONDS, overspent))
        await asyncio.sleep(least)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds - least):
                await self._hurry.wait()


def _worth(seconds: float) -> float:
    """Return how long one question should be enough, the answer to which took so long."""
    return _within(seconds / ANSWERS_SHARE, QUESTION_SECONDS)


def _within(seconds: float, bounds: tuple[float, float]) -> float:
    least, most = bounds
    return max(least, min(seconds, most))


def condition(report: KubeletReport) -> wire.Condition | None:
    """Return whether the kubelet can be relied on; None while that is not known. It is not dated yet."""
    kind = vocabulary.DeviceCondition.POD_RESOURCES_READY
    if report.trouble is not None:
        return wire.Condition(kind, vocabulary.Truth.FALSE, report.trouble.trouble, str(report.trouble))
    if report.pods is None:
        return None
    return wire.Condition(
        kind,
        vocabulary.Truth.TRUE,
        "Answered",
        "The kubelet tells which devices it gave to which containers.",
    )
