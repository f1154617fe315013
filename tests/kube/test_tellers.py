"""A waiting pod is told why, once for each change of the reason, and never after it was bound."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from berth_crds import wire
from berth_crds.client import api, resources
from berth_operator.engine import pace
from berth_operator.kube import events, tellers
from berth_operator.scheduling import backlog
from berth_operator.scheduling.decisions import Reason
from berth_operator.translate import raw
from kube.conftest import Noted
from support import clock, pods, stub
from testbed import waiting


class Notes(events.Events):
    """Notes that are kept instead of posted."""

    def __init__(self, session: api.Api) -> None:
        super().__init__(session, pace.unlimited(), wall=clock.Clock().wall, instance="test")
        self.told: list[tuple[str, str]] = []

    def tell(self, note: events.Note) -> None:
        """Keep a note."""
        self.told.append((note.reason, note.message))


class Desk:
    """A teller at work on one pod, and what it has written."""

    def __init__(self, session: Noted, yard: pods.Yard) -> None:
        self.session = session
        self.yard = yard
        self.time = clock.Clock()
        self.notes = Notes(session)
        self.teller = tellers.Teller(session, self.notes, wall=self.time.wall)
        self.path = resources.PODS.path("p", namespace=yard.namespace, sub="status")

    async def see(self) -> raw.Pod:
        """Have the teller see the pod as it is now."""
        pod = await self.yard.read("p")
        self.teller.saw(pod)
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
        await self.until(lambda: self.writes >= count and not self.teller._due, f"write {count}")
        return await self.yard.read("p")


@pytest.fixture
async def candidate(admin: api.Api, namespace: str) -> backlog.Candidate:
    """Lend a pod that waits."""
    return await pods.Yard(admin, namespace).create(pods.manifest("p", cards=1))


@pytest.fixture
async def desk(
    session: Noted, admin: api.Api, candidate: backlog.Candidate, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Desk]:
    """Lend a teller that runs and has seen the pod."""
    monkeypatch.setattr(tellers, "RETRY_SECONDS", 0.05)
    desk = Desk(session, pods.Yard(admin, candidate.namespace))
    await desk.see()
    async with telling(desk.teller):
        yield desk


@contextlib.asynccontextmanager
async def telling(teller: tellers.Teller) -> AsyncIterator[None]:
    """Run a teller beside the block."""
    task = asyncio.create_task(teller.run())
    try:
        yield
        assert not task.done(), "the teller ended by itself"
    finally:
        task.cancel()
        await asyncio.wait([task])


def waits(*reasons: Reason) -> str:
    """Say no on a node for each reason."""
    return f"No node fits: {', '.join(reasons)}"


# ---------------------------------------------------------------- when a verdict is written


async def test_a_verdict_is_a_condition_and_an_event(desk: Desk, candidate: backlog.Candidate) -> None:
    """The condition has the word that autoscalers wait for, and a sentence; the event has the same."""
    desk.teller.refused(candidate, waits(Reason.FULL))

    pod = await desk.until_written(1)

    assert ("PodScheduled", "False", "Unschedulable") in pods.conditions(pod)
    said = pods.scheduled(pod).message
    assert said == waits(Reason.FULL)
    assert desk.notes.told == [("FailedScheduling", said)]


async def test_nonsense_has_a_word_of_its_own(desk: Desk, candidate: backlog.Candidate) -> None:
    """What no further node could cure is not Unschedulable, or an autoscaler would add nodes for ever."""
    desk.teller.refused(candidate, "asks for 150", fault=Reason.INVALID_REQUEST)

    pod = await desk.until_written(1)
    assert ("PodScheduled", "False", "InvalidRequest") in pods.conditions(pod)


async def test_the_same_again_is_silence(desk: Desk, candidate: backlog.Candidate) -> None:
    """The same verdict is written once: before its write, after it, and after the pod showed it."""
    for _ in range(3):
        desk.teller.refused(candidate, waits(Reason.FULL))
    await desk.until_written(1)
    desk.teller.refused(candidate, waits(Reason.FULL))
    await desk.see()
    desk.teller.refused(candidate, waits(Reason.FULL))
    await asyncio.sleep(0.1)

    assert desk.writes == 1
    assert len(desk.notes.told) == 1


async def test_a_change_is_written(desk: Desk, candidate: backlog.Candidate) -> None:
    """Another sentence is another write; the moment of the transition stays, as the truth has not changed."""
    desk.teller.refused(candidate, waits(Reason.FULL))
    await desk.until_written(1)
    before = await desk.transition()
    desk.time.advance(100)
    await desk.see()

    desk.teller.refused(candidate, waits(Reason.FULL, Reason.UNHEALTHY))
    pod = await desk.until_written(2)

    assert "Unhealthy" in (pods.scheduled(pod).message or "")
    assert await desk.transition() == before
    assert len(desk.notes.told) == 2


async def test_a_restarted_operator_repeats_nothing(
    desk: Desk, session: Noted, candidate: backlog.Candidate
) -> None:
    """What the pod shows already, from whoever wrote it, is neither written nor posted again."""
    desk.teller.refused(candidate, waits(Reason.FULL))
    await desk.until_written(1)

    other = Desk(session, desk.yard)
    await other.see()
    async with telling(other.teller):
        other.teller.refused(candidate, waits(Reason.FULL))
        await asyncio.sleep(0.1)

    assert other.writes == 1  # The one of before: both write through the same session.
    assert other.notes.told == []


async def test_somebody_elses_verdict_is_put_right(desk: Desk, candidate: backlog.Candidate) -> None:
    """A condition that was edited by hand, times and words left null, is written again at the next try."""
    desk.teller.refused(candidate, waits(Reason.FULL))
    await desk.until_written(1)
    edited = [{"type": "PodScheduled", "status": "False"}]
    await desk.yard.patch("p", {"status": {"conditions": edited}}, sub="status")
    await desk.see()

    desk.teller.refused(candidate, waits(Reason.FULL))

    pod = await desk.until_written(2)
    assert ("PodScheduled", "False", "Unschedulable") in pods.conditions(pod)


async def test_a_sentence_without_end_is_cut_once(desk: Desk, candidate: backlog.Candidate) -> None:
    """What is longer than a condition should be is cut, and the cut one counts as shown."""
    desk.teller.refused(candidate, "x" * 100_000)
    await desk.until_written(1)
    await desk.see()

    desk.teller.refused(candidate, "x" * 100_000)
    await asyncio.sleep(0.1)

    assert desk.writes == 1


# ---------------------------------------------------------------- when it is not


async def test_a_bound_pod_is_never_written_over(desk: Desk, candidate: backlog.Candidate) -> None:
    """A verdict on a revision that is no more is refused by the server, and dropped once that is known."""
    await desk.yard.bind("p", "somewhere")

    desk.teller.refused(candidate, waits(Reason.FULL))
    await desk.until(lambda: desk.writes >= 2, "a second try")
    desk.teller.done(candidate.uid)
    tries = desk.writes
    await asyncio.sleep(0.2)

    assert pods.conditions(await desk.yard.read("p"))[0][:2] == ("PodScheduled", "True")
    assert desk.writes <= tries + 1


async def test_a_newer_revision_is_judged_anew(desk: Desk, candidate: backlog.Candidate) -> None:
    """A pod that somebody touched meanwhile gets its verdict once its newer revision was seen."""
    await desk.yard.patch("p", {"metadata": {"labels": {"touched": "yes"}}})
    desk.teller.refused(candidate, waits(Reason.FULL))
    await desk.until(lambda: desk.writes >= 1, "the refused try")

    await desk.see()

    await desk.until(lambda: not desk.teller._due, "the write")
    assert ("PodScheduled", "False", "Unschedulable") in pods.conditions(await desk.yard.read("p"))


async def test_a_verdict_that_was_overtaken_is_not_written(desk: Desk, candidate: backlog.Candidate) -> None:
    """Of several verdicts in a hurry the last one stands."""
    desk.teller.refused(candidate, waits(Reason.FULL))
    desk.teller.refused(candidate, waits(Reason.UNHEALTHY))
    desk.teller.refused(candidate, waits(Reason.SILENT))

    pod = await desk.until_written(1)

    assert "Silent" in (pods.scheduled(pod).message or "")
    assert desk.writes == 1


async def test_a_pod_that_is_placed_is_not_told_otherwise(desk: Desk, candidate: backlog.Candidate) -> None:
    """A verdict that waits to be written is dropped the moment the pod has its place."""
    desk.teller.refused(candidate, waits(Reason.FULL))
    desk.teller.placed(candidate, pods.placement("n1", pods.CARD, pods.OTHER_CARD))
    await asyncio.sleep(0.1)

    assert desk.writes == 0
    assert desk.notes.told[-1] == ("Scheduled", f"Assigned {candidate.title} to n1 with cards 0,1")


async def test_a_refused_bind_is_an_event(desk: Desk, candidate: backlog.Candidate) -> None:
    """What the server said to a bind is told, and the condition stays as it is."""
    desk.teller.failed(candidate, "the fence says no")

    assert desk.notes.told == [("FailedBinding", "The bind was refused: the fence says no")]
    assert desk.writes == 0


# ---------------------------------------------------------------- a server in trouble


@pytest.mark.parametrize(
    ("trouble", "tries"),
    [
        pytest.param(stub.status(503, "no"), 3, id="503: again"),
        pytest.param(stub.status(429, "no"), 3, id="429: again"),
        pytest.param(stub.reset(), 3, id="reset: again"),
        pytest.param(stub.status(409, "no"), 3, id="409: again"),
        pytest.param(stub.status(401, "no"), 3, id="401: again"),
        pytest.param(stub.status(404, "no"), 1, id="404: never"),
        pytest.param(stub.status(403, "no"), 1, id="403: never"),
        pytest.param(stub.status(422, "no"), 1, id="422: never"),
    ],
)
async def test_a_write_that_failed(trouble: stub.Answer, tries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What may pass is tried again; what will not is dropped, and nothing else waits behind it."""
    monkeypatch.setattr(tellers, "RETRY_SECONDS", 0.02)
    candidate = backlog.Candidate(uid="u-1", namespace="ml", name="p")
    path = resources.PODS.path("p", namespace="ml", sub="status")
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("PATCH", path, trouble, trouble, stub.thing({}))
        teller = tellers.Teller(session, Notes(session), wall=clock.Clock().wall)
        teller.saw(raw.Pod(wire.Meta(uid="u-1", resource_version="5")))
        async with telling(teller):
            teller.refused(candidate, waits(Reason.FULL))

            async def settled() -> bool:
                return not teller._due

            await waiting.eventually(settled, what="the verdict to be settled", seconds=5)

    assert len(server.requests) == tries


async def test_everybodys_trouble_is_tried_with_one_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the server is away not every waiting pod is tried, and its own wish for patience is kept."""
    monkeypatch.setattr(tellers, "RETRY_SECONDS", 0.01)
    busy = stub.status(429, "slow down", headers={"Retry-After": "0.3"})
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        teller = tellers.Teller(session, Notes(session), wall=clock.Clock().wall)
        for at in range(20):
            name = f"p{at}"
            path = resources.PODS.path(name, namespace="ml", sub="status")
            server.on("PATCH", path, *([busy] if at == 0 else []), stub.thing({}))
            teller.saw(raw.Pod(wire.Meta(uid=name, resource_version="5")))
            candidate = backlog.Candidate(uid=name, namespace="ml", name=name)
            teller.refused(candidate, waits(Reason.FULL))
        async with telling(teller):
            await asyncio.sleep(0.1)
            early = len(server.requests)

            async def settled() -> bool:
                return not teller._due

            await waiting.eventually(settled, what="all verdicts to be written", seconds=5)

    assert early == 1
    assert len(server.requests) == 21


async def test_what_comes_in_meanwhile_is_written_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause is for what could not be written; whoever is judged while others are told is told next."""
    monkeypatch.setattr(tellers, "RETRY_SECONDS", 60.0)
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        teller = tellers.Teller(session, Notes(session), wall=clock.Clock().wall)

        def judge(name: str) -> None:
            path = resources.PODS.path(name, namespace="ml", sub="status")
            server.on("PATCH", path, stub.thing({}))
            teller.saw(raw.Pod(wire.Meta(uid=name, resource_version="5")))
            teller.refused(backlog.Candidate(uid=name, namespace="ml", name=name), waits(Reason.FULL))

        judge("early")
        async with telling(teller):
            await asyncio.sleep(0)  # Its write is under way.
            judge("late")

            async def settled() -> bool:
                return not teller._due

            await waiting.eventually(settled, what="both verdicts to be written", seconds=5)

    assert len(server.requests) == 2


async def test_who_is_stuck_delays_nobody_and_goes_on_with_its_next_revision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A verdict on a revision that has passed waits for the next one; others are told meanwhile."""
    monkeypatch.setattr(tellers, "RETRY_SECONDS", 60.0)
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        teller = tellers.Teller(session, Notes(session), wall=clock.Clock().wall)

        def judge(name: str, *answers: stub.Answer) -> None:
            path = resources.PODS.path(name, namespace="ml", sub="status")
            server.on("PATCH", path, *answers)
            teller.saw(raw.Pod(wire.Meta(uid=name, resource_version="5")))
            teller.refused(backlog.Candidate(uid=name, namespace="ml", name=name), waits(Reason.FULL))

        async def told(*names: str) -> None:
            async def settled() -> bool:
                return not set(names) & teller._due.keys()

            await waiting.eventually(settled, what=f"{names} to be told", seconds=5)

        judge("moving", stub.status(409, "it has moved on"), stub.thing({}))
        async with telling(teller):
            await waiting.eventually(lambda: asyncio.sleep(0, len(server.requests)), what="the first try")
            judge("newcomer", stub.thing({}))
            await told("newcomer")
            assert "moving" in teller._due

            teller.saw(raw.Pod(wire.Meta(uid="moving", resource_version="6")))
            await told("moving")

    assert len(server.requests) == 3
