"""A probe that hangs or fails is one failed source, and never a second thread or a dead agent."""

import asyncio
import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from berth_agent import probe, sampler, simulated
from berth_agent.gpupods import process_owners
from berth_agent.kubelet import cgroups
from testbed import waiting

CARDS = simulated.machine("n1", "1xT4")
FALLEN, WORN = probe.XidEvent("GPU-a", 79), probe.XidEvent("GPU-a", 63)
DEADLINE = 60.0  # In vain only if the test fails.
HUNG = "The probe has not answered within 0.02 s; it is at step 1."


class Scripted:
    """A probe whose samples end when they may, and return the errors reported until then."""

    def __init__(self) -> None:
        self.may_end = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)
        self.asked_for_events = threading.Semaphore(0)
        self.fault: Exception | None = None
        self.xids: list[probe.XidEvent] = []
        self.log: list[str] = []
        self.steps = 0

    def sample(self) -> probe.Outcome:
        """Sample, once that may end."""
        self.log.append("sample")
        taken, self.xids = tuple(self.xids), []
        assert self.may_end.acquire(timeout=60)
        self.log.append("end")
        self.ended.release()
        return dataclasses.replace(CARDS, xids=taken)

    def has_events(self) -> bool:
        """Return whether an error was reported, or fail."""
        self.asked_for_events.release()
        if self.fault:
            raise self.fault
        return bool(self.xids)

    def progress(self) -> str:
        """Return another step each time."""
        self.steps += 1
        return f"at step {self.steps}"

    def close(self) -> None:
        """Note that it is closed."""
        self.log.append("close")


Asker = Callable[..., sampler.Sampler]


@pytest.fixture
def ask() -> Iterator[Asker]:
    """Lend a maker of samplers, and close them."""
    with contextlib.ExitStack() as stack:
        yield lambda *probes, **options: stack.enter_context(
            contextlib.closing(sampler.Sampler(*probes, **options))
        )


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    """Lend a probe that hangs, and let it end."""
    scripted = Scripted()
    yield scripted
    scripted.may_end.release(100)


@pytest.fixture
def ready(scripted: Scripted) -> Scripted:
    """Lend a probe that answers at once."""
    scripted.may_end.release(100)
    return scripted


async def xids(asking: sampler.Sampler) -> tuple[probe.XidEvent, ...] | None:
    """Sample, and return the errors; None for a source that failed."""
    outcome = (await asking.sample()).outcome
    return outcome.xids if isinstance(outcome, probe.Sample) else None


async def until_answered(asking: sampler.Sampler) -> tuple[probe.XidEvent, ...]:
    """Wait until a sample does not hang, and return its errors."""

    async def answered() -> list[tuple[probe.XidEvent, ...]]:
        found = await xids(asking)
        return [] if found is None else [found]

    return (await waiting.eventually(answered, what="the probe to answer"))[0]


async def test_hung_probe_is_a_failed_source_and_not_asked_twice(scripted: Scripted, ask: Asker) -> None:
    """The deadline is waited for once: later samples end at once, start no other look, and say the same."""
    asking = ask(scripted, deadline=0.02)
    first = await asking.sample()

    for _ in range(20):
        with pytest.raises(StopIteration) as ended:
            asking.sample().send(None)
        assert ended.value.value == first
    assert (first.outcome, scripted.log) == (probe.SourceFailed("Hung", HUNG), ["sample"])


async def test_probe_that_recovers_is_asked_anew(scripted: Scripted, ask: Asker) -> None:
    """After a hang the old look's answer is dropped, its errors are kept, and a fresh look counts."""
    asking = ask(scripted, deadline=0.02)
    scripted.xids.append(FALLEN)
    await asking.sample()
    scripted.xids.append(WORN)
    asking._deadline = DEADLINE
    scripted.may_end.release(100)

    assert await until_answered(asking) == (FALLEN, WORN)
    assert (await xids(asking), scripted.log.count("sample")) == ((), 3)


class Failing:
    """A probe that lists two processes, and fails where it is told to."""

    def __init__(self, where: str = "") -> None:
        self.where = where

    def sample(self) -> probe.Outcome:
        """Return the cards, or fail."""
        if self.where == "cards":
            raise ZeroDivisionError("by zero")
        return CARDS

    def processes(self) -> tuple[probe.Process, ...]:
        """Return the processes, or fail."""
        if self.where == "processes":
            raise ZeroDivisionError
        return (probe.Process(7, "GPU-a"), probe.Process(8, "GPU-a"))


LOCATED = (process_owners.LocatedProcess(probe.Process(7, "GPU-a"), cgroups.HOST),)
BY_ZERO = probe.SourceFailed("ProbeFailed", "ZeroDivisionError: by zero")


@pytest.mark.parametrize(
    ("where", "expected", "logged"),
    [
        pytest.param("", sampler.Observation(CARDS, LOCATED), "", id="nowhere"),
        pytest.param("cards", sampler.Observation(BY_ZERO), "the probe failed", id="cards"),
        pytest.param("processes", sampler.Observation(CARDS), "cannot list the processes", id="processes"),
    ],
)
async def test_fault_of_a_probe_costs_what_it_reads(
    tmp_path: Path, ask: Asker, caplog: pytest.LogCaptureFixture, where: str, expected: object, logged: str
) -> None:
    """Processes that are still there come with their places; a fault is told in the log and the outcome."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text("0::/\n")

    assert await ask(Failing(where), deadline=DEADLINE, procfs=tmp_path).sample() == expected
    assert logged in caplog.text


# ---------------------------------------------------------------- events


async def test_events_are_told_between_looks(
    monkeypatch: pytest.MonkeyPatch, ask: Asker, ready: Scripted
) -> None:
    """An error does not wait for the next tick: who samples hears of it, once for each look."""
    monkeypatch.setattr(sampler, "EVENT_POLL_SECONDS", 0.01)
    changes: list[None] = []
    asking = ask(ready, deadline=DEADLINE, on_change=lambda: changes.append(None))
    await asking.sample()

    ready.xids.append(FALLEN)
    await waiting.eventually(lambda: asyncio.sleep(0, changes), what="the event")
    ready.xids.append(WORN)
    await asyncio.sleep(0.1)

    assert await xids(asking) == (FALLEN, WORN)
    assert len(changes) == 1


async def test_probe_that_cannot_report_events_is_told_of_once(
    ask: Asker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, ready: Scripted
) -> None:
    """It is asked every second, and not to be complained of as often; looks go on."""
    monkeypatch.setattr(sampler, "EVENT_POLL_SECONDS", 0.001)
    ready.fault = ZeroDivisionError()
    asking = ask(ready, deadline=DEADLINE)
    await asking.sample()
    for _ in range(5):
        assert await asyncio.to_thread(ready.asked_for_events.acquire, timeout=5)

    assert (await asking.sample()).outcome == CARDS
    assert caplog.text.count("cannot read the events") == 1


# ---------------------------------------------------------------- the end


async def test_what_a_probe_holds_open_is_closed_after_its_last_look(ask: Asker, scripted: Scripted) -> None:
    """A sampler that is closed while a look goes on closes the probe too, and not beside that look."""
    asking = ask(scripted, deadline=0.02)
    await asking.sample()
    asking.close()
    scripted.may_end.release()

    await waiting.eventually(lambda: asyncio.sleep(0, "close" in scripted.log), what="the probe to be closed")
    assert scripted.log == ["sample", "end", "close"]


async def test_two_samplers_never_look_at_one_probe_together(ask: Asker, scripted: Scripted) -> None:
    """One that follows another, whose look hangs, waits until that is over and the probe is closed."""
    lock = threading.Lock()
    first, second = (ask(scripted, deadline=0.02, probe_lock=lock) for _ in range(2))
    await first.sample()
    first.close()

    assert (await xids(second), scripted.log) == (None, ["sample"])
    scripted.may_end.release(100)
    assert await until_answered(second) == ()
    assert scripted.log[:5] == ["sample", "end", "close", "sample", "end"]


async def test_probe_that_is_always_late_is_heard(
    ask: Asker, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    """Its first look counts as hung, and from then on each gives what the one before it found, once."""
    asking = ask(scripted, deadline=0.02)
    scripted.xids.append(probe.XidEvent("GPU-a", 1))
    assert await xids(asking) is None

    for number in (1, 2, 3):
        scripted.xids.append(probe.XidEvent("GPU-a", number + 1))
        scripted.may_end.release()
        assert await asyncio.to_thread(scripted.ended.acquire, timeout=5)
        assert await until_answered(asking) == (probe.XidEvent("GPU-a", number),)
        assert scripted.log.count("sample") == number + 1
    assert caplog.text.count("longer than the 0.02 s of --sample-deadline") == 1
