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
    found = liveness.silent(sign, now=now, grace=GRACE, condemned=condemned)

    assert found is silent


def test_first_reading_is_no_fresh_sign() -> None:
    """The first Lease that we read may be of an agent that died long ago."""
    signs: dict[str, Sign] = {}

    news = liveness.note(signs, "n1", "10:00", now=5.0)

    assert news
    assert signs == {"n1": Sign("10:00", 5.0, fresh=False)}


def test_repeated_renewal_is_no_news() -> None:
    """Reading the same Lease again does not prolong a life."""
    signs: dict[str, Sign] = {}
    liveness.note(signs, "n1", "10:00", now=5.0)

    news = liveness.note(signs, "n1", "10:00", now=30.0)

    assert not news
    assert signs == {"n1": Sign("10:00", 5.0, fresh=False)}


def test_changed_renewal_is_a_fresh_sign() -> None:
    """A renewal that changes before our eyes is life, whatever time it names."""
    signs: dict[str, Sign] = {}
    liveness.note(signs, "n1", "10:00", now=5.0)

    news = liveness.note(signs, "n1", "09:00", now=30.0)

    assert news
    assert signs == {"n1": Sign("09:00", 30.0, fresh=True)}
