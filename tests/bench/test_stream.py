"""What the benchmark of a stream of pods promises, judged without a cluster."""

from typing import Any

import pytest

from bench import stream

FIGURES = dict.fromkeys((key for _, key, _ in stream.TABLE.columns), 1.0)


def row(system: str, rate: float, p99: float) -> dict[str, Any]:
    """Return what one run found."""
    return {**FIGURES, "system": system, "rate": rate, "impossible": 0, "p99_ms": p99}


@pytest.mark.parametrize(
    ("ours", "rivals", "held"),
    [
        pytest.param(99.0, 10.0, True, id="a tenth of a second is always good enough"),
        pytest.param(101.0, 190.0, False, id="slower than half of a rival that is quick itself"),
        pytest.param(101.0, 210.0, True, id="half of a rival that is slow"),
        pytest.param(101.0, None, False, id="nobody to be compared with"),
    ],
)
def test_the_slowest_of_a_hundred_is_judged(ours: float, rivals: float | None, *, held: bool) -> None:
    """By the medians of the runs, and at one rate only."""
    rows = [row("berth", 200.0, each) for each in (1.0, ours, 1000.0)] + [row("berth", 500.0, 9000.0)]
    if rivals is not None:
        rows.append(row("kube-scheduler", 200.0, rivals))

    judged = stream.bound(stream.medians(rows))

    assert judged is not None
    assert judged[1] is held
    assert ("held" if held else "NOT HELD") in stream.report(rows)


def test_nothing_is_promised_of_other_rates() -> None:
    """Where the rate of the promise was not tried, nothing is said of it."""
    assert stream.bound(stream.medians([row("berth", 500.0, 9000.0)])) is None


def test_nothing_is_promised_beside_pods_that_fit_nowhere() -> None:
    """They have rows of their own."""
    rows = [{**row("berth", 200.0, 9000.0), "impossible": 400}]

    assert stream.bound(stream.medians(rows)) is None
    assert "200 a second, 400 in vain: Berth" in stream.report(rows)


def test_there_is_a_card_for_each_pod() -> None:
    """Those that bring the scheduler up included."""
    assert stream.nodes_for(200.0, 60.0) * 8 >= 12_000 + stream.WARM
