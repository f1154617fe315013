"""Who makes or breaks a machine of the mock by hand and mistypes is told so, and nothing is changed."""

import re
from pathlib import Path
from typing import Final

import pytest

from support.nvml import build, lines, machine, presets

SOURCE: Final = (build.HERE / "nvml.c").read_text()
NAMED: Final = "there are dgx-1v, dgx-a100, hgx-h100, 8-a10, t4-v100, mig, no-driver"

MISTAKES: Final = {
    "another machine": (["dgx-foo"], f"'dgx-foo' is no machine that is known; {NAMED}"),
    "a line that nobody reads": (
        ["card.2.lots=1"],
        "no machine has a line 'card.2.lots'; did you mean card.2.lost?",
    ),
    "a number too few": (["ancestor.0=10"], "no machine has a line 'ancestor.0'; did you mean ancestor.0.N?"),
    "no line at all": (["xyz=1"], "no machine has a line 'xyz'"),
    "a card too many": (["card.4.lost=1"], "'card.4.lost': this machine has no card 4"),
    "a machine and a change": (
        ["mig", "card.0.lost=1"],
        "'mig' is no KEY=VALUE, and a machine to make stands alone",
    ),
    "one of two changes": (
        ["card.0.lost=1", "card.0.lots=1"],
        "no machine has a line 'card.0.lots'; did you mean card.0.lost?",
    ),
}


@pytest.mark.parametrize(("words", "said"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_one_line(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be done is said in one line with what can, and the machine stays as it is."""
    made = machine.Machine.make(tmp_path, presets.MIXED)
    before = made.read()

    with pytest.raises(SystemExit) as ended:
        machine.main([str(tmp_path), *words])

    assert ended.value.code == 2
    assert capsys.readouterr() == ("", f"python -m support.nvml.machine: {said}\n")
    assert made.read() == before


def test_a_folder_without_a_machine_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who wants to change what is not there reads what comes first."""
    with pytest.raises(SystemExit):
        machine.main([str(tmp_path / "none"), "card.0.lost=1"])

    assert "none is no machine yet; make one first, such as dgx-a100" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "code"), [([], 2), (["--help"], 0)], ids=["nothing", "help"])
def test_what_can_be_asked_is_told(words: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Help names the machines; whoever says nothing reads what to say."""
    with pytest.raises(SystemExit) as ended:
        machine.main(words)

    said = capsys.readouterr()
    assert ended.value.code == code
    assert "FOLDER (MACHINE | KEY=VALUE ...)" in said.out + said.err
    assert all(preset.name in said.out for preset in presets.PRESETS) == (code == 0)


def test_a_card_can_be_added() -> None:
    """A card that gets a uuid is one, and may have other lines at once."""
    assert lines.fault({"card.4.uuid": "GPU-4", "card.4.name": "Tesla T4"}, presets.MIXED.state) == ""


def test_all_that_machines_have_and_the_mock_reads_is_known() -> None:
    """The list of lines is whole: it has those of every machine, and those that the mock asks for."""
    of_machines = {key for preset in presets.PRESETS for key in preset.state}
    read = set(re.findall(r'state_(?:text|number)\((?:\d+, )?"([^"]+)"', SOURCE))
    filled = {re.sub("%(u|d|lld)", "0", key).replace("%s", "nvmlInit") for key in read}
    of_cards = re.findall(r'^(TEXT|NUMBER|PAIR|NUMBER_OF)\(\w+, "(\S+)"\)', SOURCE, re.MULTILINE)
    filled |= {f"card.0.{key}{'.0' if kind == 'NUMBER_OF' else ''}" for kind, key in of_cards}
    general = {"nvmlInit.0.0", "card.0.nvmlInit", "card.0."}  # Tables and keys that are given by name.

    assert len(of_cards) > 10
    assert {key for key in of_machines | filled - general if not lines.KNOWN.fullmatch(key)} == set()
