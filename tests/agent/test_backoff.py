"""How long an agent waits after a failure, and how often it speaks of one that lasts."""

import logging
import random

import pytest

from berth_agent import backoff
from berth_crds.client import errors


def test_pauses_grow_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses double from a quarter of a second to the bound, chance takes up to half of each off."""
    error = errors.Unreachable("away", ambiguous=False)
    monkeypatch.setattr(random, "uniform", max)
    longest = [backoff.pause(error, failures, most=10) for failures in (*range(1, 9), 10**9)]
    monkeypatch.setattr(random, "uniform", min)
    shortest = [backoff.pause(error, failures, most=10) for failures in (*range(1, 9), 10**9)]

    assert longest == [0.25, 0.5, 1, 2, 4, 8, 10, 10, 10]
    assert shortest == [pause / 2 for pause in longest]


def test_server_that_asks_for_patience_gets_it() -> None:
    """Retry-After wins over a shorter pause."""
    assert backoff.pause(errors.Throttled(429, "slow down", retry_after=7.0), 1, most=10) == 7.0


def test_lasting_trouble_is_told_seldom(caplog: pytest.LogCaptureFixture) -> None:
    """Told are the first, tenth and every hundredth failure of a kind, another kind at once, and the end."""
    caplog.set_level(logging.INFO)
    failure_log = backoff.FailureLog(logging.getLogger("test"), "n1 is not published")
    away, refused = errors.Unreachable("away", ambiguous=False), errors.Forbidden(403, "no")

    for error in [away] * 250 + [refused] * 5:
        failure_log.failed(error, most=10)
    failure_log.succeeded()
    failure_log.succeeded()

    attempts = [record.getMessage().partition(")")[0] for record in caplog.records]
    assert attempts == [
        *(f"n1 is not published (attempt {number}" for number in (1, 10, 100, 200, 251)),
        "n1 is not published: over after 255 failed attempts",
    ]
