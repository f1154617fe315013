"""The kubelet is asked at once after some quiet, at a calm pace else; its last good answer stands.

A failure of it is reported once it lasts.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random

import pytest

from berth_agent.kubelet import podresources, poller
from berth_agent.kubelet.podresources import FailureReason, ListedPod, PodResourcesError
from support import timeless

INTERVAL = 60.0
AWAY = PodResourcesError(FailureReason.UNREACHABLE, "Nobody answers.")
EMPTY, TRAIN = poller.KubeletReport(()), poller.KubeletReport((ListedPod("ml", "train"),))


class Polled:
    """A poller, its reports, and a kubelet that answers as it is set and notes when it was asked."""

    def __init__(self) -> None:
        self.answer: tuple[ListedPod, ...] | PodResourcesError = ()
        self.refusals = 0  # So many of the next questions are refused.
        self.seconds = 0.0  # That an answer takes.
        self.asked: list[float] = []
        self.closed = False
        self.wake = asyncio.Event()
        self.reports: list[poller.KubeletReport] = []
        self.poller = poller.KubeletPoller(
            self, "n1", self.wake, interval=INTERVAL, on_change=self.reports.append
        )

    async def pods(self) -> tuple[ListedPod, ...]:
        """Answer, as the kubelet."""
        self.asked.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.seconds)
        if self.refusals:
            self.refusals -= 1
            raise AWAY
        if isinstance(self.answer, PodResourcesError):
            raise self.answer
        return self.answer

    async def close(self) -> None:
        """Close the connection to the kubelet."""
        self.closed = True

    def gaps(self) -> list[float]:
        """Return the seconds between the questions."""
        return [later - earlier for earlier, later in itertools.pairwise(self.asked)]


@timeless.scenario
async def test_answers_are_reported_when_they_change() -> None:
    """The same answer again is no news, unless a pod has changed since; another one is."""
    polled = Polled()
    async with timeless.beside(polled.poller.run()):
        await timeless.passing(5 * INTERVAL)
        unchanged = list(polled.reports)
        polled.wake.set()
        await timeless.passing(1.0)
        polled.answer = TRAIN.pods or ()
        await timeless.passing(2 * INTERVAL)

    assert (unchanged, polled.reports) == ([EMPTY], [EMPTY, EMPTY, TRAIN])


@timeless.scenario
async def test_a_change_of_a_pod_outlasts_a_refusal() -> None:
    """Whoever has changed is told what the kubelet says once it answers, be it nothing new."""
    polled = Polled()
    async with timeless.beside(polled.poller.run()):
        await timeless.passing(1.0)
        polled.refusals = 1
        polled.wake.set()
        await timeless.passing(INTERVAL)

    assert (polled.refusals, polled.reports) == (0, [EMPTY, EMPTY])


@timeless.scenario
async def test_last_good_answer_stands_while_the_kubelet_is_away(caplog: pytest.LogCaptureFixture) -> None:
    """A failure that lasts is reported once beside the last answer, and so is its end; log lines are few."""
    caplog.set_level(logging.INFO)
    polled = Polled()
    polled.answer = TRAIN.pods or ()
    async with timeless.beside(polled.poller.run()):
        await timeless.passing(1.0)
        polled.answer = AWAY
        await timeless.passing(10 * INTERVAL)
        polled.answer = TRAIN.pods or ()
        await timeless.passing(INTERVAL)

    assert polled.reports == [TRAIN, poller.KubeletReport(TRAIN.pods, AWAY), TRAIN]
    lines = [message.partition("devices")[2] for message in caplog.messages if "does not say" in message]
    assert [line.partition(" (attempt ")[2].partition(")")[0] for line in lines] == ["1", "10", ""]
    assert "over after" in lines[-1]


@timeless.scenario
async def test_few_failures_are_not_reported() -> None:
    """A kubelet that refuses once or twice is asked again, and nobody is told."""
    polled = Polled()
    async with timeless.beside(polled.poller.run()):
        await timeless.passing(1.0)
        polled.refusals = poller.TOLERATED_FAILURES
        await timeless.passing(5 * INTERVAL)

    assert (polled.refusals, polled.reports) == (0, [EMPTY])


@timeless.scenario
async def test_after_some_quiet_changes_are_asked_about_at_once() -> None:
    """A few changes of pods are each asked about at once, rather than an interval later."""
    polled = Polled()
    changes = [30.0, 30.3, 30.4, 30.9]
    async with timeless.beside(polled.poller.run()):
        for moment in changes:
            await timeless.at(moment)
            polled.wake.set()
        await timeless.passing(1.0)

    assert polled.asked == [0.0, *changes]


@timeless.scenario
async def test_a_poller_ends_at_any_moment() -> None:
    """A change of a pod at that very moment does not keep it at work."""
    polled = Polled()
    task = asyncio.create_task(polled.poller.run())
    await timeless.passing(1.0)

    polled.wake.set()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=1)

    assert (task.cancelled(), polled.closed) == (True, True)


async def changing_all_the_time(polled: Polled) -> None:
    """Have pods change a hundred times a second, for twenty seconds."""
    async with timeless.beside(polled.poller.run()):
        for _ in range(2000):
            polled.wake.set()
            await asyncio.sleep(0.01)


@timeless.scenario
async def test_pods_that_change_do_not_have_a_failing_kubelet_asked_more_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pauses grow, whatever happens to pods: it would not answer for that."""
    monkeypatch.setattr(random, "uniform", min)
    polled = Polled()
    polled.answer = AWAY

    await changing_all_the_time(polled)

    assert polled.gaps() == pytest.approx([0.125, 0.25, 0.5, 1, 2, 4, 8], abs=0.02)


@timeless.scenario
@pytest.mark.parametrize(
    ("takes", "apart"),
    [
        pytest.param(0.001, 0.25, id="short"),
        pytest.param(0.1, 1.0, id="long"),
        pytest.param(1.0, 2.0, id="from a kubelet that is slow"),
    ],
)
async def test_pods_that_change_all_the_time_have_the_kubelet_asked_at_a_steady_pace(
    takes: float, apart: float
) -> None:
    """Answers take a tenth of the time at most, unless pods would wait for them longer than two seconds."""
    polled = Polled()
    polled.seconds = takes

    await changing_all_the_time(polled)

    assert min(polled.gaps()) >= poller.SHORTEST_REST_SECONDS
    assert sum(polled.gaps()[-5:]) / 5 == pytest.approx(apart, abs=0.02)
    assert len(polled.asked) <= 20 / apart + 1 + poller.SAVED_SECONDS / apart


def test_throttled_agent_waits_longer() -> None:
    """Who asked too often leaves the kubelet alone for seconds at least."""
    throttled = PodResourcesError(FailureReason.THROTTLED, "Too often.")

    assert (throttled.retry_after, AWAY.retry_after) == (podresources.THROTTLED_PAUSE_SECONDS, 0)


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        pytest.param(poller.KubeletReport(), None, id="not known yet"),
        pytest.param(EMPTY, ("True", "Answered"), id="answered"),
        pytest.param(poller.KubeletReport((), AWAY), ("False", "Unreachable"), id="away by now"),
        pytest.param(poller.KubeletReport(None, AWAY), ("False", "Unreachable"), id="never there"),
    ],
)
def test_condition(report: poller.KubeletReport, expected: tuple[str, str] | None) -> None:
    """The Device says whether the kubelet can be relied on, as soon as that is known."""
    condition = poller.condition(report)

    assert (None if condition is None else (condition.status, condition.reason)) == expected
