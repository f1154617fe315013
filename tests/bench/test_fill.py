"""What filling a cluster promises, and whether a card was given twice, judged without a cluster."""

from typing import Any, Final

import pytest

from bench import fill, given_twice
from berth_crds import allocation, names

FIGURES: Final = {key: 1.0 for _, key, _ in fill.TABLE.columns}


def row(system: str, nodes: int = 1_000, **figures: float) -> dict[str, Any]:
    """Return what one run found."""
    return {**FIGURES, "system": system, "nodes": nodes, "pods": fill.pods_for(nodes), **figures}


@pytest.mark.parametrize(
    ("nodes", "figures", "broken"),
    [
        (1_000, {"pods_per_s": 300.0}, ""),
        (1_000, {"pods_per_s": 299.0}, "at least 3 times the pods/s of kube-scheduler (2.990)"),
        (1_000, {"pods_per_s": 300.0, "rss_mib": 1.01}, "at most the memory of kube-scheduler (1.010 of it)"),
        (5_000, {"pods_per_s": 281.0}, ""),
        (5_000, {"pods_per_s": 279.0}, "at least 0.8 times the pods/s of bare-fenced (0.797)"),
        (100, {"pods_per_s": 1.0}, ""),
        (1_000, {"pods_per_s": 1.0, "pods": 200}, ""),
    ],
)
def test_each_promise_can_be_broken(nodes: int, figures: dict[str, float], broken: str) -> None:
    """By medians, beside the rivals' at the same size; of other sizes nothing is promised."""
    rivals = {"kube-scheduler": 100.0, "bare-fenced": 350.0}
    rows = [row(name, nodes, pods_per_s=speed) for name, speed in rivals.items()]
    rows += [row("berth", nodes, **figures) for _ in range(3)] + [row("berth", nodes, pods_per_s=1e9)]

    found = [one for one in fill.promises(fill.medians(rows)) if not one.kept]

    assert [one.sentence for one in found] == ([f"{nodes:,} nodes: {broken}"] if broken else [])


@pytest.mark.parametrize(("cost", "kept"), [(1.2, True), (1.21, False)])
def test_a_pod_costs_hardly_more_in_a_large_cluster(cost: float, *, kept: bool) -> None:
    """That is judged where both sizes were filled, and the report says so."""
    rows = [row("berth"), row("berth", 5_000, cpu_ms_per_pod=cost)]

    (promise,) = fill.promises(fill.medians(rows))

    assert promise.kept is kept
    assert str(promise) in fill.report(rows)


def bound(name: str, minor: int, core: int, phase: str = "Running") -> dict[str, Any]:
    """Return a pod that has a part of a card."""
    record = allocation.of("node-a", {"main": {"gpu": [allocation.Share(f"GPU-{minor}", minor, core, 1)]}})
    annotations = {names.ALLOCATION: allocation.encode(record)}
    return {"metadata": {"name": name, "annotations": annotations}, "status": {"phase": phase}}


def test_a_card_that_is_given_twice_is_named() -> None:
    """Parts that fill it are right, and so is what a pod had that is over."""
    pods = [bound("a", 0, 50), bound("b", 0, 50), bound("c", 1, 100, "Succeeded"), bound("d", 1, 100)]
    assert not list(given_twice.overfull_cards(pods))

    assert list(given_twice.overfull_cards([*pods, bound("e", 0, 1)])) == [
        "101 % of card GPU-0 of node-a are given out"
    ]
