"""What the benchmark of a stream of pods promises, judged without a cluster."""

from typing import Any

import pytest

from bench import stream

FIGURES = dict.fromkeys((key for _, key, _ in stream.TABLE.columns), 1.0)


def row(system: str, rate: float, p99: float, *, made: float = 1.0) -> dict[str, Any]:
    """Return what one run found, in which so much of the rate was made."""
    found = {"system": system, "rate": rate, "impossible": 0, "p99_ms": p99, "made_per_s": made * rate}
    return {**FIGURES, **found}


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

    slowest, came = stream.promises(stream.medians(rows))

    assert (slowest.kept, came.kept) == (held, True)
    assert f"{slowest.sentence}: {'held' if held else 'NOT HELD'}" in stream.report(rows)


def test_pods_that_came_too_slowly_prove_nothing() -> None:
    """A server that could not make them so fast spared the scheduler."""
    slowest, came = stream.promises(stream.medians([row("berth", 200.0, 1.0, made=0.96)]))

    assert (slowest.kept, came.kept) == (True, False)
    assert came.sentence == "200 a second: at least 194 pods a second came (192.0)"


def test_nothing_is_promised_of_other_rates() -> None:
    """Where the rate of the promise was not tried, nothing is said of it."""
    assert not list(stream.promises(stream.medians([row("berth", 500.0, 9000.0)])))


def test_nothing_is_promised_beside_pods_that_fit_nowhere() -> None:
    """They have rows of their own."""
    rows = [{**row("berth", 200.0, 9000.0), "impossible": 400}]

    assert not list(stream.promises(stream.medians(rows)))
    assert "200 a second, 400 in vain: Berth" in stream.report(rows)


def test_there_is_a_card_for_each_pod() -> None:
    """Those that bring the scheduler up included."""
    assert stream.nodes_for(200.0, 60.0) * 8 >= 12_000 + stream.WARM
