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
from typing import Final

import pytest

from berth_operator.simulation import __main__ as program
from berth_operator.simulation import kinds
from simulation import desk

PAGE: Final = Path(__file__).resolve().parents[2] / "manifests" / "examples" / "README.md"
WORDS: Final = (sys.executable, "-m", "berth_operator.simulation")


def environment() -> dict[str, str]:
    """Let the child find what we found."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.parametrize("words", [[], ["place"], ["replay"]], ids=["the program", "place", "replay"])
def test_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Help is there for all, with examples that can be copied."""
    with pytest.raises(SystemExit) as end:
        program.main([*words, "--help"])

    text = capsys.readouterr().out
    assert end.value.code == 0
    assert f"usage: .venv/bin/berth-simulation{' ' if words else ''}{' '.join(words)}" in text
    assert not words or "examples:" in text


def test_help_and_page_tell_which_kinds_count(capsys: pytest.CaptureFixture[str]) -> None:
    """Both name all kinds that are read, and say that what makes pods is refused rather than passed over."""
    with pytest.raises(SystemExit):
        program.main(["place", "--help"])

    told = " ".join(capsys.readouterr().out.split())
    page = " ".join(PAGE.read_text().split())
    for text, listed in ((told, "prints them: "), (page, "The kinds that count are ")):
        names, rest = text.split(listed)[1].split("ther kinds are passed over", maxsplit=1)
        assert [kind.name for kind in kinds.KINDS if not re.search(rf"\b{kind.name}\b", names)] == []
        assert "is refused where it was written by hand, for no controller is at work here" in rest


def test_any_order(tmp_path: Path) -> None:
    """Files and flags may stand in any order."""
    file = desk.save(tmp_path / "pod.yaml", desk.pod())
    cluster = desk.save(tmp_path / "cluster.yaml", *desk.both())
    words = (cluster, "-o", "json", file, "--all")

    assert desk.run("place", *words) == desk.run("place", "-o", "json", "--all", cluster, file)


def test_module() -> None:
    """`python -m berth_operator.simulation` is the program."""
    answer = subprocess.run(
        [*WORDS, "place", "-", "-o", "json"],
        input=desk.written(*desk.both(), desk.pod()),
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )

    assert desk.went([json.loads(answer.stdout)]) == {"ml/p": "n1"}
    assert answer.stderr == ""


def test_reader_leaves() -> None:
    """Who reads only the first lines is left in peace."""
    pods = [desk.pod(f"p{at}", {"nvidia.com/gpu": 16}) for at in range(2000)]
    child = subprocess.Popen(
        [*WORDS, "place", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdin.write(desk.written(*desk.both(), *pods))
    child.stdin.close()
    assert child.stdout.readline().startswith("POD")
    child.stdout.close()

    assert child.stderr.read() == ""
    child.stderr.close()
    assert child.wait() == 141


def test_full_disk() -> None:
    """Where the output cannot be written, one line says so."""
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run(
            [*WORDS, "place", "-"],
            input=desk.written(*desk.both(), desk.pod()),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            check=False,
        )

    said = "berth-simulation: the output cannot be written: No space left on device\n"
    assert (answer.returncode, answer.stderr) == (1, said)


@pytest.fixture
def terminal() -> Iterator[None]:
    """Have children heed Ctrl-C: what a shell starts with `&` ignores it, and hands that down."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("terminal")
def test_interrupted() -> None:
    """Ctrl-C ends the program without a word."""
    child = subprocess.Popen(
        [*WORDS, "place", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    _wait_until_it_reads(child)
    child.send_signal(signal.SIGINT)
    out, told = child.communicate(timeout=30)

    assert (child.returncode, out, told) == (130, b"", b"")


@pytest.mark.usefixtures("terminal")
def test_interrupted_at_once(tmp_path: Path) -> None:
    """Ctrl-C ends the program without a word while it still reads its own modules, too."""
    (tmp_path / "msgspec.py").write_text("print('reading', flush=True)\nimport time\ntime.sleep(60)\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    child = subprocess.Popen(
        [*WORDS, "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"reading\n"
    child.send_signal(signal.SIGINT)
    out, told = child.communicate(timeout=30)

    assert (child.returncode, out, told) == (130, b"", b"")


CLOSED: Final = {
    "output": (">&-", "pod.json", 1, "berth-simulation: the output cannot be written: it is closed\n"),
    "input": ("<&-", "-", 2, "berth-simulation: standard input is closed\n"),
    "the place for notes": ("2>&-", "alone.json", 0, ""),
    "the place for notes, after a mistake": ("2>&-", "nothing.json", 2, ""),
}


@pytest.mark.parametrize(("closed", "file", "code", "said"), CLOSED.values(), ids=CLOSED.keys())
def test_closed(tmp_path: Path, closed: str, file: str, code: int, said: str) -> None:
    """A stream that was closed before the program started costs one line, or nothing."""
    desk.save(tmp_path / "pod.json", *desk.both(), desk.pod())
    desk.save(tmp_path / "alone.json", desk.device(), desk.pod())
    answer = subprocess.run(
        ["sh", "-c", f'exec "$0" "$@" {closed}', *WORDS, "place", "-o", "json", file],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=tmp_path,
        check=False,
    )

    assert (answer.returncode, answer.stderr) == (code, said)
    assert bool(answer.stdout) == (code == 0)


def _wait_until_it_reads(child: subprocess.Popen[bytes]) -> None:
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
    """A thousand nodes and two thousand pods take seconds."""
    shapes = ("8xA100-SXM4-80GB", "8xV100-SXM2-32GB", "4xT4")
    nodes = [one for at in range(1000) for one in desk.both(f"n{at:04}", shapes[at % 3])]
    limits = ({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 8}, {"berth.dev/gpu": 25}, {"nvidia.com/gpu": 16})
    pods = [desk.pod(f"p{at:04}", limits[at % 4]) for at in range(2000)]
    file = tmp_path / f"all.{lines}"
    if lines == "json":
        file.write_text(desk.written(*nodes, *pods))
    else:
        desk.save(file, *nodes, *pods)
    started = time.process_time()
    answer = desk.run("place", file)

    assert answer.out.endswith("are now\n")
    assert time.process_time() - started < 30
