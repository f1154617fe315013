"""What differs from a ledger that is made anew, and which objects are the sources of a difference."""

from collections.abc import Callable, Hashable

import pytest

from berth_crds import names
from berth_crds.client import cooperative
from berth_operator.engine import assumed_pods, drift, paced_calls, unreadable_pods
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import allocation_recovery
from berth_operator.scheduling.nodes import facts
from support import builders, clock, ledgers

POD = ("Pod", "uid-p")


def kinds(ledger: Ledger, fresh: Ledger) -> list[str]:
    """Return the kinds of what differs."""
    return [difference.kind for difference in ledgers.differences(ledger, fresh)]


def sources(ledger: Ledger, fresh: Ledger) -> dict[str, frozenset[drift.Source]]:
    """Return the sources of each difference."""
    return {difference.kind: difference.sources for difference in ledgers.differences(ledger, fresh)}


def test_equal_ledgers_have_no_drift() -> None:
    """Two ledgers that were told the same differ in nothing, in whatever order they were told."""
    ledger, fresh = ledgers.with_nodes(2), ledgers.with_nodes(2)
    pods = [builders.hold(name, "n1", [minor]) for minor, name in enumerate("ab")]
    for hold, other in zip(pods, reversed(pods), strict=True):
        ledger.pod_bound(hold)
        fresh.pod_bound(other)

    assert ledgers.differences(ledger, fresh) == ()


def test_the_images_of_a_node_are_no_drift() -> None:
    """Which of very many are read depends on what was read before; a label of the node is one."""
    ledger, fresh = ledgers.with_nodes(1), ledgers.with_nodes(1)
    fresh.node_seen(builders.node("n1", images=(facts.Image(("app:1",), 1),)))
    assert kinds(ledger, fresh) == []

    fresh.node_seen(builders.node("n1", labels={"zone": "a"}))
    assert kinds(ledger, fresh) == ["Node"]


def test_a_bind_under_way_is_drift_only_if_nobody_concludes_it() -> None:
    """It is not in the API yet; after a minute it keeps cards back, and no event will ever free them."""
    now = clock.Clock()
    ledger, fresh = ledgers.with_nodes(now=now), ledgers.with_nodes()
    ledgers.add_waiting(ledger)
    ledgers.assume(ledger)

    now.advance(assumed_pods.OVERDUE_SECONDS)
    in_time = kinds(ledger, fresh)
    now.advance(0.1)
    late = ledgers.differences(ledger, fresh)
    ledger.forget("uid-p")

    assert (in_time, late) == ([], (drift.Difference("open bind", "uid-p"),))
    assert kinds(ledger, fresh) == ["sample", "waiting"]


def test_a_pod_is_the_source_of_what_it_asks_and_holds() -> None:
    """A Node and a Device are those of their own."""
    ledger, fresh = ledgers.with_nodes(1), ledgers.with_nodes(0)
    ledger.pod_bound(builders.hold("p", "n1", [0]))
    ledgers.add_waiting(fresh, "q")

    assert sources(ledger, fresh) == {
        "Node": {("Node", "n1")},
        "Device": {("Device", "n1")},
        "hold": {POD},
        "sample": {("Pod", "uid-q")},
        "waiting": {("Pod", "uid-q")},
    }


def test_of_a_nameless_pod_its_node_and_its_gpupods_are_sources_as_well() -> None:
    """What it holds changes with each of them: news of any may be on its way."""
    ledger, fresh = ledgers.with_nodes(1), ledgers.with_nodes(1)
    fresh.pod_bound(builders.hold("p", "n1"), nameless=allocation_recovery.UnreadableAllocation())

    gpupods = {("GpuPod", "ml/p"), ("GpuPod", "ml/uid-p.n1")}
    assert sources(ledger, fresh)["hold"] == {POD, ("Node", "n1"), ("Device", "n1"), *gpupods}


def test_of_a_pod_that_its_kubelet_may_reject_its_node_is_a_source_as_well() -> None:
    """Whether it is charged depends on the labels of the node, which may change all the time."""
    ledger, fresh = ledgers.with_nodes(1), ledgers.with_nodes(1)
    selecting = builders.pod("p", schedulerName="other", nodeName="n1", nodeSelector={"zone": "a"})
    for each, zone in ((ledger, "a"), (fresh, "b")):
        each.node_seen(builders.node("n1", labels={"zone": zone}))
        ledgers.pod_seen(each, selecting)

    assert ("Node", "n1") in sources(ledger, fresh)["hold"]


def test_which_of_too_many_gpupods_are_read_is_no_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    """That depends on their order, and so do the cards of pods without a record, on this node alone."""
    nameless = [
        builders.pod(name, gpus=1, nodeName="n1", annotations={names.ALLOCATION: "{"}) for name in "pq"
    ]
    gpupods = [builders.gpupod(name, uid=f"uid-{name}", main=[at]) for at, name in enumerate("pq")]

    def found() -> list[str]:
        ledger, fresh = ledgers.with_nodes(1), ledgers.with_nodes(1)
        for each, order in ((ledger, 1), (fresh, -1)):
            for pod in nameless:
                ledgers.pod_seen(each, pod)
            for one in gpupods[::order]:
                ledgers.gpupod_seen(each, one)
        fresh.pod_bound(builders.hold("other", "n1", [2]))
        return kinds(ledger, fresh)

    unlimited = found()
    monkeypatch.setattr(unreadable_pods, "MOST_SHARES", 3)

    assert unlimited == found() == ["hold"]


@pytest.mark.parametrize(
    ("kind", "paced"),
    [
        ("Device", paced_calls.device),
        ("GpuPod", paced_calls.gpupod),
        ("Node", paced_calls.charges_of_unadmitted),
    ],
)
def test_each_source_may_be_late(kind: str, paced: Callable[[str], Hashable]) -> None:
    """A pod that is charged by what its node has, or by its GpuPod, is charged otherwise soon."""
    ledger = ledgers.with_nodes(1)
    for _ in range(paced_calls.CALLS_IN_A_ROW + 1):
        ledger.paced_calls.call(paced("n1"), lambda: None)

    assert [drift._is_late(ledger, (kind, name)) for name in ("n1", "n2")] == [True, False]


def test_what_is_late_is_no_drift() -> None:
    """The ledger has heard of it: what takes long and changes all the time is read seldom."""
    now = clock.Clock()
    ledger, fresh = ledgers.with_nodes(1, now=now), ledgers.with_nodes(1, cards=5)
    found = [kinds(ledger, fresh)]
    for _ in range(paced_calls.CALLS_IN_A_ROW + 1):
        ledger.paced_calls.call(paced_calls.device("n1"), lambda: None)

    found.append(kinds(ledger, fresh))
    now.advance(paced_calls.SECONDS_BETWEEN_CALLS)
    ledger.paced_calls.make_delayed()

    assert [*found, kinds(ledger, fresh)] == [["Device"], [], ["Device"]]


def test_only_the_revisions_of_its_sources_are_kept() -> None:
    """Those of others say nothing, and what is not there has none."""
    (found,) = ledgers.differences(ledgers.with_nodes(1), ledgers.with_nodes(1, cards=5))

    seen = found.with_revisions({("Device", "n1"): "3", ("Device", "n2"): "4"}, {})

    assert (seen.kept.revisions, seen.rebuilt.revisions) == ({("Device", "n1"): "3"}, {})


@pytest.mark.parametrize(
    ("step", "largest"),
    [
        pytest.param(1.01, 1, id="a moment at a time, by the clock"),
        pytest.param(0.00001, 100, id="all at once"),
    ],
)
def test_others_have_their_turn_while_the_ledgers_are_compared(step: float, largest: int) -> None:
    """However many pods wait, and however long it takes, what differs is found all the same."""
    ledger, fresh = ledgers.with_nodes(1), ledgers.with_nodes(1)
    for at in range(100):
        ledgers.add_waiting(ledger, f"p{at}")

    ticking = clock.Ticking(step * cooperative.STEP_SECONDS)
    found = [len(portion) for portion in drift.portions(ledger, fresh, ticking)]

    assert max(found) == largest
    assert sum(found) == len(ledgers.differences(ledger, fresh)) == 200, (
        "each waits, and teaches what it asks"
    )


def test_what_changes_amid_a_comparison_is_compared_as_it_is() -> None:
    """A pod that is gone before its turn comes differs in nothing."""
    ledger, fresh = ledgers.with_nodes(1), ledgers.with_nodes(1)
    ledgers.add_waiting(ledger)

    comparing = drift.portions(ledger, fresh, float)
    first = next(comparing)
    ledger.pod_over("uid-p")

    assert [*first, *(one for portion in comparing for one in portion)] == []
