"""A GpuPod that is not of the pod of its name on its node is removed; no other one is, whatever is late."""

import dataclasses
import logging

import msgspec
import pytest

from berth_crds import wire
from berth_crds.client import api, resources
from berth_operator.kube import gpupod_store, misplaced_gpupods, suspect_gpupods
from berth_operator.scheduling import holds
from kube.cleaning import GONE, LISTED, NONE, OTHER, POD, WHERE, Cleaner, Thing, gpupod, pod
from support import stub


@pytest.fixture
def cleaner(server: stub.Stub, stub_session: api.Api) -> Cleaner:
    """Lend a cleaner."""
    return Cleaner(server, stub_session)


@pytest.mark.parametrize(
    ("written", "known_pod", "answer", "why"),
    [
        pytest.param(
            {"node": "n2"},
            "n1",
            pod(),
            (OTHER, "it is of node n2, and the pod is on n1"),
            id="another node's",
        ),
        pytest.param(
            {"pod_uid": "u0"},
            "n1",
            pod(),
            (GONE, "it is of a pod with the uid u0, and that of the pod is u1"),
            id="another pod's",
        ),
        pytest.param(
            {"node": "n2"},
            "",
            NONE,
            (GONE, "there is no pod of that name"),
            id="nobody's",
        ),
        pytest.param(
            {"node": "n2"},
            "",
            pod(node=""),
            (OTHER, "it is of node n2, and the pod is on no node"),
            id="of a pod that waits",
        ),
    ],
)
async def test_a_misplaced_one_is_removed(
    cleaner: Cleaner,
    written: dict[str, str],
    known_pod: str,
    answer: stub.Answer,
    why: misplaced_gpupods.Mismatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Found so twice in a row, and read anew: that very object is deleted, counted, and told of in a line."""
    caplog.set_level(logging.INFO, misplaced_gpupods.__name__)
    cleaner.knows(**{"node": "n1"} | written)
    if known_pod:
        cleaner.bound(known_pod)
    cleaner.serves(gpupod(**written), answer)
    cause, words = why

    await cleaner.scan()
    early = len(cleaner.server.requests)
    await cleaner.scan()

    assert early == 0
    assert cleaner.deletes == [{"preconditions": {"uid": "g1"}}]
    assert cleaner.removals == [cause]
    level = logging.WARNING if cause is OTHER else logging.INFO
    node = written.get("node", "n1")
    line = f"GpuPod ml/train, which was written for node {node}, is removed: {words}"
    assert caplog.record_tuples == [(misplaced_gpupods.__name__, level, line)]
    (asked,) = [request for request in cleaner.server.requests if request.path == LISTED]
    assert dict(asked.query) == {"fieldSelector": "metadata.name=train", "limit": "1"}


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        pytest.param(gpupod(), pod(), id="the pod was bound, and the news of that is late"),
        pytest.param(None, pod(node="n2"), id="it is gone"),
        pytest.param(gpupod(deletionTimestamp="2026-01-01T00:00:00Z"), NONE, id="it is about to go"),
        pytest.param(gpupod(), stub.status(404, "page not found"), id="a 404 that proves nothing"),
        pytest.param(gpupod(), stub.status(503, "overloaded"), id="the pod cannot be read"),
        pytest.param(gpupod(), stub.thing({"metadata": {"uid": 7}}), id="the pod makes no sense"),
        pytest.param({"metadata": {"name": "train"}, "spec": 7}, NONE, id="it makes no sense"),
    ],
)
async def test_what_may_be_right_is_left_alone(
    cleaner: Cleaner, found: Thing | None, answer: stub.Answer
) -> None:
    """What was read anew decides, and nothing is deleted on a doubt."""
    cleaner.knows("n1")
    cleaner.serves(found, answer)

    await cleaner.scans(4)

    assert cleaner.deletes == []


def beside(node: str = "n1", owner: str = "train") -> Thing:
    """Return a GpuPod of the pod ml/train that has not its name, because another has it."""
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": "u1"}]
    return gpupod(node, name=f"u1.{node}", ownerReferences=owners)


def serve_beside(cleaner: Cleaner, thing: Thing) -> None:
    """Let the operator and the server have such a GpuPod."""
    name = thing["metadata"]["name"]
    cleaner.store.put(f"ml/{name}", gpupod_store.record(msgspec.convert(thing, wire.GpuPod)))
    cleaner.serves(thing, pod())
    cleaner.server.on("DELETE", resources.GPU_PODS.path(name, namespace="ml"), stub.thing({}))


@pytest.mark.parametrize(
    ("node", "removals", "reads"),
    [
        pytest.param("n1", [], [], id="right"),
        pytest.param("n2", [OTHER], [LISTED, POD], id="of another node"),
    ],
)
async def test_one_beside_that_of_the_name_is_held_to_its_owner(
    cleaner: Cleaner, node: str, removals: list[object], reads: list[str]
) -> None:
    """It is named by the uid of its pod and its node: the name of its pod stands in its owner."""
    serve_beside(cleaner, beside(node))
    cleaner.bound("n1")

    await cleaner.scans()

    assert cleaner.removals == removals
    assert [request.path for request in cleaner.server.requests if request.method == "GET"] == reads


@pytest.mark.parametrize("name", ["train/log", "../../secrets/s", "train?watch=true", "%2e%2e", ""])
async def test_an_owner_that_can_be_no_pod_is_not_asked_for(cleaner: Cleaner, name: str) -> None:
    """The API server takes any word for an owner's name: none leads to another path than a pod's."""
    serve_beside(cleaner, beside(owner=name))
    mine = resources.PODS.path("u1.n1", namespace="ml")
    cleaner.server.on("GET", mine, NONE)

    await cleaner.scans()

    assert cleaner.removals == [GONE]
    assert [request.path for request in cleaner.server.requests if request.method == "GET"] == [LISTED, mine]


async def test_one_that_was_right_is_not_read_when_its_pod_has_ended(cleaner: Cleaner) -> None:
    """Node and uid of a GpuPod never change: what a bound pod proved once, it proved for ever."""
    cleaner.knows("n1")
    cleaner.bound("n1")
    await cleaner.scan()
    cleaner.ledger.pod_over("u1")
    cleaner.bound("n1", uid="u2")
    cleaner.knows("n1", pod_uid="u2", uid="g2")
    cleaner.ledger.pod_over("u2")

    await cleaner.scans(3)

    assert cleaner.server.requests == []


async def test_what_was_seen_of_those_that_are_gone_is_forgotten(cleaner: Cleaner) -> None:
    """A replica that stands by for a year hears of every GpuPod that comes and goes, and looks at none."""
    cleaner.bound("n1")

    for number in range(100):
        cleaner.knows("n1", uid=f"g{number}")
        right = len(cleaner.store.verified)
        cleaner.store.drop("ml/train")

        assert (right, len(cleaner.store.verified)) == (1, 0)


async def test_what_comes_keeps_nobody_from_his_turn(
    cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With each scan come as many others as are read in one: all are read in turn."""
    monkeypatch.setattr(suspect_gpupods, "MOST_READ", 1)
    cleaner.knows("n1")
    cleaner.serves(gpupod(), NONE)
    cleaner.server.on("DELETE", WHERE, stub.reset(), stub.thing({}))
    cleaner.server.on("GET", resources.GPU_PODS.path(namespace="others"), stub.page(version="9"))

    for number in range(8):
        cleaner.knows("n1", pod_uid=f"v{number}", uid=f"h{number}", title=f"others/p{number}")
        await cleaner.scan()

    assert cleaner.removals


async def test_one_of_a_pod_that_ended_is_read_once(cleaner: Cleaner) -> None:
    """Such pods are not followed: that it is right is remembered, until a pod of that name is known again."""
    cleaner.knows("n1")
    cleaner.serves(gpupod(), pod())
    await cleaner.scans(6)
    requests = len(cleaner.server.requests)

    cleaner.bound("n3", uid="u3")
    cleaner.serves(gpupod(), pod(node="n3", uid="u3"))
    await cleaner.scans()

    assert requests == 2
    assert len(cleaner.deletes) == 1


async def test_one_whose_end_was_missed_is_forgotten_once_it_is_read(cleaner: Cleaner) -> None:
    """It is not read again and again, and does not count for its node any more."""
    cleaner.knows("n2")
    cleaner.bound("n1")
    cleaner.serves(None, NONE)

    await cleaner.scans(6)

    assert len(cleaner.reads) == 1
    assert not cleaner.store.records


@pytest.mark.parametrize("many", [False, True], ids=["within the limit of its node", "beyond it"])
def test_the_end_of_one_that_was_made_again_may_come_late(
    cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch, *, many: bool
) -> None:
    """The one that is there by now is still checked, until its own end comes."""
    monkeypatch.setattr(gpupod_store, "MOST_OF_A_NODE", 0 if many else 9)
    cleaner.knows("n2", uid="g1")
    cleaner.knows("n2", uid="g2")

    cleaner.store.drop_uid("ml/train", "g1")
    known = cleaner.store.uid("ml/train")
    cleaner.store.drop_uid("ml/train", "g2")

    assert (known, cleaner.store.uid("ml/train")) == ("g2", "")


@pytest.mark.parametrize("first", ["n2", "n3"], ids=["the same node", "another node"])
async def test_one_that_is_made_again_is_misplaced_still(cleaner: Cleaner, first: str) -> None:
    """Whoever deletes his record and makes another between two scans does not escape by that."""
    cleaner.bound("n1")
    cleaner.knows(first)
    await cleaner.scan()

    cleaner.misplaced(uid="g2")
    await cleaner.scan()

    assert cleaner.deletes == [{"preconditions": {"uid": "g2"}}]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(stub.status(409, "the uid is another", reason="Conflict"), id="another by now"),
        pytest.param(stub.status(404, "gone", reason="NotFound"), id="gone by now"),
        pytest.param(stub.status(404, "page not found"), id="a proxy's 404"),
        pytest.param(stub.status(403, "a webhook says no", reason="Forbidden"), id="refused"),
        pytest.param(stub.reset(), id="no answer"),
    ],
)
async def test_a_delete_that_fails_is_tried_again(cleaner: Cleaner, answer: stub.Answer) -> None:
    """Nothing is counted then, and the next scan looks at it again."""
    cleaner.misplaced()
    cleaner.server.on("DELETE", WHERE, answer, stub.thing({}))

    await cleaner.scans()
    before = len(cleaner.removals)
    await cleaner.scan()

    assert (before, len(cleaner.removals)) == (0, 1)


async def test_a_few_are_read_in_a_scan_and_each_has_its_turn(
    cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that cannot be judged does not keep the others from it; those of bound pods come first."""
    monkeypatch.setattr(suspect_gpupods, "MOST_READ", 1)
    broken = resources.GPU_PODS.path(namespace="broken")
    cleaner.server.on("GET", broken, stub.status(500, "always"))
    cleaner.knows("n2", uid="g0", title="broken/one")
    cleaner.misplaced()

    await cleaner.scans()
    first = cleaner.server.requests[0].path
    cleaner.store.drop("ml/train")
    cleaner.misplaced(uid="g9")
    await cleaner.scans(3)

    assert first == LISTED
    assert broken in {request.path for request in cleaner.server.requests}
    assert cleaner.deletes[-1] == {"preconditions": {"uid": "g9"}}


async def test_many_are_gone_through_in_turns(cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of them give others their turn, and what comes or goes meanwhile is no trouble."""
    monkeypatch.setattr(misplaced_gpupods, "YIELD_EVERY", 10)
    turn = 0
    for number in range(100):
        cleaner.store.put(f"ml/p{number}", gpupod_store.Record(f"g{number}", f"u{number}", "n1"))
        cleaner.ledger.pod_bound(holds.Hold(f"u{number}", f"ml/p{number}", f"n{number % 20}"))

    for turn, _ in enumerate(cleaner.scan().__await__(), 1):
        cleaner.store.drop(f"ml/p{turn}")
        cleaner.ledger.pod_over(f"u{turn}")
        fresh = dataclasses.replace(cleaner.store.records["ml/p0"], uid=f"new{turn}")
        cleaner.store.put(f"ml/new{turn}", fresh)

    assert turn >= 15
