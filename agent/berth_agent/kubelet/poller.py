"""Polls the kubelet for the devices that it gave to pods, and keeps the last good answer.

The kubelet has no watch for this. So it is asked at an interval, and at once when a pod of the node
has changed: until the GpuPod is written, the operator withholds all cards that the pod may have.
After a quiet time a few such requests may follow each other quickly, then they are spread: the
kubelet's limit is shared by all clients on the node, and a long answer costs the agent as well.
While the kubelet does not answer, its last answer stands and the pauses grow. After a few failures
in a row, the failure is reported; a single one is not.
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

# The kubelet takes a hundred requests a second from all clients together, and ten at once.
SHORTEST_REST_SECONDS: Final = 0.05
REQUEST_SECONDS: Final = (0.25, 2.0)  # Between two requests on average, by how long the answers take.
ANSWERS_SHARE: Final = 0.1  # Part of that time that answers may take.
SAVED_SECONDS: Final = 1.0  # Of a quiet time, for requests that follow each other quickly.
LONGEST_PAUSE_SECONDS: Final = (
    1.0,
    20.0,
)  # After failures pauses grow up to the interval, within these bounds.
TOLERATED_FAILURES: Final = 2  # Failures in a row that are not reported yet.


@dataclasses.dataclass(frozen=True, slots=True)
class KubeletReport:
    """The last good answer, None before the first one, and the failure since then if it lasts."""

    pods: tuple[podresources.ListedPod, ...] | None = None
    failure: podresources.PodResourcesError | None = None

    @property
    def is_known(self) -> bool:
        """Whether there is an answer, or a lasting failure."""
        return self.pods is not None or self.failure is not None


class KubeletPoller:
    """Polls one kubelet.

    `wake` is set when a pod has changed, since the kubelet may know more about it. `on_change` is
    called with each report that differs, and with the first one after `wake`: an unchanged answer
    after a change is information as well. `on_request` is called before each request: what changes
    from then on may not be in the answer.
    """

    def __init__(
        self,
        lister: podresources.PodResourcesLister,
        node: str,
        wake: asyncio.Event,
        *,
        interval: float,
        on_change: Callable[[KubeletReport], None],
        on_request: Callable[[], None] = lambda: None,
    ) -> None:
        self._lister = lister
        self._interval = interval
        self._on_change = on_change
        self._on_request = on_request
        self._failure_log = backoff.FailureLog(
            log, f"node {node}: the kubelet does not say which pods hold which devices"
        )
        self._wake = wake
        self._change_pending = False  # Whether something has changed since the last request.
        self._budget_used_until = -math.inf  # Until when past answers use up the time for requests.
        self.report = KubeletReport()
        self.answered_at: float | None = None  # When it last answered, by the event loop's clock.

    async def run(self) -> None:
        """Poll for ever."""
        try:
            while True:
                await self._rest(await self._ask())
        finally:
            await self._lister.close()

    async def _ask(self) -> float:
        """Ask once, and return how long to rest unless woken."""
        time = asyncio.get_running_loop().time
        started = time()
        self._change_pending |= self._wake.is_set()
        self._wake.clear()
        self._on_request()
        try:
            pods = await self._lister.pods()
        except podresources.PodResourcesError as refused:
            return self._failed(refused)
        self._failure_log.succeeded()
        self.answered_at = time()
        changed, self._change_pending = self._change_pending, False
        self._store(KubeletReport(pods), even_if_equal=changed)
        self._budget_used_until = max(self._budget_used_until, started) + _time_for_request(time() - started)
        return self._interval

    def _failed(self, error: podresources.PodResourcesError) -> float:
        most = _within(self._interval, LONGEST_PAUSE_SECONDS)
        pause = self._failure_log.failed(error, most=most)
        before = self.report.failure
        # The text may differ each time (a port, a count); the reason is what matters.
        same = before is not None and before.reason == error.reason
        if not same and self._failure_log.failures > TOLERATED_FAILURES:
            self._store(dataclasses.replace(self.report, failure=error))
        return pause

    def _store(self, report: KubeletReport, *, even_if_equal: bool = False) -> None:
        if even_if_equal or report != self.report:
            self.report = report
            self._on_change(report)

    async def _rest(self, seconds: float) -> None:
        """Rest until the time is over, or until woken with time for another request."""
        if self._failure_log.failures:
            # A change of a pod does not make a failing kubelet answer.
            await asyncio.sleep(seconds)
            return
        overspent = self._budget_used_until - SAVED_SECONDS - asyncio.get_running_loop().time()
        least = min(seconds, max(SHORTEST_REST_SECONDS, overspent))
        await asyncio.sleep(least)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds - least):
                await self._wake.wait()


def _time_for_request(seconds: float) -> float:
    """Return how much time there should be between requests if the answer takes so long."""
    return _within(seconds / ANSWERS_SHARE, REQUEST_SECONDS)


def _within(seconds: float, bounds: tuple[float, float]) -> float:
    least, most = bounds
    return max(least, min(seconds, most))


def condition(report: KubeletReport) -> wire.Condition | None:
    """Return the condition of the kubelet, None while it is not known; it has no time yet."""
    kind = vocabulary.DeviceCondition.POD_RESOURCES_READY
    if report.failure is not None:
        return wire.Condition(kind, vocabulary.Truth.FALSE, report.failure.reason, str(report.failure))
    if report.pods is None:
        return None
    return wire.Condition(
        kind,
        vocabulary.Truth.TRUE,
        "Answered",
        "The kubelet says which devices it gave to which containers.",
    )
