"""`make bench` runs all scenarios or one, and names them to somebody who asks for another."""

import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from bench import __main__ as program
from testbed import console

ROOT: Final = Path(__file__).resolve().parents[2]


def test_a_scenario_that_there_is_not_is_answered_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A wrong name gives one sentence, which lists the right ones."""
    assert program.main(["foo"]) == program.UNKNOWN

    said = capsys.readouterr().err
    assert said.startswith("bench: there is no scenario foo: it is one of fill, fractions, stream, ")


def test_every_scenario_is_known() -> None:
    """The names are those of the programs beside it that are scenarios."""
    texts = {path.stem: path.read_text() for path in Path(__file__).parent.glob("*.py")}

    assert set(program.SCENARIOS) == {
        name for name, text in texts.items() if f'prog="make bench SCENARIO={name}"' in text
    }


@pytest.mark.filterwarnings("ignore:.* found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize(
    "target",
    [
        *(f"bench SCENARIO={name}" for name in program.SCENARIOS),
        *("bench-openb", "bench-agent", "bench-decide", "fuzz", "chaos"),
    ],
)
def test_make_hands_on_what_is_asked(
    target: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any program that measures or breaks tells what it can be asked, and does not start its work instead."""
    words = ["make", "--dry-run", "--no-print-directory", *target.split(), "ARGS=--help"]
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    python, switch, module, *args = shlex.split(said.replace("\\\n", " ").splitlines()[-1])
    monkeypatch.setattr(sys, "argv", [python, *args])

    with pytest.raises(SystemExit) as ended:
        runpy.run_module(module, run_name="__main__", alter_sys=True)

    assert (switch, ended.value.code) == ("-m", 0)
    assert capsys.readouterr().out.startswith(f"usage: make {target} ")


@pytest.mark.parametrize(
    ("codes", "expected", "reached"),
    [
        pytest.param({}, 0, "agents", id="all well"),
        pytest.param({"stream": 1}, 1, "agents", id="one does not keep its bounds"),
        pytest.param({"stream": console.INTERRUPTED}, console.INTERRUPTED, "stream", id="ended by a person"),
    ],
)
def test_without_a_name_all_are_run(
    monkeypatch: pytest.MonkeyPatch, codes: dict[str, int], expected: int, reached: str
) -> None:
    """One that does not keep its bounds keeps none of the others from being run."""
    ran = list[str]()

    def run(name: str, _: object) -> int:
        ran.append(name)
        return codes.get(name, 0)

    monkeypatch.setattr(program, "run", run)

    assert program.main([]) == expected
    names = list(program.SCENARIOS)
    assert ran == names[: names.index(reached) + 1]


def test_arguments_need_a_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    """What `RUNS=` or `ARGS=` ask for, is of one scenario."""
    assert program.main(["--runs", "3"]) == program.UNKNOWN
    assert "which scenario is --runs for?" in capsys.readouterr().err


def test_what_ends_a_scenario_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next one is run, so nothing else would tell."""

    def end(*_: object, **__: object) -> None:
        raise SystemExit("3 of 4 pods were bound")

    monkeypatch.setattr(runpy, "run_module", end)
    monkeypatch.setattr(sys, "argv", ["bench"])

    assert program.run("fill", ()) == 1
    assert capsys.readouterr().err == "3 of 4 pods were bound\n"
