"""Of waiting pods that say too much together some are not kept, and are read again when there is room."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from berth_crds import names, wire
from berth_crds.client import api, connection, errors, watch
from berth_operator.engine import drift, waiting_pod_memory
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import auditor, feeds
from berth_operator.scheduling import decisions, explain
from berth_operator.scheduling.decisions import Reason
from berth_operator.translate import raw
from support import clock, manifests, timeless

UUIDS = 400


def pod(uid: str, **spec: Any) -> raw.Pod:
    """Make a pod as the informer reads it, that names very many cards of its own."""
    made = manifests.pod(uid, **spec)
    said = ",".join(f"GPU-{uid}-{at}" for at in range(UUIDS))
    made["metadata"] |= {"namespace": "ml", "uid": uid, "annotations": {names.AVOID_UUIDS: said}}
    found = watch.Codec(raw.Pod).decode_object(msgspec.Raw(json.dumps(made).encode()))
    assert isinstance(found, raw.Pod)
    return found


class Scene:
    """A ledger with a sink for pods."""

    def __init__(self) -> None:
        self.ledger = Ledger(clock.Clock())
        self.sink = feeds.PodSink(self.ledger, auditor.NullObserver())

    def faults(self, uid: str) -> list[Reason]:
        """Name what is wrong with a pod that waits."""
        candidate = self.ledger.backlog.get(uid)
        assert candidate is not None
        return [one.reason for one in candidate.faults]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Lend a sink with room for what one such pod says."""
    monkeypatch.setattr(waiting_pod_memory, "NAMESPACE_BYTES", 100 << 10)
    return Scene()


def test_a_pod_beyond_the_budget_waits_with_a_fault_and_nothing_else(scene: Scene) -> None:
    """It is refused with that fault when its turn comes, and what it said is not kept."""
    for uid in ("a", "b"):
        scene.sink.upserted(pod(uid))

    assert (scene.faults("a"), scene.faults("b")) == ([], [Reason.TOO_MUCH_TOGETHER])
    candidate = scene.ledger.backlog.get("b")
    assert candidate is not None
    assert not candidate.request.conditions.avoid_uuids
    said = explain.sentence(decisions.Reject("b", candidate.faults), candidate)
    assert said.startswith(
        "the requests of the waiting pods of this namespace are too long together: Berth keeps "
    )


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda sink: sink.deleted(wire.Meta("a", "ml", "a")), id="it is gone"),
        pytest.param(lambda sink: sink.upserted(pod("a", nodeName="n1")), id="it is bound"),
        pytest.param(
            lambda sink: sink.undecodable(
                watch.Undecodable(wire.Meta("a", "ml", "a"), "odd", b'{"spec":{"nodeName":"n1"}}')
            ),
            id="it is bound and cannot be read",
        ),
    ],
)
def test_a_pod_that_waits_no_more_makes_room(scene: Scene, end: Any) -> None:
    """The next time that the other is told, it is served."""
    for uid in ("a", "b"):
        scene.sink.upserted(pod(uid))
    full = scene.sink.budget.next_unkept()

    end(scene.sink)

    assert (full, scene.sink.budget.next_unkept()) == (None, ("ml", "b"))
    scene.sink.upserted(pod("b"))
    assert scene.faults("b") == []


def test_which_pod_has_found_no_room_is_no_drift(scene: Scene) -> None:
    """Told in another order, others are kept: the audit has nothing to mend there."""
    other = Scene()
    for uid in ("a", "b"):
        scene.sink.upserted(pod(uid))
    for uid in ("b", "a"):
        other.sink.upserted(pod(uid))

    assert drift.differences(scene.ledger, other.ledger) == ()


class Informer:
    """Stands for the informer of pods, and notes whom it is to tell again, and when."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, str]] = []
        self.trouble: list[errors.ClientError] = []

    async def resync_object(self, key: tuple[str, str]) -> None:
        """Note it, and fail if told to."""
        self.asked.append((timeless.clock()(), "/".join(key)))
        if self.trouble:
            raise self.trouble.pop()

    def names(self) -> list[str]:
        """Name those who were to be told again so far."""
        return [name for _, name in self.asked]


@pytest.fixture
def following(monkeypatch: pytest.MonkeyPatch) -> feeds.Feeds:
    """Lend feeds with room for what one such pod says, whose only informer is that of pods."""
    monkeypatch.setattr(waiting_pod_memory, "NAMESPACE_BYTES", 100 << 10)
    session = api.Api(connection.Connection(server="http://nowhere"), agent="test")
    nothing: Any = None
    made = feeds.Feeds(session, Ledger(clock.Clock()), nothing, auditor.NullObserver())
    informer: Any = Informer()
    made._informers = (informer,)
    return made


@timeless.scenario
async def test_what_was_not_kept_is_read_again_only_where_there_is_room(following: feeds.Feeds) -> None:
    """Not before something has gone, and soon after that."""
    informer: Any = following._informers[0]
    sink = following._pods
    found = []

    async with timeless.beside(following._read_rejected()):
        for uid in ("a", "b"):
            sink.upserted(pod(uid))
        await asyncio.sleep(100)
        found.append(informer.names())
        sink.deleted(wire.Meta("a", "ml", "a"))
        await timeless.until(lambda: informer.asked, most=feeds.MEMORY_CHECK_SECONDS + 0.1)
        sink.upserted(pod("b"))
        found.append(informer.names())
        await asyncio.sleep(100)
        found.append(informer.names())

    assert found == [[], ["ml/b"], ["ml/b"]]


@timeless.scenario
async def test_pods_are_read_again_one_by_one(following: feeds.Feeds) -> None:
    """However many there is room for, some in a second; where that fails, it goes on a while later."""
    informer: Any = following._informers[0]
    for uid in ("a", "b", "c", "d"):
        following._pods.upserted(pod(uid))
    following._pods.deleted(wire.Meta("a", "ml", "a"))
    informer.trouble.append(errors.Unreachable("away", ambiguous=False))

    async with timeless.beside(following._read_rejected()):
        await timeless.until(lambda: len(informer.asked) == 4)

    between, rest = feeds.READ_REJECTED_SECONDS, feeds.MEMORY_CHECK_SECONDS
    assert informer.names() == ["ml/b", "ml/c", "ml/d", "ml/b"]
    assert [when for when, _ in informer.asked] == pytest.approx(
        [0, rest, rest + between, rest + 2 * between]
    )


def test_all_is_read_by_the_clock_that_is_given() -> None:
    """Of every kind: by it others have their turn while a list is read."""
    nothing: Any = None
    session = api.Api(connection.Connection(server="http://nowhere"), agent="test")
    time = clock.Clock()

    made = feeds.Feeds(session, nothing, nothing, nothing, feeds.Options(clock=time))

    assert {one._means.clock for one in made._informers} == {time}
