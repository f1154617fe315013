"""A waiting pod is told why, once for each change of the reason, and never after it was bound."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from berth_crds.client import api, resources
from berth_operator.engine import rate_limiter
from berth_operator.kube import pod_status
from berth_operator.scheduling import decisions, queued_pods
from berth_operator.scheduling.decisions import Reason
from berth_operator.translate import raw
from kube.conftest import RecordingApi
from kube.telling import Notes, waits
from support import clock, manifests, pods, timeless
from testbed import waiting


class Desk:
    """A status writer at work on one pod, and what it has written."""

    def __init__(self, session: RecordingApi, yard: pods.PodClient) -> None:
        self.session = session
        self.yard = yard
        self.time = clock.Clock()
        self.notes = Notes(session)
        self.status_writer = pod_status.PodStatusWriter(
            session, self.notes, rate_limiter.unlimited(), wall=self.time.wall
        )
        self.path = resources.PODS.path("p", namespace=yard.namespace, sub="status")

    async def see(self) -> raw.Pod:
        """Have the status writer see the pod as it is now."""
        pod = await self.yard.read("p")
        self.status_writer.pod_waiting(pod)
        return pod

    async def transition(self) -> str:
        """Read when the verdict began to hold."""
        pod = await self.yard.admin.get(resources.PODS, "p", into=dict, namespace=self.yard.namespace)
        found = [one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"]
        return str(found[0]["lastTransitionTime"])

    @property
    def writes(self) -> int:
        """Count what was sent about the pod's status."""
        return self.session.sent.count(("PATCH", self.path))

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until something holds."""

        async def holds() -> bool:
            return bool(condition())

        await waiting.eventually(holds, what=what, seconds=5)

    async def until_written(self, count: int) -> raw.Pod:
        """Wait for a write, and read the pod."""
        await self.until(lambda: self.writes >= count and not self.status_writer._due, f"write {count}")
        return await self.yard.read("p")


@pytest.fixture
async def candidate(admin: api.Api, namespace: str) -> queued_pods.Candidate:
    """Lend a pod that waits."""
    return await pods.PodClient(admin, namespace).create(manifests.pod("p"))


@pytest.fixture
async def desk(
    session: RecordingApi, admin: api.Api, candidate: queued_pods.Candidate, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Desk]:
    """Lend a status writer that runs and has seen the pod."""
    monkeypatch.setattr(pod_status, "RETRY_SECONDS", 0.05)
    desk = Desk(session, pods.PodClient(admin, candidate.namespace))
    await desk.see()
    async with timeless.beside(desk.status_writer.run()):
        yield desk


# ---------------------------------------------------------------- when a verdict is written


async def test_a_verdict_is_a_condition_and_an_event(desk: Desk, candidate: queued_pods.Candidate) -> None:
    """The condition has the word that autoscalers wait for, and a sentence; the event has the same."""
    desk.status_writer.unschedulable(candidate, waits(Reason.FULL))

    pod = await desk.until_written(1)

    assert ("PodScheduled", "False", "Unschedulable") in pods.conditions(pod)
    said = pods.scheduled(pod).message
    assert said == waits(Reason.FULL)
    assert desk.notes.told == [("FailedScheduling", said)]


async def test_nonsense_has_a_word_of_its_own(desk: Desk, candidate: queued_pods.Candidate) -> None:
    """What no further node could cure is not Unschedulable, or an autoscaler would add nodes for ever."""
    desk.status_writer.unschedulable(candidate, "asks for 150", fault=Reason.INVALID_REQUEST)

    pod = await desk.until_written(1)
    assert ("PodScheduled", "False", "InvalidRequest") in pods.conditions(pod)


async def test_the_same_again_is_silence(desk: Desk, candidate: queued_pods.Candidate) -> None:
    """The same verdict is written once: before its write, after it, and after the pod showed it."""
    for _ in range(3):
        desk.status_writer.unschedulable(candidate, waits(Reason.FULL))
    await desk.until_written(1)
    desk.status_writer.unschedulable(candidate, waits(Reason.FULL))
    await desk.see()
    desk.status_writer.unschedulable(candidate, waits(Reason.FULL))
    await asyncio.sleep(0.1)

    assert desk.writes == 1
    assert len(desk.notes.told) == 1


async def test_a_change_is_written(desk: Desk, candidate: queued_pods.Candidate) -> None:
    """Another sentence is another write; the moment of the transition stays, as the truth has not changed."""
    desk.status_writer.unschedulable(candidate, waits(Reason.FULL))
    await desk.until_written(1)
    before = await desk.transition()
    desk.time.advance(100)
    await desk.see()

    desk.status_writer.unschedulable(candidate, waits(Reason.FULL, Reason.UNHEALTHY))
    pod = await desk.until_written(2)

    assert "Unhealthy" in (pods.scheduled(pod).message or "")
    assert await desk.transition() == before
    assert len(desk.notes.told) == 2


async def test_a_restarted_operator_repeats_nothing(
    desk: Desk, session: RecordingApi, candidate: queued_pods.Candidate
) -> None:
    """What the pod shows already, from whoever wrote it, is neither written nor posted again."""
    desk.status_writer.unschedulable(candidate, waits(Reason.FULL))
    await desk.until_written(1)

    other = Desk(session, desk.yard)
    await other.see()
    async with timeless.beside(other.status_writer.run()):
        other.status_writer.unschedulable(candidate, waits(Reason.FULL))
        await asyncio.sleep(0.1)

    assert other.writes == 1  # The one of before: both write through the same session.
    assert other.notes.told == []


async def test_somebody_elses_verdict_is_put_right(desk: Desk, candidate: queued_pods.Candidate) -> None:
    """A condition that was edited by hand, times and words left null, is written again at the next try."""
    desk.status_writer.unschedulable(candidate, waits(Reason.FULL))
    await desk.until_written(1)
    edited = [{"type": "PodScheduled", "status": "False"}]
    await desk.yard.patch("p", {"status": {"conditions": edited}}, sub="status")
    await desk.see()

    desk.status_writer.unschedulable(candidate, waits(Reason.FULL))

    pod = await desk.until_written(2)
    assert ("PodScheduled", "False", "Unschedulable") in pods.conditions(pod)


async def test_a_sentence_without_end_is_cut_once(desk: Desk, candidate: queued_pods.Candidate) -> None:
    """What is longer than a condition should be is cut, and the cut one counts as shown."""
    desk.status_writer.unschedulable(candidate, "x" * 100_000)
    await desk.until_written(1)
    await desk.see()

    desk.status_writer.unschedulable(candidate, "x" * 100_000)
    await asyncio.sleep(0.1)

    assert desk.writes == 1


# ---------------------------------------------------------------- when it is not


async def test_a_bound_pod_is_never_written_over(desk: Desk, candidate: queued_pods.Candidate) -> None:
    """A verdict on a revision that is no more is refused by the server, and dropped once that is known."""
    await desk.yard.bind("p", "somewhere")

    desk.status_writer.unschedulable(candidate, waits(Reason.FULL))
    await desk.until(lambda: desk.writes >= 2, "a second try")
    desk.status_writer.pod_left(candidate.uid)
    tries = desk.writes
    await asyncio.sleep(0.2)

    assert pods.conditions(await desk.yard.read("p"))[0][:2] == ("PodScheduled", "True")
    assert desk.writes <= tries + 1


async def test_a_newer_revision_is_judged_anew(desk: Desk, candidate: queued_pods.Candidate) -> None:
    """A pod that somebody touched meanwhile gets its verdict once its newer revision was seen."""
    await desk.yard.patch("p", {"metadata": {"labels": {"touched": "yes"}}})
    desk.status_writer.unschedulable(candidate, waits(Reason.FULL))
    await desk.until(lambda: desk.writes >= 1, "the refused try")

    await desk.see()

    await desk.until(lambda: not desk.status_writer._due, "the write")
    assert ("PodScheduled", "False", "Unschedulable") in pods.conditions(await desk.yard.read("p"))


async def test_a_verdict_that_was_overtaken_is_not_written(
    desk: Desk, candidate: queued_pods.Candidate
) -> None:
    """Of several verdicts in a hurry the last one stands."""
    desk.status_writer.unschedulable(candidate, waits(Reason.FULL))
    desk.status_writer.unschedulable(candidate, waits(Reason.UNHEALTHY))
    desk.status_writer.unschedulable(candidate, waits(Reason.SILENT))

    pod = await desk.until_written(1)

    assert "Silent" in (pods.scheduled(pod).message or "")
    assert desk.writes == 1


async def test_a_pod_that_is_placed_is_not_told_otherwise(
    desk: Desk, candidate: queued_pods.Candidate
) -> None:
    """A verdict that waits to be written is dropped the moment the pod has its place."""
    desk.status_writer.unschedulable(candidate, waits(Reason.FULL))
    desk.status_writer.bound(candidate, pods.placement("n1", pods.CARD, pods.OTHER_CARD))
    await asyncio.sleep(0.1)

    assert desk.writes == 0
    assert desk.notes.told[-1] == ("Scheduled", f"Assigned {candidate.title} to n1 with cards 0,1")


PARTS: dict[str, tuple[tuple[decisions.Share, ...], str]] = {
    "nothing": ((), ""),
    "a whole card": ((decisions.Share("GPU-0", 0, 100, 8 << 30),), " with card 0"),
    "no more than it was given": (
        (decisions.Share("GPU-0", 0, 0, 8000 << 20), decisions.Share("GPU-1", 1, 0, 2000 << 20)),
        " with 7.8 GiB of card 0 and 1.9 GiB of card 1",
    ),
    "a part": ((decisions.Share("GPU-0", 0, 40, 3 << 30),), " with 40 % of card 0"),
    "compute and more memory": (
        (decisions.Share("GPU-0", 0, 10, 60 << 30, card_memory=80 << 30),),
        " with 10 % and 60 GiB of card 0",
    ),
    "compute and all memory": (
        (decisions.Share("GPU-0", 0, 30, 80 << 30, card_memory=80 << 30),),
        " with 30 % and 80 GiB of card 0",
    ),
    "all compute and half the memory": (
        (decisions.Share("GPU-0", 0, 100, 40 << 30, card_memory=80 << 30),),
        " with 100 % and 40 GiB of card 0",
    ),
    "one part of both": (
        (decisions.Share("GPU-0", 0, 33, -(-(80 << 30) * 33 // 100), card_memory=80 << 30),),
        " with 33 % of card 0",
    ),
    "memory alone": ((decisions.Share("GPU-0", 0, 0, 3 << 29),), " with 1.5 GiB of card 0"),
    "an instance": (
        (decisions.Share("MIG-0", 2, 14, 5 << 30, profile="1g.5gb"),),
        " with 1g.5gb of card 2",
    ),
    "some of each": (
        (
            decisions.Share("GPU-3", 3, 40, 3 << 30),
            decisions.Share("GPU-1", 1, 100, 8 << 30),
            decisions.Share("GPU-0", 0, 100, 8 << 30),
        ),
        " with cards 0,1 and 40 % of card 3",
    ),
    "another device": ((decisions.Share("rdma-0", 0, 100, 0, type="rdma"),), ""),
}


@pytest.mark.parametrize(("shares", "said"), PARTS.values(), ids=PARTS.keys())
def test_where_a_pod_went_tells_how_much_of_each_card(
    shares: tuple[decisions.Share, ...], said: str, candidate: queued_pods.Candidate
) -> None:
    """A part is not called a card."""
    placement = decisions.Placement("n1", (decisions.Grant("main", shares),))

    found = pod_status.placement_text(candidate, placement)

    assert found == f"{candidate.title} to n1{said}"


async def test_a_bind_that_fails_is_a_condition_too(desk: Desk, candidate: queued_pods.Candidate) -> None:
    """Whoever looks at the pod sees why it waits; the word is not the one for which nodes are added."""
    desk.status_writer.unschedulable(candidate, waits(Reason.FULL))
    await desk.until_written(1)
    await desk.see()

    desk.status_writer.bind_failed(candidate, "a webhook says no")

    pod = await desk.until_written(2)
    assert ("PodScheduled", "False", "SchedulerError") in pods.conditions(pod)
    assert pods.scheduled(pod).message == "The bind failed: a webhook says no"
    assert desk.notes.told[-1] == ("FailedBinding", "The bind failed: a webhook says no")
    assert desk.status_writer.shown_message(candidate.uid) == ""
