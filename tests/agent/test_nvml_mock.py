"""The mock of NVML answers the real bindings with layouts, numbers and errors as NVML does.

Who makes or breaks one of its machines by hand and mistypes is told so, and nothing is changed.
"""

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pynvml
import pytest

from support.nvml import build, fixtures, lines, machine, presets


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[machine.Machine]:
    """Lend a node with two T4 and two V100, with the library open."""
    with fixtures.running(tmp_path, presets.MIXED, monkeypatch) as machine_:
        pynvml.nvmlInit()
        yield machine_


# ---------------------------------------------------------------- layouts and errors


def layouts() -> Iterator[tuple[str, str, int, int]]:
    """Read the mock's table of its own structs."""
    library, text = build.load(), ctypes.create_string_buffer(256)
    line = 0
    while library.mockLayout(line, text, len(text)):
        name, field, offset, size = text.value.decode().split()
        yield name, field, int(offset), int(size)
        line += 1


def test_structs_are_laid_out_as_in_the_bindings() -> None:
    """Every struct of the mock has the size, and its fields the places, that the bindings expect."""
    fixtures.require()
    table = tuple(layouts())

    for name, field, offset, size in table:
        theirs = getattr(pynvml, name)
        if field == "-":
            assert (name, ctypes.sizeof(theirs)) == (name, size)
        else:
            where = getattr(theirs, field)
            assert (name, field, where.offset, where.size) == (name, field, offset, size)
    assert len({name for name, *_ in table}) == 16


def test_errors_are_those_of_the_bindings(made: machine.Machine) -> None:
    """Any code that the file orders arrives as the error that the bindings have for it."""
    codes = [value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")]
    for code in codes:
        made.fail("nvmlDeviceGetCount_v2", code)

        with pytest.raises(pynvml.NVMLError) as refusal:
            pynvml.nvmlDeviceGetCount()
        assert refusal.value.value == code
    assert pynvml.nvmlErrorString(pynvml.NVML_ERROR_GPU_IS_LOST) == "GPU is lost"


def test_a_program_finds_the_mock_by_the_loader(tmp_path: Path) -> None:
    """With its folder in LD_LIBRARY_PATH the mock is what any program takes for the driver's library."""
    fixtures.require()
    made = machine.Machine.make(tmp_path, presets.DGX_A100)
    script = "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetCount(), n.nvmlSystemGetDriverVersion())"
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(build.library().parent),
        machine.VARIABLE: str(made.state),
    }

    told = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )

    assert told.stdout.split() == ["8", "550.107.02"]


# ---------------------------------------------------------------- behaviour


@pytest.mark.usefixtures("made")
def test_nothing_answers_before_init_and_after_shutdown() -> None:
    """Init is counted: the library answers until as many shut it down as opened it."""
    pynvml.nvmlInit()
    pynvml.nvmlShutdown()
    assert pynvml.nvmlDeviceGetCount() == 4

    pynvml.nvmlShutdown()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()


@pytest.mark.parametrize(
    ("happens", "afterwards"),
    [
        pytest.param(machine.Machine.reset, 0, id="a card that was reset answers to those who open anew"),
        pytest.param(machine.Machine.unplug, 1, id="the cards behind one that was taken out move up"),
    ],
)
def test_card_is_lost_until_the_library_is_opened_anew(
    made: machine.Machine, happens: Callable[[machine.Machine, int], None], afterwards: int
) -> None:
    """Every call on it says that it is lost, on a handle from before included, and the others answer."""
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(4)]
    uuids = [pynvml.nvmlDeviceGetUUID(handle) for handle in handles]
    happens(made, 0)

    for call, argument in ((pynvml.nvmlDeviceGetHandleByIndex, 0), (pynvml.nvmlDeviceGetName, handles[0])):
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            call(argument)
    assert (pynvml.nvmlDeviceGetCount(), pynvml.nvmlDeviceGetName(handles[1])) == (4, "Tesla T4")
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(0)) == uuids[afterwards]


# ---------------------------------------------------------------- the command


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


def test_a_person_can_make_and_change_a_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command makes a machine, prints how to use it, and changes single lines of it; not of none."""
    fixtures.require()
    with pytest.raises(SystemExit):
        machine.main([str(tmp_path / "none"), "card.0.lost=1"])
    assert "none is no machine yet; make one first, such as dgx-a100" in capsys.readouterr().err
    machine.main([str(tmp_path), "mig"])
    machine.main([str(tmp_path), "card.0.lost=1", "card.0.power="])

    state = machine.Machine(tmp_path).read()
    assert machine.VARIABLE in capsys.readouterr().out
    assert (state["card.0.lost"], "card.0.power" in state) == ("1", False)


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
