"""`make bench` runs the scenarios that there are, and names them to somebody who asks for another."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from bench import __main__ as program

ROOT: Final = Path(__file__).resolve().parents[2]


def test_a_scenario_that_there_is_not_is_answered_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A wrong name gives one sentence, which lists the right ones."""
    assert program.main(["foo"]) == program.UNKNOWN

    said = capsys.readouterr().err
    assert (
        said
        == "bench: there is no scenario foo: it is one of fill, fractions, stream, churn, answers, restart.\n"
    )


def test_every_scenario_is_known() -> None:
    """The names are those of the programs beside it that are scenarios."""
    texts = {path.stem: path.read_text() for path in Path(__file__).parent.glob("*.py")}

    assert set(program.SCENARIOS) == {
        name for name, text in texts.items() if f'prog="make bench SCENARIO={name}"' in text
    }


@pytest.mark.parametrize(
    "target",
    [
        *(f"bench SCENARIO={name}" for name in program.SCENARIOS),
        *("bench-openb", "bench-agent", "bench-decide", "fuzz", "chaos"),
    ],
)
def test_make_hands_on_what_is_asked(target: str) -> None:
    """Any program that measures or breaks tells what it can be asked, and does not start its work instead."""
    words = ["make", "--dry-run", "--no-print-directory", *target.split(), "ARGS=--help"]
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    command = said.replace("\\\n", " ").splitlines()[-1]

    asked = subprocess.run(
        [sys.executable, *shlex.split(command)[1:]],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "tests"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.startswith(f"usage: make {target} ")
