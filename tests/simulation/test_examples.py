"""Every example in manifests/examples does what its golden output says.

After a change that is meant to change them, `BERTH_GOLDEN=write` before the tests writes
the files anew; what they say then is for a person to judge.
"""

import os
import re
import tomllib
from pathlib import Path
from typing import Final

import pytest

from berth_operator.simulation import __main__ as program
from berth_operator.simulation import cli
from simulation import simulator

GOLDEN: Final = simulator.ROOT / "tests" / "golden" / "simulation"
PODS: Final = sorted((simulator.EXAMPLES / "pods").glob("[a-z]*.yaml"))
ENDINGS: Final = {"text": "txt", "json": "jsonl", "yaml": "yaml"}


def compare(name: str, printed: str) -> None:
    """Compare what was printed with a golden file, or write it if that is wanted."""
    file = GOLDEN / name
    if os.environ.get("BERTH_GOLDEN") == "write":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(printed)
    assert printed == file.read_text()


def printed(command: str, *words: str | Path) -> str:
    """Run the simulation, which must have nothing to complain of."""
    answer = simulator.run(command, *words)
    assert (answer.code, answer.notes) == (0, "")
    return answer.out


@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize("pods", PODS, ids=lambda path: path.stem)
def test_pods(pods: Path, output: str) -> None:
    """Each file of pods by itself on the example cluster."""
    told = printed("place", simulator.EXAMPLES / "cluster", pods, "-o", output)

    compare(f"{pods.stem}.{ENDINGS[output]}", told)


@pytest.mark.parametrize("output", ENDINGS)
def test_all(output: str) -> None:
    """All pods together on the example cluster."""
    told = printed("place", simulator.EXAMPLES / "cluster", simulator.EXAMPLES / "pods", "-o", output)

    compare(f"all.{ENDINGS[output]}", told)


@pytest.mark.parametrize("output", ["text", "json"])
def test_day(output: str) -> None:
    """The example trace."""
    start = [simulator.EXAMPLES / "cluster" / name for name in ("dgx-1v.yaml", "mig.yaml")]
    told = printed("replay", simulator.EXAMPLES / "day.jsonl", *start, "-o", output)

    compare(f"day.{ENDINGS[output]}", told)


def test_nothing_left_over() -> None:
    """No golden file is there without its example."""
    known = {*(path.stem for path in PODS), "all", "day"}

    assert {path.stem for path in GOLDEN.iterdir()} == known


def test_command_of_the_readme(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that the README gives places all examples."""
    text = (simulator.ROOT / "README.md").read_text()
    (command,) = re.findall(r"^\S+/berth-simulation (.*manifests.*)$", text, flags=re.MULTILINE)
    monkeypatch.chdir(simulator.ROOT)

    sums = (GOLDEN / "all.txt").read_text().splitlines()[-1]
    assert printed(*command.split()).splitlines()[-1] == sums


PAGES: Final = (simulator.ROOT / "README.md", *sorted((simulator.ROOT / "manifests").rglob("*.md")))


def test_the_program_of_the_pages_is_installed() -> None:
    """What pages and help call is what `make setup` puts there, and nothing is called that needs more."""
    scripts = tomllib.loads((simulator.ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    programs = set(re.findall(r"\.venv/bin/(berth-\w+)", "".join(page.read_text() for page in PAGES)))

    assert programs == scripts.keys()
    assert f".venv/bin/{cli.PROGRAM}" == cli.PROGRAM_PATH
    assert scripts[cli.PROGRAM] == f"{program.__name__}:{program.start.__name__}"
    bare = re.compile(r"^python |`python ", re.MULTILINE)
    assert [page.name for page in PAGES if bare.search(page.read_text())] == []


@pytest.mark.parametrize("command", ["place", "replay"])
def test_commands_of_the_examples(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page of examples says of files that are there works in the folder of the checkout."""
    text = (simulator.EXAMPLES / "README.md").read_text().replace("\\\n", "")
    (words,) = re.findall(rf"^\S+/berth-simulation ({command} manifests.*)$", text, flags=re.MULTILINE)
    monkeypatch.chdir(simulator.ROOT)

    assert printed(*words.split())


def test_readme() -> None:
    """The README speaks of each file of examples."""
    text = (simulator.EXAMPLES / "README.md").read_text()
    files = [path for path in simulator.EXAMPLES.rglob("*") if path.is_file() and path.name != "README.md"]

    assert [path.name for path in files if path.name not in text] == []
