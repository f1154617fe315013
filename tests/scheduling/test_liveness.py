"""The state of an agent is judged by renewals that were seen to change, on our own clock."""

import pytest

from berth_operator.scheduling import liveness
from berth_operator.scheduling.liveness import Doubt, Periods, Sign

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
