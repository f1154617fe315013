"""A GpuPod that is not of the pod of its name on its node is removed; no other one is, whatever is late."""

import dataclasses
import logging
from collections.abc import AsyncIterator

import msgspec
import pytest

from berth_crds import wire
from berth_crds.client import api, resources
from berth_operator.kube import misplaced_gpupods, suspect_gpupods
from berth_operator.scheduling import holds
from kube.cleaning import GONE, LISTED, NONE, OTHER, POD, WHERE, Scene, Thing, gpupod, pod
from support import stub


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """Lend a scene."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        yield Scene(server, session)


@pytest.mark.parametrize(
    ("written", "known_pod", "answer", "why"),
    [
        pytest.param(
            {"node": "n2"},
            "n1",
            pod(),
            misplaced_gpupods.Mismatch(OTHER, "it is of node n2, and the pod is on n1"),
            id="another node's",
        ),
        pytest.param(
            {"pod_uid": "u0"},
            "n1",
            pod(),
            misplaced_gpupods.Mismatch(GONE, "it is of a pod with the uid u0, and that of the pod is u1"),
            id="another pod's",
        ),
        pytest.param(
            {"node": "n2"},
            "",
            NONE,
            misplaced_gpupods.Mismatch(GONE, "there is no pod of that name"),
            id="nobody's",
        ),
        pytest.param(
            {"node": "n2"},
            "",
            pod(node=""),
            misplaced_gpupods.Mismatch(OTHER, "it is of node n2, and the pod is on no node"),
            id="of a pod that waits",
        ),
    ],
)
async def test_a_misplaced_one_is_removed(
    scene: Scene,
    written: dict[str, str],
    known_pod: str,
    answer: stub.Answer,
    why: misplaced_gpupods.Mismatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Found so twice in a row, and read anew: that very object is deleted, counted, and told of in a line."""
    caplog.set_level(logging.INFO, misplaced_gpupods.__name__)
    scene.knows(**{"node": "n1"} | written)
    if known_pod:
        scene.bound(known_pod)
    scene.serves(gpupod(**written), answer)

    await scene.passes(1)
    after_one = len(scene.server.requests)
    await scene.passes(1)

    assert after_one == 0
    assert scene.deletes == [{"preconditions": {"uid": "g1"}}]
    assert scene.reasons == [why.cause]
    node = written.get("node", "n1")
    level = logging.WARNING if why.cause is OTHER else logging.INFO
    line = f"GpuPod ml/train, which was written for node {node}, is removed: {why.text}"
    told = [one for one in caplog.records if one.name == misplaced_gpupods.__name__]
    assert [(one.levelno, one.message) for one in told] == [(level, line)]
    [asked] = [one for one in scene.server.requests if one.path == LISTED]
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
    scene: Scene, found: Thing | None, answer: stub.Answer
) -> None:
    """What was read anew decides, and nothing is deleted on a doubt."""
    scene.knows("n1")
    scene.serves(found, answer)

    await scene.passes(4)

    assert scene.deletes == []


async def test_one_that_is_right_costs_nothing(scene: Scene) -> None:
    """Where the bound pod has this uid on this node, the server is not asked."""
    scene.knows("n1")
    scene.bound("n1")

    await scene.passes(4)

    assert scene.server.requests == []


def beside(node: str = "n1", uid: str = "g1") -> Thing:
    """Make a GpuPod of the pod ml/train that has not its name, because another has it."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "u1"}
    return gpupod(node, name=f"u1.{node}", uid=uid, ownerReferences=[owner])


@pytest.mark.parametrize("place", [pytest.param("n1", id="right"), pytest.param("n2", id="of another node")])
async def test_one_beside_that_of_the_name_is_held_to_its_owner(scene: Scene, place: str) -> None:
    """It is named by the uid of its pod and its node: the name of its pod stands in its owner."""
    thing = beside(place)
    scene.store.put(f"ml/u1.{place}", misplaced_gpupods.record(msgspec.convert(thing, wire.GpuPod)))
    scene.bound("n1")
    scene.serves(thing, pod())
    scene.server.on("DELETE", resources.GPU_PODS.path(f"u1.{place}", namespace="ml"), stub.thing({}))

    await scene.passes()

    right = place == "n1"
    assert scene.reasons == ([] if right else [OTHER])
    assert [one.path for one in scene.server.requests if one.method == "GET"] == (
        [] if right else [LISTED, POD]
    )


@pytest.mark.parametrize("name", ["train/log", "../../secrets/s", "train?watch=true", "%2e%2e", ""])
async def test_an_owner_that_can_be_no_pod_is_not_asked_for(scene: Scene, name: str) -> None:
    """The API server takes any word for an owner's name: none leads to another path than a pod's."""
    thing = beside()
    thing["metadata"]["ownerReferences"][0]["name"] = name
    mine = resources.PODS.path("u1.n1", namespace="ml")
    scene.store.put("ml/u1.n1", misplaced_gpupods.record(msgspec.convert(thing, wire.GpuPod)))
    scene.serves(thing, pod())
    scene.server.on("GET", mine, NONE)
    scene.server.on("DELETE", resources.GPU_PODS.path("u1.n1", namespace="ml"), stub.thing({}))

    await scene.passes()

    assert [one.path for one in scene.server.requests if one.method == "GET"] == [LISTED, mine]
    assert scene.reasons == [GONE]


async def test_one_that_was_right_is_not_read_when_its_pod_has_ended(scene: Scene) -> None:
    """Node and uid of a GpuPod never change: what a bound pod proved once, it proved for ever."""
    scene.knows("n1")
    scene.bound("n1")
    await scene.passes(1)
    scene.ledger.pod_over("u1")
    scene.bound("n1", uid="u2")
    scene.knows("n1", pod_uid="u2", uid="g2")
    scene.ledger.pod_over("u2")

    await scene.passes(3)

    assert scene.server.requests == []


async def test_what_was_seen_of_those_that_are_gone_is_forgotten(scene: Scene) -> None:
    """A replica that stands by for a year hears of every GpuPod that comes and goes, and looks at none."""
    scene.bound("n1")

    for at in range(100):
        scene.knows("n1", uid=f"g{at}")
        right = len(scene.store.verified)
        scene.store.drop("ml/train")

        assert (right, len(scene.store.verified)) == (1, 0)


async def test_what_comes_keeps_nobody_from_his_turn(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """With each pass come as many others as are read in one: all are read in turn."""
    monkeypatch.setattr(suspect_gpupods, "MOST_READ", 1)
    scene.knows("n1")
    scene.serves(gpupod(), NONE)
    scene.server.on("DELETE", WHERE, stub.reset(), stub.thing({}))
    scene.server.on("GET", resources.GPU_PODS.path(namespace="others"), stub.page(version="9"))

    for at in range(8):
        scene.knows("n1", pod_uid=f"v{at}", uid=f"h{at}", title=f"others/p{at}")
        await scene.passes(1)

    assert scene.removed >= 1


async def test_one_of_a_pod_that_ended_is_read_once(scene: Scene) -> None:
    """Such pods are not followed: that it is right is remembered, until a pod of that name is known again."""
    scene.knows("n1")
    scene.serves(gpupod(), pod())
    await scene.passes(6)
    reads = len(scene.server.requests)

    scene.bound("n3", uid="u3")
    scene.serves(gpupod(), pod(node="n3", uid="u3"))
    await scene.passes(2)

    assert reads == 2
    assert len(scene.deletes) == 1


@pytest.mark.parametrize("nodes", [("n2", "n2"), ("n3", "n2")], ids=["the same node", "another node"])
async def test_one_that_is_made_again_is_misplaced_still(scene: Scene, nodes: tuple[str, str]) -> None:
    """Whoever deletes his record and makes another between two passes does not escape by that."""
    scene.bound("n1")
    scene.serves(gpupod("n2", uid="g2"), pod())

    for node, uid in zip(nodes, ("g1", "g2"), strict=True):
        scene.knows(node, uid=uid)
        await scene.passes(1)

    assert scene.deletes == [{"preconditions": {"uid": "g2"}}]


async def test_who_does_not_lead_deletes_nothing(scene: Scene) -> None:
    """The lead is asked for after all has been read."""
    scene.knows("n2")
    scene.bound("n1")
    scene.serves(gpupod("n2"), pod())
    scene.leading = False

    await scene.passes(3)

    assert scene.deletes == []


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(stub.status(409, "the uid is another", reason="Conflict"), id="another by now"),
        pytest.param(stub.status(404, "gone", reason="NotFound"), id="gone by now"),
        pytest.param(stub.status(403, "a webhook says no", reason="Forbidden"), id="refused"),
        pytest.param(stub.reset(), id="no answer"),
    ],
)
async def test_a_delete_that_fails_is_tried_again(scene: Scene, answer: stub.Answer) -> None:
    """Nothing is counted then, and the next pass looks at it again."""
    scene.knows("n2")
    scene.bound("n1")
    scene.serves(gpupod("n2"), pod())
    scene.server.on("DELETE", WHERE, answer, stub.thing({}))

    await scene.passes(2)
    before = scene.removed
    await scene.passes(1)

    assert (before, scene.removed) == (0, 1)


async def test_a_few_are_read_in_a_pass_and_each_has_its_turn(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that cannot be judged does not keep the others from it; those of bound pods come first."""
    monkeypatch.setattr(suspect_gpupods, "MOST_READ", 1)
    broken = resources.GPU_PODS.path(namespace="broken")
    scene.server.on("GET", broken, stub.status(500, "always"))
    scene.knows("n2", uid="g0", title="broken/one")
    scene.knows("n2")
    scene.bound("n1")
    scene.serves(gpupod("n2"), pod())

    await scene.passes(2)
    first = [one.path for one in scene.server.requests]
    scene.store.drop("ml/train")
    scene.store.put("ml/train", misplaced_gpupods.Record("g9", "u1", "n2"))
    scene.serves(gpupod("n2", uid="g9"), pod())
    await scene.passes(3)

    assert first[0] == LISTED
    assert broken in {one.path for one in scene.server.requests}
    assert scene.deletes[-1] == {"preconditions": {"uid": "g9"}}


async def test_many_are_gone_through_in_turns(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of them give others their turn, and what comes or goes meanwhile is no trouble."""
    monkeypatch.setattr(misplaced_gpupods, "YIELD_EVERY", 10)
    turns = 0
    for at in range(100):
        scene.store.put(f"ml/p{at}", misplaced_gpupods.Record(f"g{at}", f"u{at}", "n1"))
        scene.ledger.pod_bound(holds.Hold(f"u{at}", f"ml/p{at}", f"n{at % 20}"))

    looking = scene.cleaner.scan()
    step = looking.__await__()
    for turns, _ in enumerate(step, 1):
        scene.store.drop(f"ml/p{turns}")
        scene.ledger.pod_over(f"u{turns}")
        fresh = dataclasses.replace(scene.store.records["ml/p0"], uid=f"new{turns}")
        scene.store.put(f"ml/new{turns}", fresh)

    assert turns >= 15
