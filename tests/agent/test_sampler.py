"""A probe that hangs or fails is one failed source, and never a second thread or a dead agent."""

import asyncio
import contextlib
import dataclasses
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from berth_agent import card_processes, probe, sampler, simulated
from berth_agent.gpupods import residents
from berth_agent.kubelet import cgroups
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


Asker = Callable[..., sampler.Sampler]


@pytest.fixture
def ask() -> Iterator[Asker]:
    """Lend a maker of samplers, and close them."""
    with contextlib.ExitStack() as stack:
        yield lambda *probes, **options: stack.enter_context(
            contextlib.closing(sampler.Sampler(*probes, **options))
        )


async def test_sample_is_what_the_probe_gave(ask: Asker) -> None:
    """A probe that answers in time is simply quoted."""
    asking = ask(simulated.SimulatedProbe(CARDS, simulated.FaultFile(None, "n1")), deadline=5)

    assert (await asking.sample()).outcome == CARDS


async def test_hung_probe_is_a_failed_source_and_not_asked_twice(gate: Gate, ask: Asker) -> None:
    """A look past its deadline gives `Hung`; the next ones neither start another nor wait for it again."""
    asking = ask(gate, deadline=0.05)

    first = await asking.sample()
    started = time.monotonic()
    more = [await asking.sample() for _ in range(20)]

    assert isinstance(first.outcome, probe.SourceFailed)
    assert first.outcome.reason == "Hung"
    assert set(more) == {first}
    assert gate.looks == 1
    assert time.monotonic() - started < 20 * 0.05


async def test_probe_that_recovers_is_asked_anew(gate: Gate, ask: Asker) -> None:
    """After a hang the old look's answer is dropped, and a fresh look counts."""
    asking = ask(gate, deadline=0.05)
    await asking.sample()
    gate.open.set()

    async def answers() -> bool:
        return (await asking.sample()).outcome == CARDS

    await waiting.eventually(answers, what="the probe to answer again")
    assert gate.looks == 2


async def test_probe_that_raises_is_a_failed_source(caplog: pytest.LogCaptureFixture, ask: Asker) -> None:
    """A fault in the probe's code is told in the condition and in the log."""

    class Faulty:
        def sample(self) -> probe.Outcome:
            raise ZeroDivisionError("by zero")

    outcome = await ask(Faulty(), deadline=5).sample()

    assert outcome.outcome == probe.SourceFailed("ProbeFailed", "ZeroDivisionError: by zero")
    assert "the probe failed" in caplog.text


async def test_processes_come_with_their_places(tmp_path: Path, ask: Asker) -> None:
    """A probe that can tell processes is asked for them, and those that are still there have a place."""

    class Crowded:
        def sample(self) -> probe.Outcome:
            return CARDS

        def processes(self) -> tuple[card_processes.Process, ...]:
            return (card_processes.Process(7, "GPU-a"), card_processes.Process(8, "GPU-a"))

    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text("0::/\n")

    look = await ask(Crowded(), deadline=5, procfs=tmp_path).sample()

    assert look.crowd == (residents.Resident(card_processes.Process(7, "GPU-a"), cgroups.HOST),)


async def test_fault_in_telling_processes_leaves_the_cards(
    caplog: pytest.LogCaptureFixture, ask: Asker
) -> None:
    """Cards that were read stand, and of processes nothing is known."""

    class Faulty:
        def sample(self) -> probe.Outcome:
            return CARDS

        def processes(self) -> tuple[card_processes.Process, ...]:
            raise ZeroDivisionError

    look = await ask(Faulty(), deadline=5).sample()

    assert look == sampler.Look(CARDS, None)
    assert "cannot tell the processes" in caplog.text


# ---------------------------------------------------------------- news


class Chatty:
    """A probe that hears of errors, which each look takes along."""

    def __init__(self) -> None:
        self.told: list[probe.Xid] = []
        self.open = threading.Event()
        self.open.set()

    def has_news(self) -> bool:
        """Return whether an error was told."""
        return bool(self.told)

    def sample(self) -> probe.Outcome:
        """Return the errors, and hang where that is wanted."""
        taken, self.told = tuple(self.told), []
        self.open.wait(30)
        return dataclasses.replace(CARDS, xids=taken)


FALLEN = probe.Xid("GPU-a", 79)
WORN = probe.Xid("GPU-a", 63)


def xids(outcome: probe.Outcome) -> tuple[probe.Xid, ...]:
    """Return the errors of a look that succeeded."""
    assert isinstance(outcome, probe.Sample), outcome
    return outcome.xids


async def test_news_is_told_between_looks(monkeypatch: pytest.MonkeyPatch, ask: Asker) -> None:
    """An error does not wait for the next tick: who samples hears of it, once for each look."""
    monkeypatch.setattr(sampler, "ASKING_SECONDS", 0.01)
    chatty, heard = Chatty(), asyncio.Event()
    asking = ask(chatty, deadline=5, on_change=heard.set)
    await asking.sample()

    chatty.told.append(FALLEN)
    await asyncio.wait_for(heard.wait(), 5)
    heard.clear()
    chatty.told.append(WORN)
    await asyncio.sleep(0.1)

    assert not heard.is_set()
    assert xids((await asking.sample()).outcome) == (FALLEN, WORN)


async def test_errors_told_to_a_look_that_hung_are_not_lost(ask: Asker) -> None:
    """What a look past its deadline was told comes with the next one that succeeds, and only once."""
    chatty = Chatty()
    asking = ask(chatty, deadline=0.05)
    chatty.told.append(FALLEN)
    chatty.open.clear()
    await asking.sample()
    chatty.told.append(WORN)
    chatty.open.set()

    async def answered() -> probe.Sample | None:
        outcome = (await asking.sample()).outcome
        return outcome if isinstance(outcome, probe.Sample) else None

    assert (await waiting.eventually(answered, what="the probe to answer again")).xids == (FALLEN, WORN)
    assert xids((await asking.sample()).outcome) == ()


async def test_the_thread_ends_with_the_sampler(ask: Asker) -> None:
    """A sampler that is closed leaves no thread behind."""
    before = set(threading.enumerate())
    asking = ask(Chatty(), deadline=5)
    await asking.sample()
    (thread,) = set(threading.enumerate()) - before

    asking.close()

    await asyncio.to_thread(thread.join, 5)
    assert not thread.is_alive()


async def test_two_samplers_never_look_at_one_probe_together(ask: Asker, gate: Gate) -> None:
    """One that follows another, whose look hangs, waits until that is over and the probe is closed."""
    alone = threading.Lock()
    first, second = (ask(gate, deadline=0.05, alone=alone) for _ in range(2))
    await first.sample()
    first.close()

    hung = await second.sample()
    looks = gate.looks
    gate.open.set()

    async def answered() -> bool:
        return (await second.sample()).outcome == CARDS

    assert isinstance(hung.outcome, probe.SourceFailed)
    assert looks == 1
    assert await waiting.eventually(answered, what="the second to look")


async def test_what_a_probe_holds_open_is_closed_after_its_last_look(ask: Asker, gate: Gate) -> None:
    """A sampler that is closed while a look goes on closes the probe too, and not beside that look."""
    closed = threading.Event()

    class Holding:
        def sample(self) -> probe.Outcome:
            assert not closed.is_set()
            return gate.sample()

        def close(self) -> None:
            closed.set()

    asking = ask(Holding(), deadline=0.05)
    await asking.sample()
    asking.close()
    assert not closed.is_set()

    gate.open.set()

    assert await asyncio.to_thread(closed.wait, 5)


async def test_probe_that_cannot_listen_is_told_of_once(
    ask: Asker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked every second, and not to be complained of as often; looks go on."""
    monkeypatch.setattr(sampler, "ASKING_SECONDS", 0.001)
    asked = threading.Semaphore(0)

    class Deaf(Chatty):
        def has_news(self) -> bool:
            asked.release()
            raise ZeroDivisionError

    asking = ask(Deaf(), deadline=5)
    await asking.sample()
    for _ in range(5):
        assert await asyncio.to_thread(asked.acquire, timeout=5)

    assert (await asking.sample()).outcome == CARDS
    assert caplog.text.count("cannot listen") == 1


class Slow:
    """A probe whose looks end when they are let, at a place that moves on; each finds one error."""

    def __init__(self) -> None:
        self.let = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)
        self.looks = 0
        self.steps = 0

    def sample(self) -> probe.Outcome:
        """Look once it is let."""
        self.looks += 1
        assert self.let.acquire(timeout=30)
        self.ended.release()
        return dataclasses.replace(CARDS, xids=(probe.Xid("GPU-a", self.looks),))

    def whereabouts(self) -> str:
        """Be somewhere else each time that it is asked."""
        self.steps += 1
        return f"at step {self.steps}"


@pytest.fixture
def slow() -> Iterator[Slow]:
    """Lend a slow probe, and let it end."""
    slow = Slow()
    yield slow
    slow.let.release(100)


async def test_probe_that_is_always_late_is_heard(
    ask: Asker, slow: Slow, caplog: pytest.LogCaptureFixture
) -> None:
    """Its first look counts as hung, and from then on each gives what the one before it found, once."""
    asking = ask(slow, deadline=0.02)
    first = (await asking.sample()).outcome
    assert isinstance(first, probe.SourceFailed)

    async def heard() -> tuple[probe.Xid, ...] | None:
        outcome = (await asking.sample()).outcome  # While the thread has not handed it over, it hangs.
        return outcome.xids if isinstance(outcome, probe.Sample) else None

    for number in (1, 2, 3):
        slow.let.release()
        assert await asyncio.to_thread(slow.ended.acquire, timeout=5)
        assert await waiting.eventually(heard, what="the late answer") == (probe.Xid("GPU-a", number),)
        assert slow.looks == number + 1
    assert caplog.text.count("longer than the 0.02 s of --sample-deadline") == 1


async def test_words_about_a_look_that_hangs_do_not_change(ask: Asker, slow: Slow) -> None:
    """Each other word would be another revision of the Device."""
    asking = ask(slow, deadline=0.02)

    said = {(await asking.sample()).outcome for _ in range(5)}

    (only,) = said
    assert isinstance(only, probe.SourceFailed)
    assert only.message == "The probe has not answered within 0.02 s; it is at step 1."
