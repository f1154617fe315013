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
        pytest.param(
            [Reason.UNDECIDED],
            {ClusterEvent.CAPACITY_FREED, ClusterEvent.DEVICE_CHANGED, ClusterEvent.NODE_CHANGED},
            id="what was not looked at may be what changes",
        ),
    ],
)
def test_wants(reasons: list[Reason], wanted: set[ClusterEvent]) -> None:
    """A pod waits for whatever could lift any of its refusals."""
    found = decisions.awaited_events(tuple(Count(reason, "", 1) for reason in reasons))

    assert found == wanted


def grants(*shares: decisions.Share, init: tuple[decisions.Share, ...] = ()) -> tuple[decisions.Grant, ...]:
    """Return the grants of an init container, and of running containers with a share each."""
    running = (decisions.Grant(f"c{at}", (share,)) for at, share in enumerate(shares))
    return decisions.Grant("init", init, runs=False), *running


CARD, OTHER_CARD = builders.share(0), builders.share(1)
GIB = builders.GIB


@pytest.mark.parametrize(
    ("given", "held"),
    [
        pytest.param(
            grants(CARD, init=(CARD, OTHER_CARD)), (CARD, OTHER_CARD), id="a borrowed card is held once"
        ),
        pytest.param(
            grants(
                *[builders.share(core=30, memory=2 * GIB)] * 2,
                init=(builders.share(core=50, memory=6 * GIB),),
            ),
            (builders.share(core=60, memory=6 * GIB),),
            id="containers that run together add up, and an init container counts where it takes more",
        ),
    ],
)
def test_what_a_pod_holds(given: tuple[decisions.Grant, ...], held: tuple[decisions.Share, ...]) -> None:
    """It is the most of any moment."""
    assert allocator.peak_shares(given) == held
