"""What tells of a difference is known: of what a pod holds whose own record cannot be read, all that may."""

import pytest

from berth_operator.engine import drift
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import allocation_recovery
from support import builders, clock, ledgers

POD = ("Pod", "uid-p")


def sources(ledger: Ledger, fresh: Ledger) -> dict[str, frozenset[drift.Source]]:
    """Return what tells of each difference."""
    return {one.kind: one.sources for one in drift.differences(ledger, fresh)}


def test_a_pod_tells_of_what_it_asks_and_holds() -> None:
    """A Node and a Device tell of themselves."""
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


def test_of_a_nameless_pod_its_node_and_its_gpupods_tell_as_well() -> None:
    """What it holds changes with each of them: news of any may be on its way."""
    ledger, fresh = ledgers.with_nodes(1), ledgers.with_nodes(1)
    hold = builders.hold("p", "n1")
    fresh.pod_bound(hold, nameless=allocation_recovery.UnreadableAllocation())
    namespace, name = hold.title.split("/")

    assert sources(ledger, fresh)["hold"] == {
        POD,
        ("Node", "n1"),
        ("Device", "n1"),
        ("GpuPod", f"{namespace}/{name}"),
        ("GpuPod", f"{namespace}/uid-p.n1"),
    }


def test_only_what_tells_of_it_is_kept_of_the_revisions() -> None:
    """Those of others say nothing, and what is not there has none."""
    (found,) = drift.differences(ledgers.with_nodes(1), ledgers.with_nodes(1, cards=5))

    seen = found.with_revisions({("Device", "n1"): "3", ("Device", "n2"): "4"}, {})

    assert (seen.kept.revisions, seen.rebuilt.revisions) == ({("Device", "n1"): "3"}, {})


def test_others_have_their_turn_while_the_ledgers_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pods wait, some of them are compared at a time; what differs is found all the same."""
    monkeypatch.setattr(drift, "PORTION_SIZE", 10)
    ledger, fresh = ledgers.with_nodes(1), ledgers.with_nodes(1)
    for at in range(100):
        ledgers.add_waiting(ledger, f"p{at}")

    found = [len(portion) for portion in drift.portions(ledger, fresh)]

    assert max(found) == 10
    assert sum(found) == len(drift.differences(ledger, fresh)) == 200, "each waits, and teaches what it asks"


def test_what_takes_long_to_compare_is_compared_a_moment_at_a_time() -> None:
    """By the clock, however few things that are."""
    ledger, fresh = ledgers.with_nodes(1), ledgers.with_nodes(1)
    for at in range(4):
        ledgers.add_waiting(ledger, f"p{at}")

    dear, cheap = (
        [len(one) for one in drift.portions(ledger, fresh, clock.Ticking(step * drift.PORTION_SECONDS))]
        for step in (1.01, 0.01)
    )

    assert (max(dear), sum(dear)) == (1, 8)
    assert (max(cheap), sum(cheap)) == (4, 8)


def test_what_changes_amid_a_comparison_is_compared_as_it_is() -> None:
    """A pod that is gone before its turn comes differs in nothing."""
    ledger, fresh = ledgers.with_nodes(1), ledgers.with_nodes(1)
    ledgers.add_waiting(ledger)

    comparing = drift.portions(ledger, fresh)
    first = next(comparing)
    ledger.pod_over("uid-p")

    assert [*first, *(one for portion in comparing for one in portion)] == []
