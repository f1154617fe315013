"""The program itself: help, ends of pipes, interrupts, size."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from berth_operator.simulation import __main__ as program
from berth_operator.simulation import kinds
from simulation import simulator

PAGE: Final = simulator.EXAMPLES / "README.md"
WORDS: Final = (sys.executable, "-m", "berth_operator.simulation")


def environment(*first: Path) -> dict[str, str]:
    """Let the child find what we found, and before that what is in some folder."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, first), *sys.path])}


def start(*words: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Start the program with pipes to all its streams."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*WORDS, *words], stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env or environment()
    )


def end(*words: str, **streams: Any) -> subprocess.CompletedProcess[str]:
    """Run the program to its end."""
    return subprocess.run(words, text=True, stderr=subprocess.PIPE, env=environment(), check=False, **streams)


@pytest.mark.parametrize("words", [[], ["place"], ["replay"]], ids=["the program", "place", "replay"])
def test_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Help is there for all, with examples that can be copied."""
    with pytest.raises(SystemExit) as exit_:
        program.main([*words, "--help"])

    text = capsys.readouterr().out
    assert exit_.value.code == 0
    assert f"usage: .venv/bin/berth-simulation{' ' if words else ''}{' '.join(words)}" in text
    assert not words or "examples:" in text


def test_help_and_page_tell_which_kinds_count(capsys: pytest.CaptureFixture[str]) -> None:
    """Both name all kinds that are read, and say that what makes pods is refused rather than passed over."""
    with pytest.raises(SystemExit):
        program.main(["place", "--help"])

    help_ = " ".join(capsys.readouterr().out.split())
    page = " ".join(PAGE.read_text().split())
    for text, listed in ((help_, "prints them: "), (page, "The kinds that count are ")):
        names, rest = text.split(listed)[1].split("ther kinds are passed over", maxsplit=1)
        assert [kind.name for kind in kinds.KINDS if not re.search(rf"\b{kind.name}\b", names)] == []
        assert "is refused where it was written by hand, for no controller is at work here" in rest


def test_any_order(tmp_path: Path) -> None:
    """Files and flags may stand in any order."""
    file = simulator.save(tmp_path / "pod.yaml", simulator.pod())
    cluster = simulator.save(tmp_path / "cluster.yaml", *simulator.both())
    words = (cluster, "-o", "json", file, "--all")

    assert simulator.run("place", *words) == simulator.run("place", "-o", "json", "--all", cluster, file)


def test_module() -> None:
    """`python -m berth_operator.simulation` is the program."""
    objects = simulator.written(*simulator.both(), simulator.pod())

    answer = end(*WORDS, "place", "-", "-o", "json", input=objects, stdout=subprocess.PIPE)

    assert simulator.nodes([json.loads(answer.stdout)]) == {"ml/p": "n1"}
    assert (answer.returncode, answer.stderr) == (0, "")


def test_reader_leaves() -> None:
    """Who reads only the first lines is left in peace."""
    pods = [simulator.pod(f"p{at}", {"nvidia.com/gpu": 16}) for at in range(2000)]
    with start("place", "-") as child:
        assert child.stdin and child.stdout and child.stderr
        child.stdin.write(simulator.written(*simulator.both(), *pods))
        child.stdin.close()
        assert child.stdout.readline().startswith("POD")
        child.stdout.close()

        assert child.stderr.read() == ""
    assert child.returncode == 141


def test_full_disk() -> None:
    """Where the output cannot be written, one line says so."""
    objects = simulator.written(*simulator.both(), simulator.pod())

    with Path("/dev/full").open("w") as full:
        answer = end(*WORDS, "place", "-", input=objects, stdout=full)

    message = "berth-simulation: the output cannot be written: No space left on device\n"
    assert (answer.returncode, answer.stderr) == (1, message)


@pytest.fixture
def terminal() -> Iterator[None]:
    """Have children heed Ctrl-C: what a shell starts with `&` ignores it, and hands that down."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("terminal")
def test_interrupted() -> None:
    """Ctrl-C ends the program without a word."""
    child = start("place", "-")
    _wait_until_it_reads(child)

    child.send_signal(signal.SIGINT)

    assert (child.communicate(timeout=30), child.returncode) == (("", ""), 130)


@pytest.mark.usefixtures("terminal")
def test_interrupted_at_once(tmp_path: Path) -> None:
    """Ctrl-C ends the program without a word while it still reads its own modules, too."""
    # Short pauses: a signal that comes just before one begins is heard when it is over.
    body = "import time\nprint('reading', flush=True)\nwhile True: time.sleep(0.01)\n"
    (tmp_path / "msgspec.py").write_text(body)
    child = start("--help", env=environment(tmp_path))
    assert child.stdout is not None
    assert child.stdout.readline() == "reading\n"

    child.send_signal(signal.SIGINT)

    assert (child.communicate(timeout=30), child.returncode) == (("", ""), 130)


CLOSED: Final = {
    "output": (">&-", "pod.json", 1, "berth-simulation: the output cannot be written: it is closed\n"),
    "input": ("<&-", "-", 2, "berth-simulation: standard input is closed\n"),
    "the place for notes": ("2>&-", "alone.json", 0, ""),
    "the place for notes, after a mistake": ("2>&-", "nothing.json", 2, ""),
}


@pytest.mark.parametrize(("closed", "file", "code", "message"), CLOSED.values(), ids=CLOSED)
def test_closed(tmp_path: Path, closed: str, file: str, code: int, message: str) -> None:
    """A stream that was closed before the program started costs one line, or nothing."""
    simulator.save(tmp_path / "pod.json", *simulator.both(), simulator.pod())
    simulator.save(tmp_path / "alone.json", simulator.device(), simulator.pod())
    words = "sh", "-c", f'exec "$0" "$@" {closed}', *WORDS, "place", "-o", "json", file

    answer = end(*words, stdout=subprocess.PIPE, cwd=tmp_path)

    assert (answer.returncode, answer.stderr, bool(answer.stdout)) == (code, message, code == 0)


def _wait_until_it_reads(child: subprocess.Popen[str]) -> None:
    """Wait until the child sleeps in a read of its standard input."""
    wait, call = Path(f"/proc/{child.pid}/wchan"), Path(f"/proc/{child.pid}/syscall")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if "pipe" in wait.read_text() or call.read_text().startswith("0 0x0 "):
            return
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("lines", ["yaml", "json"])
def test_large(tmp_path: Path, lines: str) -> None:
    """A file of hundreds of nodes and pods is answered whole, in either form."""
    shapes = ("8xA100-SXM4-80GB", "8xV100-SXM2-32GB", "4xT4")
    nodes = [one for at in range(300) for one in simulator.both(f"n{at:04}", shapes[at % 3])]
    limits = ({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 8}, {"berth.dev/gpu": 25}, {"nvidia.com/gpu": 16})
    pods = [simulator.pod(f"p{at:04}", limits[at % 4]) for at in range(600)]
    file = simulator.save(tmp_path / "all.yaml", *nodes, *pods)
    if lines == "json":
        file.write_text(simulator.written(*nodes, *pods))

    answer = simulator.run("place", file)

    assert answer.out.endswith("are now\n")
    assert all(f"p{at:04}" in answer.out for at in range(600))
