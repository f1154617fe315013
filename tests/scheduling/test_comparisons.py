"""Comparisons are paid for by time alone: however many rounds there are, changes cost no more in a second."""

from berth_operator.scheduling import comparisons
from berth_operator.scheduling.backlog import Backlog


def test_so_many_may_be_made_at_once() -> None:
    """And none once there were more."""
    account = comparisons.Comparisons()

    found = [account.take(comparisons.MOST - 1), account.take(1), account.take(1), account.take(0)]

    assert found == [True, True, False, False]


def test_time_pays_for_further_ones() -> None:
    """For no more than may be made at once."""
    account = comparisons.Comparisons()
    account.pay_in(100.0)
    account.take(2 * comparisons.MOST)

    account.pay_in(100.0 + 10 / comparisons.PER_SECOND)
    few = account.left
    account.pay_in(200.0)

    assert few == 9
    assert account.left == comparisons.MOST


def test_a_round_pays_for_none() -> None:
    """Rounds are many where events are: each would allow as many again."""
    backlog = Backlog()
    list(backlog.active(1.0))
    backlog._comparisons.take(2 * comparisons.MOST)

    list(backlog.active(1.0))
    at_once = backlog._comparisons.left
    list(backlog.active(2.0))

    assert at_once == -1
    assert backlog._comparisons.left == comparisons.MOST
