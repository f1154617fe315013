"""A GpuPod that is not of the pod of its name on its node is removed; no other one is, whatever is late."""

import dataclasses
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from berth_crds.client import api, resources
from berth_operator import metrics
from berth_operator.engine import ledger
from berth_operator.kube import misplaced
from berth_operator.scheduling import holds
from support import clock, stub

Thing = dict[str, Any]
OTHER, GONE = metrics.Removal.OTHER_NODE, metrics.Removal.NO_SUCH_POD
WHERE = resources.GPU_PODS.path("train", namespace="ml")
LISTED = resources.GPU_PODS.path(namespace="ml")
POD = resources.PODS.path("train", namespace="ml")
NONE = stub.thing(
    {
        "kind": "Status",
        "status": "Failure",
        "code": 404,
        "reason": "NotFound",
        "message": 'pods "train" not found',
        "details": {"name": "train", "kind": "pods"},
    },
    code=404,
)


def gpupod(node: str = "n1", pod_uid: str = "u1", **meta: Any) -> Thing:
    """Make the GpuPod ml/train."""
    spec = {"node": node, "podUID": pod_uid, "containers": []}
    return {
        "metadata": {"name": "train", "namespace": "ml", "uid": "g1", "resourceVersion": "5"} | meta,
        "spec": spec,
    }


def pod(node: str = "n1", uid: str = "u1") -> stub.Answer:
    """Answer with the pod ml/train."""
    spec = {"nodeName": node} if node else {}
    return stub.thing({"metadata": {"name": "train", "namespace": "ml", "uid": uid}, "spec": spec})


class Scene:
    """A server with one GpuPod and its pod, what the operator knows of both, and a cleaner."""

    def __init__(self, server: stub.Stub, session: api.Api) -> None:
        self.server = server
        self.book = ledger.Ledger(clock.Clock())
        self.known = misplaced.Known()
        self.clock = clock.Clock()
        self.leading = True
        self.reasons: list[metrics.Removal] = []
        self.cleaner = misplaced.Cleaner(
            session, self.book, self.known, self, clock=self.clock, removed=self.reasons.append
        )
        server.on("DELETE", WHERE, stub.thing({}))

    def leads(self) -> bool:
        """Whether it leads."""
        return self.leading

    async def sure(self) -> None:
        """Be sure at once."""

    @property
    def removed(self) -> int:
        """How many were removed."""
        return len(self.reasons)

    def knows(self, node: str, *, pod_uid: str = "u1", uid: str = "g1", title: str = "ml/train") -> None:
        """Let the operator know of a GpuPod."""
        self.known.put(title, misplaced.Record(uid, pod_uid, node))

    def bound(self, node: str, *, uid: str = "u1") -> None:
        """Let the operator know of the bound pod."""
        self.book.pod_bound(holds.Hold(uid, "ml/train", node))

    def serves(self, found: Thing | None, answer: stub.Answer) -> None:
        """Let the server have these."""
        self.server.on("GET", LISTED, stub.page(*([found] if found else []), version="9"))
        self.server.on("GET", POD, answer)

    async def passes(self, count: int = 2) -> None:
        """Look so many times."""
        for _ in range(count):
            await self.cleaner.look()

    @property
    def deletes(self) -> list[Thing]:
        """The bodies of all deletes."""
        both = zip(self.server.requests, self.server.bodies, strict=True)
        return [json.loads(body) for request, body in both if request.method == "DELETE"]


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
            misplaced.Objection(OTHER, "it is of node n2, and the pod is on n1"),
            id="another node's",
        ),
        pytest.param(
            {"pod_uid": "u0"},
            "n1",
            pod(),
            misplaced.Objection(GONE, "it is of a pod with the uid u0, and that of the pod is u1"),
            id="another pod's",
        ),
        pytest.param(
            {"node": "n2"}, "", NONE, misplaced.Objection(GONE, "there is no pod of that name"), id="nobody's"
        ),
        pytest.param(
            {"node": "n2"},
            "",
            pod(node=""),
            misplaced.Objection(OTHER, "it is of node n2, and the pod is on no node"),
            id="of a pod that waits",
        ),
    ],
)
async def test_a_misplaced_one_is_removed(
    scene: Scene,
    written: dict[str, str],
    known_pod: str,
    answer: stub.Answer,
    why: misplaced.Objection,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Found so twice in a row, and read anew: that very object is deleted, counted, and told of in a line."""
    caplog.set_level(logging.INFO, misplaced.__name__)
    scene.knows(**{"node": "n1"} | written)
    if known_pod:
        scene.bound(known_pod)
    scene.serves(gpupod(**written), answer)

    await scene.passes(1)
    after_one = len(scene.server.requests)
    await scene.passes(1)

    assert after_one == 0
    assert scene.deletes == [{"preconditions": {"uid": "g1"}}]
    assert scene.reasons == [why.why]
    node = written.get("node", "n1")
    level = logging.WARNING if why.why is OTHER else logging.INFO
    line = f"GpuPod ml/train, which was written for node {node}, is removed: {why.text}"
    told = [one for one in caplog.records if one.name == misplaced.__name__]
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


async def test_one_that_is_made_again_for_the_same_node_is_misplaced_still(scene: Scene) -> None:
    """Whoever deletes his record and makes another between two passes does not escape by that."""
    scene.bound("n1")
    scene.serves(gpupod("n2", uid="g2"), pod())

    for uid in ("g1", "g2"):
        scene.knows("n2", uid=uid)
        await scene.passes(1)

    assert scene.deletes == [{"preconditions": {"uid": "g2"}}]


async def test_one_for_another_node_begins_anew(scene: Scene) -> None:
    """Two passes are two passes over what one node claims."""
    scene.bound("n1")
    scene.serves(gpupod("n2"), pod())

    for node in ("n2", "n3", "n2"):
        scene.knows(node)
        await scene.passes(1)

    assert scene.server.requests == []


async def removed_once(scene: Scene) -> None:
    """Have one of n2 removed, which is bound on n1, and its news come."""
    scene.bound("n1")
    scene.serves(gpupod("n2"), pod())
    scene.knows("n2")
    await scene.passes()
    scene.known.drop("ml/train")


async def test_what_comes_for_a_node_with_a_history_is_looked_at_as_it_comes(scene: Scene) -> None:
    """No pass is waited for; what its agent writes rightly is not even read, nor what others write."""
    await removed_once(scene)
    before = len(scene.server.requests)

    scene.book.pod_bound(holds.Hold("u7", "ml/right", "n2"))
    scene.knows("n2", uid="g7", pod_uid="u7", title="ml/right")
    scene.knows("n3", uid="g8", pod_uid="u8", title="ml/other")
    await scene.cleaner.glance()
    idle = len(scene.server.requests)
    scene.knows("n2", uid="g2")
    scene.serves(gpupod("n2", uid="g2"), pod())
    await scene.cleaner.glance()

    assert idle == before
    assert scene.deletes == [{"preconditions": {"uid": "g1"}}, {"preconditions": {"uid": "g2"}}]


async def test_a_history_ends(scene: Scene) -> None:
    """After an hour without a removal a node is looked at like all others."""
    await removed_once(scene)
    before = len(scene.server.requests)

    scene.clock.advance(misplaced.HISTORY_SECONDS)
    scene.knows("n2", uid="g2")
    await scene.cleaner.glance()

    assert len(scene.server.requests) == before


async def test_a_node_with_a_history_takes_no_more_than_its_share(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many are written, some are read at a time, and few wait: passes find the others."""
    monkeypatch.setattr(misplaced, "MOST_HASTY", 3)
    monkeypatch.setattr(misplaced, "MOST_READ", 2)
    await removed_once(scene)
    before = len(scene.server.requests)

    for at in range(50):
        scene.knows("n2", uid=f"g{at}", pod_uid=f"u{at}", title=f"many/p{at}")
    scene.server.on("GET", resources.GPU_PODS.path(namespace="many"), stub.page(version="9"))
    counts = []
    for _ in range(3):
        await scene.cleaner.glance()
        counts.append(len(scene.server.requests) - before)

    assert counts == [2, 3, 3]


async def test_a_flood_of_removals_is_told_in_one_line_a_minute(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """The next line says how many there were; the count of all is a metric."""
    caplog.set_level(logging.INFO, misplaced.__name__)
    await removed_once(scene)

    for _ in range(5):
        scene.knows("n2")
        await scene.cleaner.glance()
        scene.known.drop("ml/train")
    scene.clock.advance(misplaced.TOLD_SECONDS)
    scene.knows("n2")
    await scene.cleaner.glance()

    told = [one.message for one in caplog.records if one.name == misplaced.__name__]
    assert len(told) == 2
    assert told[1].endswith("; 5 more for that node were removed since the last line")
    assert scene.removed == 7


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
    monkeypatch.setattr(misplaced, "MOST_READ", 1)
    broken = resources.GPU_PODS.path(namespace="broken")
    scene.server.on("GET", broken, stub.status(500, "always"))
    scene.knows("n2", uid="g0", title="broken/one")
    scene.knows("n2")
    scene.bound("n1")
    scene.serves(gpupod("n2"), pod())

    await scene.passes(2)
    first = [one.path for one in scene.server.requests]
    scene.known.drop("ml/train")
    scene.known.put("ml/train", misplaced.Record("g9", "u1", "n2"))
    scene.serves(gpupod("n2", uid="g9"), pod())
    await scene.passes(3)

    assert first[0] == LISTED
    assert broken in {one.path for one in scene.server.requests}
    assert scene.deletes[-1] == {"preconditions": {"uid": "g9"}}


async def test_many_are_gone_through_in_turns(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of them give others their turn, and what comes or goes meanwhile is no trouble."""
    monkeypatch.setattr(misplaced, "AT_A_TIME", 10)
    turns = 0
    for at in range(100):
        scene.known.put(f"ml/p{at}", misplaced.Record(f"g{at}", f"u{at}", "n1"))
        scene.book.pod_bound(holds.Hold(f"u{at}", f"ml/p{at}", f"n{at % 20}"))

    looking = scene.cleaner.look()
    step = looking.__await__()
    for turns, _ in enumerate(step, 1):
        scene.known.drop(f"ml/p{turns}")
        scene.book.pod_over(f"u{turns}")
        fresh = dataclasses.replace(scene.known.records["ml/p0"], uid=f"new{turns}")
        scene.known.put(f"ml/new{turns}", fresh)

    assert turns >= 15
