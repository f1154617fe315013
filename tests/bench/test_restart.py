"""What `make bench` reads and reckons without a cluster: stages in a log, and spreads."""

import datetime as dt

import pytest

from bench import restart, times


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


def test_a_spread_names_times_that_were_measured() -> None:
    """No figure is a mean between two times; of 200, two are slower than the 99th percentile."""
    assert times.spread([float(one) for one in range(200, 0, -1)]) == times.Spread(200, 100.0, 198.0, 200.0)
    assert times.spread([7.0]) == times.Spread(1, 7.0, 7.0, 7.0)
