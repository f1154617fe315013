"""What the benchmarks of decisions and of the openb trace promise, and how results are dated."""

import re
from typing import Any

import pytest

from bench import decide, openb, results


@pytest.mark.parametrize(
    ("large", "largest", "kept"),
    [
        pytest.param(100.0, 200.0, [True, True], id="within both"),
        pytest.param(100.1, 150.0, [False, True], id="a decision takes too long"),
        pytest.param(90.0, 181.0, [True, False], id="it grows too much"),
        pytest.param(90.0, None, [True], id="the largest is not measured"),
    ],
)
def test_decisions_in_large_clusters_are_judged(
    large: float, largest: float | None, kept: list[bool]
) -> None:
    """By half of them, whatever smaller clusters take."""
    found = {1_000: 500.0, 5_000: large} | ({15_000: largest} if largest else {})
    rows = [
        {"nodes": nodes, "fill": "half", "request": "whole", "p50_us": took} for nodes, took in found.items()
    ]

    assert [one.kept for one in decide.promises(rows)] == kept


@pytest.mark.parametrize(("ours", "kept"), [((91.0, 91.8), True), ((91.0, 91.4), False)])
def test_what_is_given_out_where_cpu_is_scarce_is_judged_beside_the_rival(
    ours: tuple[float, float], *, kept: bool
) -> None:
    """By the means of the seeds."""

    def rows(strategy: str, *found: float) -> list[dict[str, Any]]:
        return [{"trace": "cpu250", "strategy": strategy, "allocated_percent": one} for one in found]

    (promise,) = openb.promises(
        [*rows("fragmentation", *ours), *rows("fgd", 91.0, 91.2), *rows("spread", 99.0)]
    )

    assert promise.kept is kept
    assert not list(openb.promises(rows("fragmentation", *ours)))


def test_results_say_of_which_commit_they_are() -> None:
    """And when and with which arguments they were found, so that a page can quote them."""
    written = results.dated([{"a": 1}])

    assert written["found"] == [{"a": 1}]
    assert set(written["measured"]) == {"commit", "date", "cores", "arguments"}
    assert re.fullmatch(r"([0-9a-f]{40}(-dirty)?)?", written["measured"]["commit"])
