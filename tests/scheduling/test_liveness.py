"""Who is silent is judged by renewals that were seen to change, on our own clock."""

import pytest

from berth_operator.scheduling import liveness
from berth_operator.scheduling.liveness import Sign

GRACE = 40.0


@pytest.mark.parametrize(
    ("sign", "now", "condemned", "silent"),
    [
        pytest.param(None, 0.0, False, True, id="never heard"),
        pytest.param(Sign("a", 0.0, fresh=False), 0.0, False, False, id="read just now"),
        pytest.param(Sign("a", 0.0, fresh=True), 40.0, False, False, id="the grace period is not over"),
        pytest.param(Sign("a", 0.0, fresh=True), 40.1, False, True, id="the grace period is over"),
        pytest.param(Sign("a", 0.0, fresh=False), 0.0, True, True, id="condemned, and the Lease may be old"),
        pytest.param(Sign("b", 0.0, fresh=True), 0.0, True, False, id="condemned, and seen to renew"),
        pytest.param(Sign("b", 0.0, fresh=True), 41.0, True, True, id="condemned, and silent again"),
    ],
)
def test_silence(sign: Sign | None, now: float, condemned: bool, silent: bool) -> None:  # noqa: FBT001  columns of the table
    """An agent is silent without a sign of life in the grace period, or without one that we saw happen."""
    assert liveness.silent(sign, now=now, grace=GRACE, condemned=condemned) is silent


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
