"""A probe that hangs or fails is one failed source, and never a second thread or a dead agent."""

import logging
import threading
import time
from collections.abc import AsyncIterator

import pytest

from berth_agent import loop, patience, probe, simulated
from berth_crds.client import errors
from testbed import waiting

CARDS = simulated.machine("n1", "1xT4")


class Gate:
    """A probe that hangs until it is let go, and counts its looks."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.looks = 0

    def sample(self) -> probe.Outcome:
        """Look once the gate is open."""
        self.looks += 1
        self.open.wait(30)
        return CARDS


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    """Lend a gate, and leave no thread behind it."""
    gate = Gate()
    yield gate
    gate.open.set()


async def test_sample_is_what_the_probe_gave() -> None:
    """A probe that answers in time is simply quoted."""
    sampler = loop.Sampler(simulated.SimulatedProbe(CARDS, simulated.FaultFile(None, "n1")), deadline=5)

    assert await sampler.sample() == CARDS


async def test_hung_probe_is_a_failed_source_and_not_asked_twice(gate: Gate) -> None:
    """A look past its deadline gives `Hung`; the next ones neither start another nor wait for it again."""
    sampler = loop.Sampler(gate, deadline=0.05)

    first = await sampler.sample()
    started = time.monotonic()
    more = [await sampler.sample() for _ in range(20)]

    assert isinstance(first, probe.SourceFailed)
    assert first.reason == "Hung"
    assert set(more) == {first}
    assert gate.looks == 1
    assert time.monotonic() - started < 20 * 0.05


async def test_probe_that_recovers_is_asked_anew(gate: Gate) -> None:
    """After a hang the old look's answer is dropped, and a fresh look counts."""
    sampler = loop.Sampler(gate, deadline=0.05)
    await sampler.sample()
    gate.open.set()

    async def answers() -> bool:
        return await sampler.sample() == CARDS

    await waiting.eventually(answers, what="the probe to answer again")
    assert gate.looks == 2


async def test_probe_that_raises_is_a_failed_source(caplog: pytest.LogCaptureFixture) -> None:
    """A fault in the probe's code is told in the condition and in the log."""

    class Faulty:
        def sample(self) -> probe.Outcome:
            raise ZeroDivisionError("by zero")

    outcome = await loop.Sampler(Faulty(), deadline=5).sample()

    assert outcome == probe.SourceFailed("ProbeFailed", "ZeroDivisionError: by zero")
    assert "the probe failed" in caplog.text


# ---------------------------------------------------------------- patience


def test_pauses_grow_up_to_a_bound() -> None:
    """Pauses double from a quarter of a second to the bound, chance takes up to half of each off."""
    error = errors.Unreachable("away", ambiguous=False)
    longest = [patience.pause(error, failures, most=10, chance=1.0) for failures in range(1, 9)]
    shortest = [patience.pause(error, failures, most=10, chance=0.0) for failures in range(1, 9)]

    assert longest == [0.25, 0.5, 1, 2, 4, 8, 10, 10]
    assert shortest == [pause / 2 for pause in longest]
    assert patience.pause(error, 10**9, most=10, chance=1.0) == 10


def test_server_that_asks_for_patience_gets_it() -> None:
    """Retry-After wins over a shorter pause."""
    error = errors.Throttled(429, "slow down", retry_after=7.0)

    assert patience.pause(error, 1, most=10, chance=0.5) == 7.0


def test_lasting_trouble_is_told_seldom(caplog: pytest.LogCaptureFixture) -> None:
    """Told are the first, tenth and every hundredth failure of a kind, another kind at once, and the end."""
    caplog.set_level(logging.INFO)
    complaint = patience.Complaint(logging.getLogger("test"), "n1 is not published")
    away, refused = errors.Unreachable("away", ambiguous=False), errors.Forbidden(403, "no")

    for error in [away] * 250 + [refused] * 5:
        complaint.failed(error)
    complaint.succeeded()
    complaint.succeeded()

    attempts = [record.getMessage().partition(")")[0] for record in caplog.records]
    assert attempts == [
        *(f"n1 is not published (attempt {number}" for number in (1, 10, 100, 200, 251)),
        "n1 is not published: over after 255 failed attempts",
    ]
