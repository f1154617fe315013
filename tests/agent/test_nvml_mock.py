"""The mock of NVML is a fair one: the real bindings see layouts, numbers and errors as NVML gives them."""

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from support.nvml import build, fixtures, machine, presets


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[machine.Machine]:
    """Lend a node with two T4 and two V100, with the library open."""
    with fixtures.running(tmp_path, presets.MIXED, monkeypatch) as made:
        pynvml.nvmlInit()
        yield made


def card(index: int) -> Any:
    """Give the handle of a card."""
    return pynvml.nvmlDeviceGetHandleByIndex(index)


# ---------------------------------------------------------------- fair in form


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


def test_errors_are_those_of_the_bindings(bench: machine.Machine) -> None:
    """Any code that the file orders arrives as the error that the bindings have for it."""
    codes = [value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")]
    for code in codes:
        bench.fail("nvmlDeviceGetCount_v2", code)

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


# ---------------------------------------------------------------- fair in behaviour


def test_minor_is_not_index(bench: machine.Machine) -> None:
    """Indices count up, minors are what the machine has, and uuid, address and index find one card."""
    assert [pynvml.nvmlDeviceGetMinorNumber(card(index)) for index in range(4)] == [2, 0, 3, 1]

    assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID(pynvml.nvmlDeviceGetUUID(card(2)))) == 2
    assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByPciBusId(b"00000000:3B:00.0")) == 2
    assert "card.2.minor" in bench.read()


def test_nothing_answers_before_init_and_after_shutdown(bench: machine.Machine) -> None:
    """Init is counted: the library answers until as many shut it down as opened it."""
    assert bench.state.exists()
    pynvml.nvmlInit()
    pynvml.nvmlShutdown()
    assert pynvml.nvmlDeviceGetCount() == 4

    pynvml.nvmlShutdown()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()


def test_measured_values_follow_the_file(bench: machine.Machine) -> None:
    """Memory, utilisation, power, temperature, ECC errors and remapped rows are what the file says."""
    handle = card(1)
    bench.fill(1, 5 << 30)
    bench.change(
        {
            "card.1.utilization": "83 40",
            "card.1.power": 70_500,
            "card.1.temperature": 88,
            "card.1.ecc.1.0": 3,
            "card.1.rows": "1 2 1 0",
            "card.1.field.230": 1,
        }
    )

    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
    assert (memory.used, memory.total) == (5 << 30, 15360 << 20)
    assert memory.free == memory.total - memory.used - memory.reserved
    assert pynvml.nvmlDeviceGetMemoryInfo(handle).used == memory.used + memory.reserved
    assert pynvml.nvmlDeviceGetUtilizationRates(handle).gpu == 83
    assert pynvml.nvmlDeviceGetPowerUsage(handle) == 70_500
    assert pynvml.nvmlDeviceGetTemperatureV(handle, pynvml.NVML_TEMPERATURE_GPU) == 88
    assert pynvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0) == 3
    assert pynvml.nvmlDeviceGetRemappedRows(handle) == (1, 2, 1, 0)
    (action,) = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    assert action.value.ullVal == pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET


def test_what_the_file_does_not_say_is_not_supported(bench: machine.Machine) -> None:
    """A line that is taken away leaves a card that has no such thing."""
    bench.change({"card.0.power": None})

    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetPowerUsage(card(0))
    assert pynvml.nvmlDeviceGetPowerUsage(card(1)) == 62_000


def test_a_lost_card_leaves_the_others(bench: machine.Machine) -> None:
    """Every call on a lost card says so, a handle from before included; the others answer."""
    before = card(1)
    bench.lose(1)

    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        card(1)
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetName(before)
    assert pynvml.nvmlDeviceGetCount() == 4
    assert pynvml.nvmlDeviceGetName(card(2)) == "Tesla V100-PCIE-16GB"


def test_an_unplugged_card_moves_the_indices(bench: machine.Machine) -> None:
    """A card that is taken out is lost; once the library is opened anew, those behind it move up."""
    second = pynvml.nvmlDeviceGetUUID(card(1))
    bench.unplug(0)

    assert pynvml.nvmlDeviceGetCount() == 4
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        card(0)
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()
    assert (pynvml.nvmlDeviceGetCount(), pynvml.nvmlDeviceGetUUID(card(0))) == (3, second)


def test_a_reset_card_answers_only_after_init(bench: machine.Machine) -> None:
    """Who opened the library before a reset finds the card lost until the library is opened anew."""
    bench.reset(3)

    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        card(3)
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetMinorNumber(card(3)) == 1


def test_a_call_hangs_until_the_file_lets_it_go(bench: machine.Machine) -> None:
    """A call that hangs holds up only itself, and goes on once it is released."""
    names: list[str] = []
    handle, other = card(0), card(1)
    bench.hang("nvmlDeviceGetName", card=0)
    caller = threading.Thread(target=lambda: names.append(pynvml.nvmlDeviceGetName(handle)), daemon=True)
    caller.start()

    caller.join(0.1)
    assert not names
    assert pynvml.nvmlDeviceGetName(other) == "Tesla T4"
    bench.release("nvmlDeviceGetName", card=0)
    caller.join(30)
    assert names == ["Tesla T4"]


def test_events_reach_those_who_asked(bench: machine.Machine) -> None:
    """An XID is told once, to a set that asked for it before, and with the instance that it names."""
    bench.raise_xid(0, 13)
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(card(0), pynvml.nvmlEventTypeXidCriticalError, events)
    bench.raise_xid(1, 48)
    bench.raise_xid(0, 79, at=(7, 0))

    told = pynvml.nvmlEventSetWait_v2(events, 1000)
    assert (told.eventData, told.gpuInstanceId, told.computeInstanceId) == (79, 7, 0)
    assert pynvml.nvmlDeviceGetMinorNumber(told.device) == 2
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait_v2(events, 20)
    pynvml.nvmlEventSetFree(events)


def test_waiting_for_an_event_ends_when_it_comes(bench: machine.Machine) -> None:
    """A wait of many seconds ends as soon as the file tells an event, and does not hold up other calls."""
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(card(0), pynvml.nvmlEventTypeXidCriticalError, events)
    told: list[int] = []
    waiter = threading.Thread(
        target=lambda: told.append(pynvml.nvmlEventSetWait_v2(events, 60_000).eventData), daemon=True
    )
    waiter.start()

    assert pynvml.nvmlDeviceGetCount() == 4
    bench.raise_xid(0, 74)
    waiter.join(30)
    assert told == [74]


def test_processes_are_listed(bench: machine.Machine) -> None:
    """Processes are listed by kind, with their memory."""
    bench.change({"card.0.process.0": f"c 4242 {1 << 30}", "card.0.process.1": f"g 17 {1 << 20}"})

    (one,) = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(card(0))
    assert (one.pid, one.usedGpuMemory) == (4242, 1 << 30)
    assert [each.pid for each in pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3(card(0))] == [17]
    assert pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3(card(0)) == []


def test_a_person_can_change_the_machine(tmp_path: Path) -> None:
    """The command makes a machine, prints how to use it, and changes single lines of it."""
    fixtures.require()
    folder = tmp_path / "node"

    def tell(*words: str) -> str:
        command = [sys.executable, "-m", "support.nvml.machine", str(folder), *words]
        where = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=where).stdout

    assert machine.VARIABLE in tell("mig")
    tell("card.0.lost=1", "card.0.power=")
    after = machine.Machine(folder).read()
    assert after["card.0.lost"] == "1"
    assert "card.0.power" not in after
