"""What the benchmark of shared cards prints, without a cluster."""

from bench import fill, fractions


def test_parts_are_compared_with_whole_cards() -> None:
    """By the medians of the runs, the whole cards first."""
    figures = {key: 1.0 for _, key, _ in fill.TABLE.columns}
    speeds = ((25, 50.0), (100, 90.0), (25, 80.0), (100, 100.0), (25, 5000.0), (100, 110.0))
    rows = [{**figures, "percent": percent, "pods_per_s": speed} for percent, speed in speeds]

    assert list(fractions.medians(rows)) == [100, 25]
    assert "25 % of a card each against whole cards: 0.80 of the pods/s, 1.00 of the CPU" in fractions.report(
        rows
    )
