"""What the benchmark of short jobs reckons, without a cluster."""

import pytest

from bench import churn


def test_busy_time_is_counted_from_the_beginning() -> None:
    """Cards that were busy before count from there, and what is told late counts from when it is told."""
    cards = churn.BusyCards()
    cards.change(1.0, 2)
    cards.begin(10.0)
    cards.change(12.0, 1)
    cards.change(11.0, -2)

    assert cards.seconds(15.0) == pytest.approx(2 * 2 + 1 * 3)
    assert cards.busy == 1


@pytest.mark.parametrize(("idle", "held"), [(2.0, True), (2.1, False)])
def test_the_bound_can_be_broken(idle: float, *, held: bool) -> None:
    """It is judged by the median of our runs, whatever others do."""
    figures = dict.fromkeys((key for _, key, _ in churn.TABLE.columns), 1.0)
    rows = [figures | {"system": "berth", "idle_percent": one} for one in (0.1, idle, 9.0)]
    rows.append(figures | {"system": "kube-scheduler", "idle_percent": 50.0})

    assert [one.kept for one in churn.promises(churn.medians(rows))] == [held]
    assert ("NOT HELD" not in churn.report(rows)) is held
