"""The state of an agent is judged by renewals that were seen to change, on our own clock."""

import pytest

from berth_operator.scheduling import liveness
from berth_operator.scheduling.liveness import Doubt, MassSilence, Periods, Sign, State

PERIODS = Periods(grace=40.0, unknown=20.0)
READ, RENEWED = Sign("a", 100.0, fresh=False), Sign("a", 100.0, fresh=True)


@pytest.mark.parametrize(
    ("sign", "doubt", "states"),
    [
        pytest.param(READ, Doubt.NONE, ["ready", "ready", "unknown", "silent"], id="read"),
        pytest.param(RENEWED, Doubt.NONE, ["ready", "ready", "unknown", "silent"], id="seen to renew"),
        pytest.param(None, Doubt.NONE, ["unknown"] * 3 + ["silent"], id="no Lease"),
        pytest.param(None, Doubt.OLD, ["unknown"] * 3 + ["silent"], id="no Lease after a restore"),
        pytest.param(READ, Doubt.OLD, ["unknown"] * 3 + ["silent"], id="perhaps an old Lease"),
        pytest.param(
            RENEWED, Doubt.OLD, ["ready", "ready", "unknown", "silent"], id="renewed since a restore"
        ),
        pytest.param(None, Doubt.CONDEMNED, ["silent"] * 4, id="condemned"),
        pytest.param(READ, Doubt.CONDEMNED, ["silent"] * 4, id="condemned, and the Lease may be old"),
        pytest.param(
            RENEWED, Doubt.CONDEMNED, ["ready", "ready", "unknown", "silent"], id="seen to come back"
        ),
    ],
)
def test_states(sign: Sign | None, doubt: Doubt, states: list[str]) -> None:
    """At the last sign of life, at the end of the grace period, after it, and after both periods."""
    found = [
        liveness.state(sign, now=now, missing_since=100.0, periods=PERIODS, doubt=doubt)
        for now in (100.0, 140.0, 140.1, 160.1)
    ]

    assert [one.value for one in found] == states


FIRST = Sign("10:00", 5.0, fresh=False)


@pytest.mark.parametrize(
    ("known", "renewal", "news", "sign"),
    [
        pytest.param(
            {}, "10:00", True, Sign("10:00", 30.0, fresh=False), id="the first, perhaps of a dead agent"
        ),
        pytest.param({"n1": FIRST}, "10:00", False, FIRST, id="the same Lease again prolongs no life"),
        pytest.param(
            {"n1": FIRST}, "09:00", True, Sign("09:00", 30.0, fresh=True), id="one that changed is life"
        ),
    ],
)
def test_which_renewal_is_a_fresh_sign(known: dict[str, Sign], renewal: str, news: bool, sign: Sign) -> None:  # noqa: FBT001  a column of the table
    """A renewal that changes before our eyes is life, whatever time it names."""
    signs = dict(known)

    assert liveness.note(signs, "n1", renewal, now=30.0) is news
    assert signs == {"n1": sign}


@pytest.mark.parametrize(
    ("ready", "quiet", "stale"),
    [
        pytest.param([], [], 0, id="no agents"),
        pytest.param([20, 30], [], 0, id="all ready"),
        pytest.param([20, 30], [5, 7], 7, id="some silent"),
        pytest.param([], [5, 7], 7, id="all silent"),
        pytest.param([20, 30], [5, 20, 25], 5, id="a Lease that was edited counts for none that is ready"),
        pytest.param([0, 30], [5], 0, id="revisions that are no numbers"),
    ],
)
def test_up_to_which_revision_no_lease_is_of_a_ready_agent(
    ready: list[int], quiet: list[int], stale: int
) -> None:
    """One number covers all Leases of agents that are not ready, and none of those that are."""
    revisions = {f"n{at}": revision for at, revision in enumerate([*ready, *quiet])}
    signs = {node: Sign("", 0.0, fresh=True, revision=revision) for node, revision in revisions.items()}
    silent = {*list(revisions)[len(ready) :], "no Lease"}

    assert liveness.stale_revision(signs.keys() | silent, silent, signs) == stale


def test_those_are_overdue_that_were_seen_longest_ago() -> None:
    """Each renewal goes to the end of the line, so that the first in time ends the search."""
    signs: dict[str, Sign] = {}
    for node, now in (("a", 0.0), ("b", 5.0), ("c", 10.0), ("a", 20.0)):
        liveness.note(signs, node, f"{now}", now)

    assert list(liveness.overdue(signs, 49.0, GRACE)) == ["b"]
    assert list(liveness.overdue(signs, 50.0, GRACE)) == ["b"]
    assert list(liveness.overdue(signs, 50.1, GRACE)) == ["b", "c"]


GRACE = PERIODS.grace


class Agents:
    """A few agents, of which `MassSilence` learns each second which are ready."""

    def __init__(self, count: int) -> None:
        self.names = [f"n{at}" for at in range(count)]
        self.mass_silence = MassSilence()
        self.heard: dict[str, float] = {}
        self.now = 0.0
        self.ready(count)

    def ready(self, count: int, *, seconds: int = 1) -> None:
        """Have only the last ones be ready, which renew all the while."""
        quiet = dict.fromkeys(self.names[: len(self.names) - count], State.UNKNOWN)
        for _ in range(seconds):
            self.now += 1
            self.heard |= dict.fromkeys(self._last(count), self.now)
            self.mass_silence.update(set(self.names), quiet, self.heard.__getitem__, self.now, GRACE)

    def _last(self, count: int) -> list[str]:
        return self.names[len(self.names) - count :]

    @property
    def suspects(self) -> int:
        """The number of those whose silence proves nothing."""
        return len(self.mass_silence.suspects)


@pytest.mark.parametrize(
    ("count", "left", "suspects"),
    [
        pytest.param(2, 0, 0, id="both of two"),
        pytest.param(3, 1, 0, id="two of three"),
        pytest.param(3, 0, 3, id="three of three"),
        pytest.param(5, 2, 3, id="three of five"),
        pytest.param(6, 3, 0, id="half"),
        pytest.param(7, 3, 4, id="one more than half"),
    ],
)
def test_how_many_have_to_fall_together(count: int, left: int, suspects: int) -> None:
    """More than half of the agents, and at least three; fewer may well have died."""
    agents = Agents(count)

    agents.ready(left)

    assert agents.suspects == suspects


def test_a_mass_silence_ends_a_grace_period_after_most_are_heard() -> None:
    """For so long the others may still come; then they are suspects no more, and remain so."""
    agents = Agents(7)
    agents.ready(1, seconds=200)
    assert agents.suspects == 6

    agents.ready(4, seconds=int(GRACE) + 1)
    assert agents.suspects == 3

    agents.ready(4)
    assert agents.suspects == 0
    agents.ready(4, seconds=200)
    assert agents.suspects == 0


def test_most_have_to_be_heard_without_a_break() -> None:
    """A moment in which most are silent again begins the grace period anew."""
    agents = Agents(7)
    agents.ready(1, seconds=200)
    agents.ready(4, seconds=int(GRACE))
    agents.ready(3)

    agents.ready(4, seconds=int(GRACE) + 1)

    assert agents.suspects == 3
