"""What a pod is to Berth: one that waits, one that holds, or one that is over."""

from typing import Any

import msgspec
import pytest

from berth_crds import allocation, names, wire
from berth_crds.client import watch
from berth_operator.scheduling import cycle, decisions, holds, policy
from berth_operator.scheduling.devices import allocator
from berth_operator.translate import pods, raw
from support import builders


def bound(pod: raw.Pod) -> pods.Bound:
    """View a pod that must be bound."""
    found = pods.view(pod)
    assert isinstance(found, pods.Bound)
    return found


# ---------------------------------------------------------------- views

ON_NODE: dict[str, Any] = {"nodeName": "n1"}
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("pod", "kind"),
    [
        pytest.param(builders.pod(), pods.Waiting, id="new"),
        pytest.param(builders.pod(schedulingGates=[{"name": "g"}]), pods.Waiting, id="gated"),
        pytest.param(builders.pod(**ON_NODE), pods.Bound, id="bound"),
        pytest.param(builders.pod(**ON_NODE, phase="Running"), pods.Bound, id="running"),
        pytest.param(builders.pod(**ON_NODE, meta=LEAVING), pods.Bound, id="bound and being deleted"),
        pytest.param(builders.pod(**ON_NODE, schedulerName="other"), pods.Bound, id="bound by somebody else"),
        pytest.param(builders.pod(**ON_NODE, phase="Unknown"), pods.Bound, id="bound and lost from sight"),
        pytest.param(builders.pod(**ON_NODE, phase="Succeeded"), pods.Over, id="done"),
        pytest.param(builders.pod(**ON_NODE, phase="Failed"), pods.Over, id="failed"),
        pytest.param(builders.pod(phase="Failed"), pods.Over, id="failed before it was bound"),
        pytest.param(builders.pod(meta=LEAVING), pods.Over, id="deleted before it was bound"),
        pytest.param(builders.pod(schedulerName="other"), pods.Over, id="of another scheduler"),
        pytest.param(builders.pod(schedulerName=""), pods.Over, id="of no scheduler"),
    ],
)
def test_view(pod: raw.Pod, kind: type) -> None:
    """Every pod waits for us, holds something, or is none of our business (any more)."""
    assert type(pods.view(pod)) is kind


def test_waiting_pod_is_read_whole() -> None:
    """All that the core needs of a waiting pod arrives there."""
    pod = builders.pod(
        "p",
        gpus=2,
        meta={"creationTimestamp": "2026-01-01T00:00:00Z"},
        priority=7,
        nodeSelector={"zone": "a"},
    )

    found = pods.view(pod)

    assert isinstance(found, pods.Waiting)
    assert not found.gated
    candidate = found.candidate
    assert (candidate.uid, candidate.title) == ("uid-p", "ml/p")
    assert (candidate.priority, candidate.created) == (7, "2026-01-01T00:00:00Z")
    assert candidate.request.cards == 2
    assert candidate.demand.served == ((names.NVIDIA_GPU, 2),)
    assert candidate.demand.where.selector == (("zone", "a"),)
    assert candidate.faults == ()


def test_gated_pod_says_so() -> None:
    """A pod with a gate is known and not to be tried."""
    found = pods.view(builders.pod(schedulingGates=[{"name": "g"}]))

    assert isinstance(found, pods.Waiting)
    assert found.gated


def test_allocation_without_a_node_is_ignored() -> None:
    """A record that somebody wrote on a pod before its bind promises nothing (I9)."""
    pod = builders.pod(gpus=1, annotations=builders.record("n1", main=[0]))

    found = pods.view(pod)

    assert isinstance(found, pods.Waiting)
    assert found.candidate == pods.candidate(builders.pod(gpus=1))


def test_status_changes_do_not_change_the_candidate() -> None:
    """A condition or an annotation of no meaning does not make an edited request."""
    plain = builders.pod(gpus=1)
    noisy = builders.pod(
        gpus=1, annotations={"note": "x"}, meta={"resourceVersion": "7", "labels": {"a": "b"}}
    )

    assert pods.candidate(plain) == pods.candidate(noisy)


# ---------------------------------------------------------------- what a bound pod holds


def test_readable_allocation_is_what_it_holds() -> None:
    """A bound pod holds the very cards of its record, and its share of the node."""
    pod = builders.pod(gpus=2, nodeName="n1", annotations=builders.record("n1", main=[1, 3]))

    found = bound(pod)

    assert found.fault == ""
    assert found.hold == holds.Hold(
        "uid-p",
        "ml/p",
        "n1",
        amounts=((names.NVIDIA_GPU, 2), ("pods", 1)),
        shares=(builders.share(1), builders.share(3)),
    )


def test_borrowed_card_is_held_once() -> None:
    """A card that several containers use one after the other is held once."""
    pod = builders.pod(
        initContainers=[builders.container("init", gpus=1)],
        containers=[builders.container("main", gpus=1)],
        nodeName="n1",
        annotations=builders.record("n1", init=[0], main=[0]),
    )

    found = bound(pod)

    assert found.hold.shares == (builders.share(0),)
    assert (found.hold.withheld, found.fault) == (0, "")


def test_devices_of_other_types_are_not_cards() -> None:
    """A NIC in the record is no GPU that is held."""
    record = allocation.of(
        "n1",
        {
            "main": {
                "gpu": [allocation.Share("GPU-n1-0", 0, 100, 1)],
                "rdma": [allocation.Share("r", 0, 100, 0)],
            }
        },
    )
    pod = builders.pod(gpus=1, nodeName="n1", annotations={names.ALLOCATION: allocation.encode(record)})

    found = bound(pod)

    assert [share.uuid for share in found.hold.shares] == ["GPU-n1-0"]


RDMA = allocation.encode(allocation.of("n1", {"main": {"rdma": [allocation.Share("r", 0, 100, 0)]}}))

WITHHELD: dict[str, tuple[raw.Pod, int, str]] = {
    "no record": (builders.pod(gpus=2, **ON_NODE), 2, "it asks for cards and has no allocation"),
    "a foreign pod with the plug-in's resource": (
        builders.pod(gpus=3, schedulerName="default-scheduler", **ON_NODE),
        3,
        "it asks for cards and has no allocation",
    ),
    "a damaged record": (
        builders.pod(gpus=2, annotations={names.ALLOCATION: "{"}, **ON_NODE),
        2,
        "its allocation cannot be read: Expecting property name enclosed in double quotes",
    ),
    "an empty record": (
        builders.pod(gpus=2, annotations={names.ALLOCATION: ""}, **ON_NODE),
        2,
        "its allocation cannot be read: Expecting value",
    ),
    "a record of a newer version": (
        builders.pod(gpus=1, annotations={names.ALLOCATION: '{"v":2}'}, **ON_NODE),
        1,
        "its allocation cannot be read: v: this Berth reads version 1, found 2",
    ),
    "a record of another node": (
        builders.pod(gpus=1, annotations=builders.record("n2", main=[0]), **ON_NODE),
        1,
        "its allocation is of node n2",
    ),
    "a record that names too few cards": (
        builders.pod(gpus=3, annotations=builders.record("n1", main=[0]), **ON_NODE),
        2,
        "its allocation names 1 of 3 cards",
    ),
    "a record that names no card": (
        builders.pod(gpus=1, annotations={names.ALLOCATION: RDMA}, **ON_NODE),
        1,
        "its allocation names 0 of 1 cards",
    ),
    "a request that cannot be read": (
        builders.pod(containers=[builders.asking("main", {names.NVIDIA_GPU: "x"})], **ON_NODE),
        holds.ALL_CARDS,
        "it asks for cards and has no allocation",
    ),
    "a request that is not served": (
        builders.pod(containers=[builders.asking("main", {names.GPU_MEMORY: "1Gi"})], **ON_NODE),
        holds.ALL_CARDS,
        "it asks for cards and has no allocation",
    ),
    "one container of two that cannot be read": (
        builders.pod(
            containers=[builders.container("a", gpus=1), builders.asking("b", {names.GPU: "x"})], **ON_NODE
        ),
        holds.ALL_CARDS,
        "it asks for cards and has no allocation",
    ),
    "a sidecar and an init container": (
        builders.pod(
            initContainers=[
                builders.container("s", gpus=1, restartPolicy="Always"),
                builders.container("i", gpus=1),
            ],
            containers=[builders.container("a")],
            **ON_NODE,
        ),
        2,
        "it asks for cards and has no allocation",
    ),
}


@pytest.mark.parametrize(("pod", "withheld", "fault"), WITHHELD.values(), ids=WITHHELD.keys())
def test_record_that_cannot_be_trusted_fails_closed(pod: raw.Pod, withheld: int, fault: str) -> None:
    """A bound pod withholds what it asks for and cannot name, all where even that is unreadable (I9)."""
    found = bound(pod)

    assert found.hold.withheld == withheld
    assert found.fault.startswith(fault)


NOTHING: dict[str, raw.Pod] = {
    "asks for no cards": builders.pod(**ON_NODE),
    "asks for zero cards": builders.pod(
        containers=[builders.asking("main", {names.NVIDIA_GPU: 0})], **ON_NODE
    ),
    "asks for no cards, with a damaged record": builders.pod(annotations={names.ALLOCATION: "{"}, **ON_NODE),
    "asks for no cards, with a record of another node": builders.pod(
        annotations=builders.record("n2", main=[0]), **ON_NODE
    ),
    "asks for another maker's card": builders.pod(
        containers=[builders.asking("main", {"amd.com/gpu": 1})], **ON_NODE
    ),
}


@pytest.mark.parametrize("pod", NOTHING.values(), ids=NOTHING.keys())
def test_pod_without_cards_withholds_none(pod: raw.Pod) -> None:
    """A pod that has no card keeps none back, whatever stands on it."""
    found = bound(pod)

    assert (found.hold.shares, found.hold.withheld, found.fault) == ((), 0, "")


def test_record_decides_where_the_request_is_of_another_time() -> None:
    """A readable record is believed over a request that this version does not understand."""
    pod = builders.pod(
        containers=[builders.asking("main", {names.GPU: 50})],
        annotations=builders.record("n1", main=[2]),
        **ON_NODE,
    )

    found = bound(pod)

    assert found.hold.shares == (builders.share(2),)
    assert (found.hold.withheld, found.fault) == (0, "")


def test_record_is_believed_even_of_a_pod_that_asks_for_nothing() -> None:
    """Cards that are named are held, whatever the containers ask."""
    pod = builders.pod(annotations=builders.record("n1", main=[0]), **ON_NODE)

    found = bound(pod)

    assert found.hold.shares == (builders.share(0),)


# ---------------------------------------------------------------- there and back

JOURNEYS: dict[str, dict[str, Any]] = {
    "one card": {"gpus": 1},
    "no card": {},
    "several containers": {"containers": [builders.container("b", gpus=1), builders.container("a", gpus=2)]},
    "a borrowing init container": {
        "initContainers": [builders.container("i", gpus=2)],
        "containers": [builders.container("a", gpus=1)],
    },
    "an init container beside a sidecar": {
        "initContainers": [
            builders.container("s", gpus=1, restartPolicy="Always"),
            builders.container("i", gpus=2),
        ],
        "containers": [builders.container("a", gpus=1)],
    },
    "percent of cards": {"containers": [builders.asking("a", {names.GPU: 200, "cpu": "1", "memory": "1Gi"})]},
    "other resources beside cards": {
        "containers": [builders.asking("a", {names.NVIDIA_GPU: 1, "zoo.org/lion": 1, "cpu": "100m"})]
    },
}


@pytest.mark.parametrize("spec", JOURNEYS.values(), ids=JOURNEYS.keys())
def test_bound_pod_is_read_as_what_was_assumed(spec: dict[str, Any]) -> None:
    """What the watch says of a pod that we bound is the very hold that was assumed, to the last field."""
    candidate = pods.candidate(builders.pod(**spec))
    picture = builders.picture(builders.node(extra={"zoo.org/lion": 1}), builders.device())
    placement = allocator.place(picture, candidate.request, candidate.demand, rules=policy.Policy())
    assert isinstance(placement, decisions.Placement)

    after = builders.pod(**spec, nodeName="n1", annotations=builders.answered(placement))

    assert bound(after) == pods.Bound(cycle.hold_for(candidate, placement))


# ---------------------------------------------------------------- pods that cannot be read whole


def unreadable(body: object) -> watch.Unreadable:
    """Give a pod of which the decoder could make nothing."""
    meta = wire.Meta(name="p", namespace=builders.NAMESPACE, uid="uid-p")
    return watch.Unreadable(meta, "odd", body if isinstance(body, bytes) else msgspec.json.encode(body))


ODD = {"containers": 7}


@pytest.mark.parametrize(
    ("body", "withheld"),
    [
        pytest.param({"spec": ODD | ON_NODE}, holds.ALL_CARDS, id="bound"),
        pytest.param({"spec": ODD | ON_NODE, "status": {"phase": "Running"}}, holds.ALL_CARDS, id="running"),
        pytest.param({"spec": ODD | ON_NODE, "status": {"phase": "Failed"}}, None, id="finished"),
        pytest.param({"spec": ODD}, None, id="not bound"),
        pytest.param({"spec": ODD | {"nodeName": 7}}, None, id="its very node is unreadable"),
        pytest.param(b"{", None, id="no JSON"),
    ],
)
def test_unreadable_pod_withholds_its_node(body: object, withheld: int | None) -> None:
    """Of a bound pod that cannot be read, not even its request is known: it withholds all cards (I9)."""
    found = pods.remains(unreadable(body))

    assert (found and found.withheld) == withheld
    assert found is None or (found.uid, found.title, found.node) == ("uid-p", "ml/p", "n1")
