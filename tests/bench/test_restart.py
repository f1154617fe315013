"""What `make bench` reads and reckons without a cluster: stages in a log, and spreads."""

import datetime as dt
from typing import Final

import pytest

from bench import answers, restart


def test_stages_are_read_from_the_log() -> None:
    """Each stage counts when it is first reached, in seconds after the start; other lines are passed over."""
    start = dt.datetime(2026, 3, 1, 12, 0, 0).astimezone().timestamp()
    log = """\
2026-03-01 12:00:00,400 INFO    berth_operator.app: talking to https://here (kubeconfig)
some library, unasked
2026-03-01 12:00:02,250 INFO    berth_operator.app: deciding: <Ledger>
2026-03-01 12:00:09,000 INFO    berth_operator.app: deciding: <Ledger>
"""

    found = restart.stages(log, since=start)

    assert found == pytest.approx({"connected_s": 0.4, "deciding_s": 2.25})


ROW: Final = {
    "life": restart.RELEASED,
    "busy_loops": 0,
    "complete_s": 10.0,
    "first_bind_s": 11.5,
    "peak_mib": 400,
    "later_peak_mib": 550,
    "lead_kept": True,
}


@pytest.mark.parametrize(
    ("nodes", "change", "broken"),
    [
        (1000, {"first_bind_s": 4.9}, 0),
        (1000, {"first_bind_s": 5.1}, 1),
        (5000, {}, 0),
        (5000, {"first_bind_s": 12.1}, 1),
        (5000, {"later_peak_mib": 601}, 1),
        (5000, {"lead_kept": False}, 1),
        (1000, {"first_bind_s": 4.9, "replica_s": 7.9}, 0),
        (1000, {"first_bind_s": 4.9, "replica_s": 8.1}, 1),
    ],
)
def test_each_bound_can_be_broken(nodes: int, change: dict[str, float], broken: int) -> None:
    """A small cluster has a bound in seconds, a large one in reading and memory, any in failover."""
    replica = {"life": restart.STOOD_BY, "first_bind_s": change.get("replica_s", 6.0)}

    assert sum(not kept for _, kept in restart.promises([ROW | change, ROW | replica], nodes)) == broken


def test_what_happens_beside_busy_loops_is_judged_by_the_lead_alone() -> None:
    """There nobody knows how much later everything is; that the lead is lost is never right."""
    slow = {"busy_loops": 2, "first_bind_s": 90.0, "lead_kept": False}
    replica = {"life": restart.STOOD_BY, "first_bind_s": 6.0}

    crowd = [ROW, ROW | replica, ROW | slow, ROW | replica | slow]
    assert [kept for _, kept in restart.promises(crowd, 5000)] == [True, True, True, False]


def test_figures_are_times_that_were_measured() -> None:
    """No figure is a mean between two times; of 200, two are slower than the 99th percentile."""
    found = [answers.Answer("part", "kind", float(one)) for one in range(200, 0, -1)]

    (row, _) = answers.summary(found)

    assert [row[key] for key in ("count", "p50_s", "p99_s", "max_s")] == [200, 100.0, 198.0, 200.0]
