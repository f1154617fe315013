"""The kubelet is asked at once after some quiet, at a calm pace else; its last good answer stands.

Its trouble is told once it lasts.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Callable

import pytest

from berth_agent.kubelet import podresources, poller
from berth_agent.kubelet.podresources import FailureReason, ListedPod, PodResourcesError
from support import timeless
from testbed import waiting

AWAY = PodResourcesError(FailureReason.UNREACHABLE, "Nobody answers.")


class Script:
    """A kubelet that says what it is told to, and notes when it was asked."""

    def __init__(self) -> None:
        self.answer: tuple[ListedPod, ...] | PodResourcesError = ()
        self.slips = 0  # So many of the next questions are refused.
        self.seconds = 0.0  # That an answer takes.
        self.asked: list[float] = []
        self.closed = False

    async def pods(self) -> tuple[ListedPod, ...]:
        """Answer."""
        self.asked.append(asyncio.get_running_loop().time())
        if self.seconds:
            await asyncio.sleep(self.seconds)
        if self.slips:
            self.slips -= 1
            raise AWAY
        if isinstance(self.answer, PodResourcesError):
            raise self.answer
        return self.answer

    async def close(self) -> None:
        """End."""
        self.closed = True


class Scene:
    """A poller at work."""

    def __init__(self) -> None:
        self.script = Script()
        self.wake = asyncio.Event()
        self.told: list[poller.KubeletReport] = []
        self.poller = poller.KubeletPoller(
            self.script,
            "n1",
            poller.PollTiming(self.interval, lambda: 0.0),
            self.wake,
            on_change=self.told.append,
        )

    interval = 0.02

    async def until(self, holds: Callable[[], bool], *, what: str) -> None:
        """Wait for something."""

        async def asked() -> bool:
            return holds()

        await waiting.eventually(asked, what=what, seconds=5)


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """Lend a poller that runs, with pauses a hundred times shorter than in life."""
    monkeypatch.setattr(poller, "SHORTEST_REST_SECONDS", 0.01)
    monkeypatch.setattr(poller, "LONGEST_PAUSE_SECONDS", (0.01, 20.0))
    monkeypatch.setattr("berth_agent.backoff.FIRST_SECONDS", 0.0025)
    scene = Scene()
    task = asyncio.create_task(scene.poller.run())
    yield scene
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert scene.script.closed


async def test_answers_are_told_when_they_change(scene: Scene) -> None:
    """The same answer again is no news; another one is."""
    await scene.until(lambda: len(scene.script.asked) > 3, what="some answers")
    assert scene.told == [poller.KubeletReport(())]

    scene.script.answer = (ListedPod("ml", "train"),)

    await scene.until(lambda: len(scene.told) > 1, what="the news")
    assert scene.told[1:] == [poller.KubeletReport((ListedPod("ml", "train"),))]


async def test_after_a_hurry_the_same_answer_is_told(scene: Scene) -> None:
    """Whoever has changed since is told that the kubelet still says the same."""
    await scene.until(lambda: len(scene.told) == 1, what="the first answer")

    scene.wake.set()

    await scene.until(lambda: len(scene.told) == 2, what="the same answer")
    assert scene.told == [poller.KubeletReport(())] * 2


async def test_a_hurry_outlasts_a_refusal(scene: Scene) -> None:
    """Whoever has changed is told what the kubelet says once it answers, be it nothing new."""
    await scene.until(lambda: len(scene.told) == 1, what="the first answer")

    scene.script.slips = 1
    scene.wake.set()

    await scene.until(lambda: len(scene.told) == 2, what="the same answer")
    assert (scene.script.slips, scene.told) == (0, [poller.KubeletReport(())] * 2)


async def test_last_good_answer_stands_while_the_kubelet_is_away(scene: Scene) -> None:
    """Trouble is told once beside the last answer, and its end as well."""
    scene.script.answer = (ListedPod("ml", "train"),)
    await scene.until(lambda: scene.poller.report.pods == scene.script.answer, what="an answer")
    scene.script.answer = AWAY
    before = len(scene.script.asked)
    await scene.until(lambda: len(scene.script.asked) > before + 6, what="some failures")
    assert scene.poller.report == poller.KubeletReport((ListedPod("ml", "train"),), AWAY)

    scene.script.answer = (ListedPod("ml", "train"),)

    await scene.until(lambda: scene.poller.report.failure is None, what="the end of the trouble")
    assert [one.failure for one in scene.told[-3:]] == [None, AWAY, None]


async def test_few_failures_are_no_trouble(scene: Scene) -> None:
    """A kubelet that refuses once or twice is asked again, and nobody is told."""
    await scene.until(lambda: scene.poller.report.is_known, what="an answer")
    before = len(scene.script.asked)

    scene.script.slips = poller.TOLERATED_FAILURES
    await scene.until(lambda: len(scene.script.asked) > before + 5, what="answers")

    assert scene.told == [poller.KubeletReport(())]


async def test_trouble_that_lasts_is_logged_seldom(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """The log has the first and the tenth failure, and the end."""
    caplog.set_level(logging.INFO)
    scene.script.answer = AWAY
    await scene.until(lambda: len(scene.script.asked) > 15, what="many failures")
    scene.script.answer = ()
    await scene.until(lambda: "over after" in caplog.text, what="the end")

    lines = [one.getMessage() for one in caplog.records if "does not say" in one.getMessage()]
    assert len(lines) == 3
    assert "over after" in lines[-1]


@pytest.mark.parametrize("answer", [pytest.param((), id="well"), pytest.param(AWAY, id="away")])
async def test_hurry_does_not_make_a_crowd_of_questions(
    scene: Scene, answer: tuple[ListedPod, ...] | PodResourcesError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often pods change, two questions are a rest apart, and a kubelet that fails gets more."""
    monkeypatch.setattr(poller, "SHORTEST_REST_SECONDS", 0.05)
    monkeypatch.setattr(poller, "LONGEST_PAUSE_SECONDS", (0.05, 20.0))
    monkeypatch.setattr("berth_agent.backoff.FIRST_SECONDS", 0.05)
    scene.script.answer = answer
    await scene.until(lambda: len(scene.script.asked) > 2, what="the first questions")
    asked = len(scene.script.asked)
    for _ in range(30):
        scene.wake.set()
        await asyncio.sleep(0.01)

    times = scene.script.asked[asked:]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert gaps
    assert min(gaps) > 0.02


@timeless.scenario
async def test_hurry_brings_the_question_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """After some quiet a few changes of pods are each asked about at once, rather than an interval later."""
    monkeypatch.setattr(Scene, "interval", 60.0)
    scene = Scene()
    changes = [30.0, 30.3, 30.4, 30.9]

    async with timeless.beside(scene.poller.run()):
        for moment in changes:
            await timeless.at(moment)
            scene.wake.set()
        await timeless.passing(1.0)

    assert scene.script.asked == [0.0, *changes]


@timeless.scenario
async def test_a_poller_ends_at_any_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of a pod at that very moment does not keep it at work."""
    monkeypatch.setattr(Scene, "interval", 60.0)
    scene = Scene()
    task = asyncio.create_task(scene.poller.run())
    await timeless.passing(1.0)

    scene.wake.set()
    await asyncio.sleep(0)
    task.cancel()

    await asyncio.wait([task], timeout=1)
    assert task.cancelled()
    assert scene.script.closed


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
    monkeypatch: pytest.MonkeyPatch, takes: float, apart: float
) -> None:
    """Answers take a tenth of the time at most, unless pods would wait for them longer than two seconds."""
    monkeypatch.setattr(Scene, "interval", 60.0)
    scene = Scene()
    scene.script.seconds = takes

    async with timeless.beside(scene.poller.run()):
        for _ in range(2000):
            scene.wake.set()
            await asyncio.sleep(0.01)

    asked = scene.script.asked
    gaps = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert min(gaps) >= poller.SHORTEST_REST_SECONDS
    assert sum(gaps[-5:]) / 5 == pytest.approx(apart, abs=0.02)
    assert len(asked) <= 20 / apart + 1 + poller.SAVED_SECONDS / apart


def test_throttled_agent_waits_longer() -> None:
    """Who asked too often leaves the kubelet alone for seconds at least."""
    throttled = PodResourcesError(FailureReason.THROTTLED, "Too often.")

    assert (throttled.retry_after, AWAY.retry_after) == (podresources.THROTTLED_PAUSE_SECONDS, 0)


@pytest.mark.parametrize(
    ("report", "said"),
    [
        pytest.param(poller.KubeletReport(), None, id="not known yet"),
        pytest.param(poller.KubeletReport(()), ("True", "Answered"), id="answered"),
        pytest.param(poller.KubeletReport((), AWAY), ("False", "Unreachable"), id="away by now"),
        pytest.param(poller.KubeletReport(None, AWAY), ("False", "Unreachable"), id="never there"),
    ],
)
def test_condition(report: poller.KubeletReport, said: tuple[str, str] | None) -> None:
    """The Device says whether the kubelet can be relied on, as soon as that is known."""
    found = poller.condition(report)

    assert (None if found is None else (found.status, found.reason)) == said
