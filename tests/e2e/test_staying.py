"""While `make cluster` stays it tells what has ended, and what cannot be is said before anything starts."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from e2e import by_hand
from support import timeless
from testbed import console, processes, waiting, workers


def started(name: str, script: str, folder: Path) -> processes.Program:
    """Start a program that runs a script."""
    return processes.start(name, [sys.executable, "-c", script], log=folder / f"{name}.log")


def test_a_program_that_ends_is_told_of_once(tmp_path: Path) -> None:
    """Whoever stays reads once which program has ended, where its log is, and its last words."""
    # Given one that has ended, and one that runs
    ended = started("agent-1", "print('no more cards'); raise SystemExit(1)", tmp_path)
    running = started("berth-operator", "import time; time.sleep(600)", tmp_path)
    waiting.until(lambda: not ended.alive(), what="a program to end")
    told: list[str] = []

    # When somebody stays for a while
    @timeless.scenario
    async def a_while() -> None:
        async with timeless.beside(by_hand.stay((running, ended), told.append)):
            await asyncio.sleep(60)

    a_while()
    running.kill()

    # Then the one that has ended was told of
    assert told == [f"agent-1 has ended by itself; the end of {ended.log}:\nno more cards"]


@pytest.mark.parametrize("name", ["W_1", "w1.", "-w1", "w" * 41, "", "a/b"])
def test_a_name_that_no_worker_can_have_is_refused_at_once(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be the name of a node is answered with one sentence, and nothing is started."""
    assert by_hand.main([f"--worker={name}"]) == 1

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"cluster: there can be no worker: {name!r} is not up to 40 lowercase letters, digits and hyphens "
        "between them, such as w1\n"
    )


def test_names_that_workers_can_have() -> None:
    """Usual names will do, each for one worker."""
    assert workers.misnamed(["w1", "gpu-node-2", "w" * 40]) == ""
    assert workers.misnamed(["w1", "w2", "w1"]) == "'w1' is named twice"


@pytest.mark.parametrize("interrupted", [0, console.INTERRUPTED])
def test_who_ends_what_only_stays_gets_a_good_exit_code(interrupted: int) -> None:
    """Ctrl-C ends a program with the code that it chose for that."""

    def work() -> None:
        raise KeyboardInterrupt

    assert console.exit_code("x", work, interrupted=interrupted) == interrupted


def test_trouble_is_no_good_end() -> None:
    """What failed ends with 1, also where being ended by somebody is a good end."""

    def work() -> None:
        raise processes.CannotStart("no")

    assert console.exit_code("x", work, interrupted=0) == 1


@pytest.fixture(autouse=True)
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave this process's own signals as they are."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
