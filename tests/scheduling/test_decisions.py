"""Decisions carry what is needed to act on them, and refusals know what would help."""

import pytest

from berth_operator.scheduling import decisions
from berth_operator.scheduling.decisions import ClusterEvent, Count, Reason
from berth_operator.scheduling.devices import allocator
from support import builders

ONLY_AN_EDIT = {Reason.INVALID_REQUEST, Reason.UNSUPPORTED_REQUEST, Reason.UNSUPPORTED_CONSTRAINT}
ONLY_OTHER_PODS = {Reason.TOO_MUCH_TOGETHER}


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_knows_what_helps(reason: Reason) -> None:
    """Each refusal is lifted by some change in the cluster, or else by an edit of this pod or of others."""
    helps = decisions.LIFTED_BY.get(reason, frozenset())

    assert bool(helps) is (reason not in ONLY_AN_EDIT | ONLY_OTHER_PODS)


@pytest.mark.parametrize(
    ("reasons", "wanted"),
    [
        pytest.param([], set[ClusterEvent](), id="no refusal waits for nothing"),
        pytest.param([Reason.TAINTED], {ClusterEvent.NODE_CHANGED}, id="one refusal"),
        pytest.param(
            [Reason.FULL, Reason.SILENT],
            {ClusterEvent.CAPACITY_FREED, ClusterEvent.DEVICE_CHANGED, ClusterEvent.NODE_CHANGED},
            id="several refusals, and a new node may always help",
        ),
        pytest.param([Reason.FULL, Reason.UNDECIDED], None, id="what was not looked at needs but time"),
    ],
)
def test_wants(reasons: list[Reason], wanted: set[ClusterEvent] | None) -> None:
    """A pod waits for whatever could lift any of its refusals."""
    found = decisions.wants(tuple(Count(reason, "", 1) for reason in reasons))

    assert found == (None if wanted is None else frozenset(wanted))


def test_borrowed_cards_are_held_once() -> None:
    """A card that an init container and a running one use after one another is one card."""
    first, second = builders.share(0), builders.share(1)
    grants = (decisions.Grant("init", (first, second), runs=False), decisions.Grant("main", (first,)))

    found = allocator.held(grants)

    assert found == (first, second)
