"""What the benchmark of growth measures and reckons, on a small cluster."""

import time

import pytest

from bench import growth, stopwatch


def busy(seconds: float) -> None:
    """Compute for so long."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_a_part_does_not_count_what_parts_inside_it_take() -> None:
    """What it does before and after is its own; a part inside a part of the same name counts once."""
    watch = stopwatch.Stopwatch()
    inner = watch.timed("inner", busy)

    with watch.part("outer"):
        busy(0.01)
        with watch.part("inner"):
            inner(0.02)
        busy(0.01)

    assert watch.seconds["outer"] == pytest.approx(0.02, abs=0.005)
    assert watch.seconds["inner"] == pytest.approx(0.02, abs=0.005)


def test_small_clusters_have_no_more_pods_than_their_kubelets_take() -> None:
    """A size that comes twice is measured once."""
    assert growth.sizes([10, 1000], [0, 2000, 5000]) == [
        (10, 0),
        (10, 1000),
        (1000, 0),
        (1000, 2000),
        (1000, 5000),
    ]


def test_every_figure_is_measured() -> None:
    """On a small cluster all pods are bound, and each part takes some time."""
    [row] = growth.measure([(100, 200)])

    assert {key for key, figure in row.items() if not figure} <= {"rss_mib"}
    assert row.keys() >= {key for _, key, _ in growth.TABLE.columns}
    assert row["bind_us"] == pytest.approx(sum(row[f"{part}_us"] for part in growth.PARTS))


@pytest.mark.parametrize(("large", "kept"), [(600.0, True), (605.0, False)])
def test_a_bind_in_a_large_cluster_is_compared_with_one_in_a_small(large: float, *, kept: bool) -> None:
    """The bound is a ratio; without both sizes there is none."""
    small = {"nodes": 1_000, "pods": 0, "bind_us": 500.0}
    rows = [small, {"nodes": 5_000, "pods": 40_000, "bind_us": large}]

    (promise,) = growth.promises(rows)
    assert promise.kept is kept
    assert not list(growth.promises([small]))
