"""Of waiting pods that say too much together some are not kept, and are read again when there is room."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from berth_crds import names, wire
from berth_crds.client import api, connection, watch
from berth_operator.engine import budget, drift, ledger
from berth_operator.kube import auditor, feeds
from berth_operator.scheduling import decisions, explain
from berth_operator.scheduling.decisions import Reason
from berth_operator.translate import raw
from support import clock, pods, timeless

UUIDS = 400


def pod(uid: str, **spec: Any) -> raw.Pod:
    """Make a pod as the informer reads it, that names very many cards of its own."""
    made = pods.manifest(uid, cards=1, **spec)
    said = ",".join(f"GPU-{uid}-{at}" for at in range(UUIDS))
    made["metadata"] |= {"namespace": "ml", "uid": uid, "annotations": {names.AVOID_UUIDS: said}}
    found = watch.Codec(raw.Pod).thing(msgspec.Raw(json.dumps(made).encode()))
    assert isinstance(found, raw.Pod)
    return found


class Scene:
    """A ledger with a sink for pods."""

    def __init__(self) -> None:
        self.book = ledger.Ledger(clock.Clock())
        self.sink = feeds.PodSink(self.book, auditor.Nobody())

    def faults(self, uid: str) -> list[Reason]:
        """Name what is wrong with a pod that waits."""
        candidate = self.book.waiting.get(uid)
        assert candidate is not None
        return [one.reason for one in candidate.faults]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Lend a sink with room for what one such pod says."""
    monkeypatch.setattr(budget, "OF_A_NAMESPACE", 100 << 10)
    return Scene()


def test_a_pod_beyond_the_budget_waits_with_a_fault_and_nothing_else(scene: Scene) -> None:
    """It is refused with that fault when its turn comes, and what it said is not kept."""
    for uid in ("a", "b"):
        scene.sink.upserted(pod(uid))

    assert (scene.faults("a"), scene.faults("b")) == ([], [Reason.TOO_MUCH_TOGETHER])
    candidate = scene.book.waiting.get("b")
    assert candidate is not None
    assert not candidate.request.conditions.avoid_uuids
    said = explain.sentence(decisions.Reject("b", candidate.faults), candidate)
    assert said.startswith("the waiting pods of this namespace say too much together: Berth keeps ")


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda sink: sink.deleted(wire.Meta("a", "ml", "a")), id="it is gone"),
        pytest.param(lambda sink: sink.upserted(pod("a", nodeName="n1")), id="it is bound"),
        pytest.param(
            lambda sink: sink.odd(
                watch.Unreadable(wire.Meta("a", "ml", "a"), "odd", b'{"spec":{"nodeName":"n1"}}')
            ),
            id="it is bound and cannot be read",
        ),
    ],
)
def test_a_pod_that_waits_no_more_makes_room(scene: Scene, end: Any) -> None:
    """The next time that the other is told, it is served."""
    for uid in ("a", "b"):
        scene.sink.upserted(pod(uid))
    full = scene.sink.budget.has_room

    end(scene.sink)

    assert (full, scene.sink.budget.has_room) == (False, True)
    scene.sink.upserted(pod("b"))
    assert scene.faults("b") == []


def test_which_pod_has_found_no_room_is_no_drift(scene: Scene) -> None:
    """Told in another order, others are kept: the audit has nothing to mend there."""
    other = Scene()
    for uid in ("a", "b"):
        scene.sink.upserted(pod(uid))
    for uid in ("b", "a"):
        other.sink.upserted(pod(uid))

    assert drift.drift(scene.book, other.book) == ()


class Informer:
    """Stands for the informer of pods, and counts how often all are told again."""

    def __init__(self) -> None:
        self.told = 0

    async def retell(self) -> None:
        """Count it."""
        self.told += 1


@timeless.scenario
async def test_what_was_not_kept_is_read_again_only_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A whole list is read for it, so not before something has gone, and not often."""
    monkeypatch.setattr(budget, "OF_A_NAMESPACE", 100 << 10)
    session = api.Api(connection.Connection(server="http://nowhere"), agent="test")
    nothing: Any = None
    following = feeds.Feeds(session, ledger.Ledger(clock.Clock()), nothing, auditor.Nobody())
    informer: Any = Informer()
    following._all = (informer,)
    sink = following._pods
    counts = []

    async with timeless.beside(following._read_again()):
        for uid in ("a", "b"):
            sink.upserted(pod(uid))
        await asyncio.sleep(10.5 * feeds.READ_AGAIN_SECONDS)
        counts.append(informer.told)
        sink.deleted(wire.Meta("a", "ml", "a"))
        await asyncio.sleep(feeds.READ_AGAIN_SECONDS)
        counts.append(informer.told)
        sink.upserted(pod("b"))
        await asyncio.sleep(10 * feeds.READ_AGAIN_SECONDS)
        counts.append(informer.told)

    assert counts == [0, 1, 1]
