"""What a pod is to Berth: one that waits, one that holds, or one that is over."""

from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds import allocation, names
from berth_operator.scheduling import holds
from berth_operator.scheduling.decisions import Share
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import pods, raw
from support import builders
from translate import pod_requests

# ---------------------------------------------------------------- views

ON_NODE: dict[str, Any] = {"nodeName": "n1"}
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("pod", "kind"),
    [
        pytest.param(builders.pod(), pods.WaitingPod, id="new"),
        pytest.param(builders.pod(schedulingGates=[{"name": "g"}]), pods.WaitingPod, id="gated"),
        pytest.param(builders.pod(**ON_NODE), pods.BoundPod, id="bound"),
        pytest.param(builders.pod(**ON_NODE, phase="Running"), pods.BoundPod, id="running"),
        pytest.param(builders.pod(**ON_NODE, meta=LEAVING), pods.BoundPod, id="bound and being deleted"),
        pytest.param(
            builders.pod(**ON_NODE, schedulerName="other"), pods.BoundPod, id="bound by somebody else"
        ),
        pytest.param(builders.pod(**ON_NODE, phase="Unknown"), pods.BoundPod, id="bound and lost from sight"),
        pytest.param(builders.pod(**ON_NODE, phase="Succeeded"), pods.IgnoredPod, id="done"),
        pytest.param(builders.pod(**ON_NODE, phase="Failed"), pods.IgnoredPod, id="failed"),
        pytest.param(builders.pod(phase="Failed"), pods.IgnoredPod, id="failed before it was bound"),
        pytest.param(builders.pod(meta=LEAVING), pods.IgnoredPod, id="deleted before it was bound"),
        pytest.param(builders.pod(schedulerName="other"), pods.IgnoredPod, id="of another scheduler"),
        pytest.param(builders.pod(schedulerName=""), pods.IgnoredPod, id="of no scheduler"),
    ],
)
def test_view(pod: raw.Pod, kind: type) -> None:
    """Every pod waits for us, holds something, or is none of our business (any more)."""
    assert type(pods.classify(pod)) is kind


ZONED = facts.Where(selector=(("zone", "a"),))


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(builders.pod(**ON_NODE, nodeSelector={"zone": "a"}), ZONED, id="it waits for it"),
        pytest.param(builders.pod(**ON_NODE, phase=""), facts.ANYWHERE, id="without a phase"),
        pytest.param(builders.admitted(builders.pod(**ON_NODE)), None, id="it was admitted"),
        pytest.param(builders.pod(**ON_NODE, phase="Running"), None, id="it runs"),
        pytest.param(builders.pod(**ON_NODE, phase="Unknown"), None, id="its node is lost from sight"),
        pytest.param(builders.pod(**ON_NODE, annotations={names.TERM: "1/2"}), None, id="Berth bound it"),
        pytest.param(
            builders.pod(**ON_NODE, annotations=builders.record(main=[0])), None, id="Berth gave it cards"
        ),
        pytest.param(
            builders.pod(**ON_NODE, nodeSelector={f"label-{number}": "a" for number in range(100)}),
            facts.NOWHERE,
            id="it says too much",
        ),
    ],
)
def test_whether_a_bound_pod_depends_on_its_kubelet(pod: raw.Pod, expected: facts.Where | None) -> None:
    """What Berth bound and what a kubelet has admitted is certain; of others their conditions are kept."""
    assert pod_requests.bound(pod).unadmitted_where == expected


def test_waiting_pod_is_read_whole() -> None:
    """All that the core needs of a waiting pod arrives there."""
    pod = builders.pod(
        "p",
        gpus=2,
        meta={"creationTimestamp": "2026-01-01T00:00:00Z"},
        priority=7,
        nodeSelector={"zone": "a"},
    )

    found = pods.classify(pod)

    assert isinstance(found, pods.WaitingPod)
    assert not found.gated
    candidate = found.candidate
    assert (candidate.uid, candidate.title) == ("uid-p", "ml/p")
    assert (candidate.priority, candidate.created) == (7, "2026-01-01T00:00:00Z")
    assert candidate.request.need.whole == 2
    assert candidate.demand.served == ((names.NVIDIA_GPU, 2),)
    assert candidate.demand.where.selector == (("zone", "a"),)
    assert candidate.faults == ()


def test_priority_may_come_from_a_label() -> None:
    """A pod written for Genius waits where its label puts it."""
    found = pods.candidate(builders.pod(gpus=1, labels={"genius/priority": "5"}))

    assert (found.priority, found.label) == (0, 5)


def test_gated_pod_says_so() -> None:
    """A pod with a gate is known and not to be tried."""
    found = pods.classify(builders.pod(schedulingGates=[{"name": "g"}]))

    assert isinstance(found, pods.WaitingPod)
    assert found.gated


def test_allocation_without_a_node_is_ignored() -> None:
    """A record that somebody wrote on a pod before its bind promises nothing (I9)."""
    pod = builders.pod(gpus=1, annotations=builders.record("n1", main=[0]))

    found = pods.classify(pod)

    assert isinstance(found, pods.WaitingPod)
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

    found = pod_requests.bound(pod)

    assert found.fault == ""
    assert found.hold == holds.Hold(
        "uid-p",
        "ml/p",
        "n1",
        amounts=((names.NVIDIA_GPU, 2), ("pods", 1)),
        shares=(builders.share(1), builders.share(3)),
    )


def test_all_that_a_record_says_arrives() -> None:
    """Type, MIG profile and virtual function come along with core and memory."""
    nic = allocation.Share("rdma-0", 2, 1, 0, vf="0000:1f:00.2")
    instance = allocation.Share("MIG-a", 0, 14, 2**30, profile="1g.10gb")
    pod = pod_requests.asking(
        {"nvidia.com/mig-1g.10gb": 1, names.RDMA: 1},
        nodeName="n1",
        annotations=builders.written("n1", {"main": {"gpu": [instance], "rdma": [nic]}}),
    )

    found = pod_requests.bound(pod)

    assert found.hold.shares == (
        Share("MIG-a", 0, 14, 2**30, profile="1g.10gb"),
        Share("rdma-0", 2, 1, 0, type="rdma", function="0000:1f:00.2"),
    )
    assert (found.hold.withheld, found.fault) == (0, "")


def part(uuid: str, core: int, memory: int = 0, vf: str = "") -> allocation.Share:
    """Return a part of a device as a record has it."""
    return allocation.Share(uuid, 0, core, memory, vf=vf)


Held = dict[str, tuple[int, int]]
PHASES: dict[str, tuple[dict[str, list[allocation.Share]], Held]] = {
    "containers add": ({"a": [part("G", 30, 3)], "b": [part("G", 20, 2)]}, {"G": (50, 5)}),
    "an init container borrows": ({"i": [part("G", 40, 4)], "a": [part("G", 30, 3)]}, {"G": (40, 4)}),
    "each of core and memory at its peak": (
        {"i": [part("G", 90, 1)], "a": [part("G", 30, 3)]},
        {"G": (90, 3)},
    ),
    "init containers take turns": (
        {"i": [part("G", 40, 4)], "j": [part("G", 60, 1)], "a": [part("G", 10, 1)]},
        {"G": (60, 4)},
    ),
    "an init container of its own card": (
        {"i": [part("H", 100, 8)], "a": [part("G", 30, 3)]},
        {"H": (100, 8), "G": (30, 3)},
    ),
    "a sidecar runs beside those after it": (
        {"s": [part("G", 20, 2)], "j": [part("G", 60, 6)], "a": [part("G", 30, 3)]},
        {"G": (80, 8)},
    ),
    "a sidecar is not there for those before it": (
        {"i": [part("G", 60, 6)], "s": [part("G", 20, 2)], "a": [part("G", 30, 3)]},
        {"G": (60, 6)},
    ),
    "a container that the pod does not have runs": (
        {"a": [part("G", 30, 3)], "ghost": [part("G", 20, 2)]},
        {"G": (50, 5)},
    ),
}
ORDER: dict[str, Any] = {
    "initContainers": [
        builders.container("i"),
        builders.container("s", restartPolicy="Always"),
        builders.container("j"),
    ],
    "containers": [builders.container("a"), builders.container("b")],
}


@pytest.mark.parametrize(("record", "held"), PHASES.values(), ids=PHASES.keys())
def test_most_that_is_held_at_one_time(record: dict[str, list[allocation.Share]], held: Held) -> None:
    """A pod holds of each device what its containers have of it at the worst moment of its life."""
    written = builders.written("n1", {name: {"gpu": shares} for name, shares in record.items()})

    found = pod_requests.bound(builders.pod(**ORDER, **ON_NODE, annotations=written))

    assert {share.uuid: (share.core, share.memory) for share in found.hold.shares} == held


def test_order_of_the_record_does_not_matter() -> None:
    """Containers start in the order of the pod, in whatever order the record lists them."""
    shares = {"a": [part("G", 30, 3)], "j": [part("G", 60, 6)], "s": [part("G", 20, 2)]}
    written = builders.written("n1", {name: {"gpu": listed} for name, listed in shares.items()})

    found = pod_requests.bound(builders.pod(**ORDER, **ON_NODE, annotations=written))

    assert [(share.core, share.memory) for share in found.hold.shares] == [(80, 8)]


def test_functions_of_one_nic_are_held_apart() -> None:
    """Two virtual functions of one NIC are both held; the first carries what is held of the NIC."""
    written = builders.written(
        "n1", {"a": {"rdma": [part("r", 1, vf="f1")]}, "b": {"rdma": [part("r", 1, vf="f2")]}}
    )

    found = pod_requests.bound(builders.pod(**ORDER, **ON_NODE, annotations=written))

    assert [(share.function, share.core) for share in found.hold.shares] == [("f1", 2), ("f2", 0)]


SHARES = st.lists(
    st.tuples(st.sampled_from("GHK"), st.integers(0, 100), st.integers(0, 9)),
    max_size=3,
    unique_by=lambda share: share[0],
)


@pod_requests.PROPERTY
@hypothesis.given(
    early=st.lists(st.tuples(SHARES, st.booleans()), max_size=4),
    late=st.lists(SHARES, min_size=1, max_size=3),
)
def test_second_opinion(
    early: list[tuple[list[tuple[str, int, int]], bool]], late: list[list[tuple[str, int, int]]]
) -> None:
    """Walking through the pod's life moment by moment comes to the same peaks."""
    asked = [(f"i{at}", shares, stays) for at, (shares, stays) in enumerate(early)]
    asked += [(f"c{at}", shares, True) for at, shares in enumerate(late)]
    hypothesis.assume(any(shares for _, shares, _ in asked))

    found = pod_requests.bound(_pod_of(asked, len(early)))

    peaks: dict[str, tuple[int, int]] = {}
    for moment in _moments(asked, len(early)):
        for uuid in {uuid for shares in moment for uuid, _, _ in shares}:
            core = sum(core for shares in moment for one, core, _ in shares if one == uuid)
            memory = sum(memory for shares in moment for one, _, memory in shares if one == uuid)
            old = peaks.get(uuid, (0, 0))
            peaks[uuid] = max(old[0], core), max(old[1], memory)
    assert {share.uuid: (share.core, share.memory) for share in found.hold.shares} == peaks


Asked = list[tuple[str, list[tuple[str, int, int]], bool]]


def _pod_of(asked: Asked, early: int) -> raw.Pod:
    written = {
        name: {"gpu": [part(uuid, core, memory) for uuid, core, memory in shares]}
        for name, shares, _ in asked
    }
    lasting: dict[bool, dict[str, Any]] = {True: {"restartPolicy": "Always"}, False: {}}
    return builders.pod(
        initContainers=[builders.container(name, **lasting[stays]) for name, _, stays in asked[:early]],
        containers=[builders.container(name) for name, _, _ in asked[early:]],
        annotations=builders.written("n1", written),
        **ON_NODE,
    )


def _moments(asked: Asked, early: int) -> Iterator[list[list[tuple[str, int, int]]]]:
    for at in range(early):
        yield [shares for _, shares, stays in asked[:at] if stays] + [asked[at][1]]
    yield [shares for _, shares, stays in asked if stays]
