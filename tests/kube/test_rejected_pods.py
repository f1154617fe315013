"""Pods that their kubelets reject are told from those that were deleted, and their nodes are quarantined."""

from typing import Any

import msgspec
import pytest

from berth_crds import names, wire
from berth_crds.client import api, resources
from berth_operator.engine import node_summaries
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.rejections import FIRST_SECONDS, MOST_IN_A_ROW
from berth_operator.kube import rejected_pods
from berth_operator.scheduling import decisions, explain
from berth_operator.translate import raw
from support import clock, ledgers, stub

OURS = {names.TERM: "t", names.ALLOCATION: "{}"}


def bound(
    name: str, *, node: str = "n1", admitted: bool = False, annotations: dict[str, str] = OURS
) -> raw.Pod:
    """Return a pod on a node, as the watch shows it."""
    meta = wire.Meta(name, "ml", f"u-{name}", annotations=annotations)
    of_containers = (raw.ContainerStatus("main"),) if admitted else None
    status = raw.PodStatus("Pending", "2026-01-01T00:00:00Z", container_statuses=of_containers)
    return raw.Pod(meta, raw.PodSpec(node_name=node), status)


def deleted(pod: raw.Pod) -> raw.Pod:
    """Return a pod that somebody has begun to delete."""
    meta = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(pod, metadata=meta)


def ended(name: str, *, uid: str = "", phase: str = "Failed", **status: Any) -> dict[str, Any]:
    """Return a pod as the server has it after it has left the watch."""
    return {"metadata": {"name": name, "uid": uid or f"u-{name}"}, "status": {"phase": phase} | status}


REJECTED = {"reason": "UnexpectedAdmissionError"}


class Scene:
    """A node, its pods, and the watch over what its kubelet rejects."""

    def __init__(self, server: stub.Stub, session: api.Api) -> None:
        self.server = server
        self.time = clock.Clock()
        self.ledger: Ledger = ledgers.with_nodes()
        self.admissions = rejected_pods.Admissions()
        self.watch = rejected_pods.RejectionWatch(session, self.ledger, self.admissions, clock=self.time)

    def leaves(self, name: str, body: dict[str, Any] | None) -> None:
        """Have a pod be bound and leave the watch; the server has it like this, or not any more."""
        path = resources.PODS.path(name, namespace="ml")
        answer = stub.status(404, "not found", reason="NotFound") if body is None else stub.thing(body)
        self.server.on("GET", path, answer)
        self.admissions.pod_seen(bound(name))
        self.admissions.pod_gone(f"u-{name}")

    def quarantine(self) -> str:
        """Return why the node is quarantined for the namespace of the pods."""
        info = self.ledger.inventory.node("n1")
        assert info is not None
        assert not info.quarantine
        return info.namespace_quarantine[1]


@pytest.fixture
def scene(server: stub.Stub, stub_session: api.Api) -> Scene:
    """Lend a scene."""
    return Scene(server, stub_session)


async def test_rejections_in_a_row_are_a_quarantine(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """It says why, and is over after a time."""
    for at in range(MOST_IN_A_ROW):
        assert scene.quarantine() == ""
        scene.leaves(f"p{at}", ended(f"p{at}", **REJECTED))
        await scene.watch.check()

    assert scene.quarantine() == "its kubelet rejected 3 pods in a row: UnexpectedAdmissionError"
    assert "node n1 is quarantined for namespace ml: its kubelet" in caplog.text
    assert "the last was ml/p2" in caplog.text
    scene.time.advance(FIRST_SECONDS)
    await scene.watch.check()
    assert scene.quarantine() == ""


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(None, id="deleted"),
        pytest.param(ended("p", uid="u-2", **REJECTED), id="another of the same name"),
        pytest.param(ended("p", phase="Succeeded"), id="it has done its work"),
        pytest.param(ended("p", containerStatuses=[{"name": "main"}]), id="its container failed"),
        pytest.param(ended("p", initContainerStatuses=[{"name": "init"}]), id="its init container failed"),
    ],
)
async def test_what_is_no_rejection_does_not_count(scene: Scene, body: dict[str, Any] | None) -> None:
    """However often it happens."""
    for _ in range(2 * MOST_IN_A_ROW):
        scene.leaves("p", body)
        await scene.watch.check()

    assert scene.quarantine() == ""


async def test_a_pod_that_is_admitted_ends_it(scene: Scene) -> None:
    """And it is not read when it leaves."""
    for at in range(MOST_IN_A_ROW):
        scene.leaves(f"p{at}", ended(f"p{at}", **REJECTED))
    await scene.watch.check()
    assert scene.quarantine()

    scene.admissions.pod_seen(bound("late"))
    scene.admissions.pod_seen(bound("late", admitted=True))
    scene.admissions.pod_gone("u-late")
    await scene.watch.check()

    assert scene.quarantine() == ""
    assert not any(one.path.endswith("/late") for one in scene.server.requests)


async def test_a_pod_without_devices_neither_begins_nor_ends_it(scene: Scene) -> None:
    """A quarantined node goes on getting such, and admits them."""
    plain = {names.TERM: "t"}
    for at in range(MOST_IN_A_ROW):
        scene.admissions.pod_seen(bound(f"plain{at}", annotations=plain))
        scene.admissions.pod_gone(f"u-plain{at}")
    assert not scene.admissions.left

    for at in range(MOST_IN_A_ROW):
        scene.leaves(f"p{at}", ended(f"p{at}", **REJECTED))
        await scene.watch.check()
        scene.admissions.pod_seen(bound(f"plain{at}", annotations=plain))
        scene.admissions.pod_seen(bound(f"plain{at}", annotations=plain, admitted=True))
    await scene.watch.check()

    assert scene.quarantine()


async def test_pods_of_others_are_not_followed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are more than so many."""
    monkeypatch.setattr(rejected_pods, "MOST_UNADMITTED", 2)
    scene.admissions.pod_seen(bound("theirs", annotations={}))
    for name in ("a", "b", "c"):
        scene.admissions.pod_seen(bound(name))
    for name in ("theirs", "a", "b", "c"):
        scene.admissions.pod_gone(f"u-{name}")

    assert [one.name for one in scene.admissions.left] == ["a", "b"]


async def test_a_pod_that_somebody_deletes_is_not_read(scene: Scene) -> None:
    """A crowd that is deleted before it starts costs no reads; a pod that starts all the same counts."""
    for pod in (bound("p"), bound("q")):
        scene.admissions.pod_seen(pod)
        scene.admissions.pod_seen(deleted(pod))
    scene.admissions.pod_gone("u-p")

    await scene.watch.check()
    assert not scene.server.requests
    assert not scene.admissions.admitting

    scene.admissions.pod_seen(deleted(bound("q", admitted=True)))
    assert scene.admissions.admitting == {("n1", "ml")}


async def test_a_server_that_does_not_answer_stops_nothing(scene: Scene) -> None:
    """What cannot be read now is read again later."""
    path = resources.PODS.path("p", namespace="ml")
    scene.server.on("GET", path, stub.status(503, "away"))
    scene.admissions.pod_seen(bound("p"))
    scene.admissions.pod_gone("u-p")

    await scene.watch.check()

    assert (scene.quarantine(), len(scene.admissions.left)) == ("", 1)
    scene.server.on("GET", path, stub.thing(ended("p", **REJECTED)))
    await scene.watch.check()
    assert not scene.admissions.left


async def test_a_node_that_is_gone_is_forgotten(scene: Scene) -> None:
    """Should it come back, its kubelet is trusted like any other."""
    for at in range(MOST_IN_A_ROW):
        scene.leaves(f"p{at}", ended(f"p{at}", **REJECTED))
    await scene.watch.check()
    scene.ledger.node_gone("n1")
    scene.ledger.device_gone("n1")
    await scene.watch.check()

    assert not scene.ledger.inventory.quarantines.of_namespace("ml")


def test_a_node_that_is_quarantined_for_a_namespace_gets_pods_of_others() -> None:
    """The pods of that namespace wait, are told why, and are tried again as soon as it is over."""
    ledger = ledgers.with_nodes()
    ledger.node_quarantined("n1", "its kubelet rejected 3 pods in a row: SysctlForbidden", "ml")
    theirs, other = (ledgers.add_waiting(ledger, name, namespace=name) for name in ("ml", "ops"))
    plain = ledgers.add_waiting(ledger, "plain", 0, namespace="ml")
    found = {one.uid: one for one in ledgers.decide(ledger)}

    assert isinstance(found[other.uid], decisions.Bind)
    assert isinstance(found[plain.uid], decisions.Bind)
    wait = found[theirs.uid]
    assert isinstance(wait, decisions.Wait)
    explanation = explain.explain(ledger.search, theirs, policy=ledger.policy)
    assert explain.sentence(explanation, theirs) == (
        "0/1 nodes are available: 1 is quarantined "
        "(its kubelet rejected 3 pods in a row: SysctlForbidden). Would fit if the quarantine of n1 ended."
    )
    info = ledger.inventory.node("n1")
    assert info is not None and info.in_service
    assert node_summaries.reason(info) == (
        "quarantined for namespace ml: its kubelet rejected 3 pods in a row: SysctlForbidden"
    )
    ledger.backlog.requeue(theirs.uid, now=0.0, awaited=wait.awaited)
    ledger.node_quarantined("n1", "")
    assert isinstance({one.uid: one for one in ledgers.decide(ledger)}[theirs.uid], decisions.Bind)


def test_a_quarantined_node_gets_no_pod_with_cards() -> None:
    """Others are not concerned, and its cards are as healthy as before."""
    ledger = ledgers.with_nodes()
    ledger.node_quarantined("n1", "OutOfcpu")

    info = ledger.inventory.node("n1")

    assert info is not None and not info.in_service and info.agent_is_live
    assert info.view().quarantine == "OutOfcpu"
    ledger.node_quarantined("n1", "")
    assert info.in_service
