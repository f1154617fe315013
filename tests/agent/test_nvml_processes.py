"""The probe for real cards tells which processes compute on which card or MIG instance."""

import pytest

from berth_agent.probe import Process
from support import nodes
from support.nvml import presets

COMPUTE, MPS = "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3"
NOT_SUPPORTED, NO_PERMISSION, GPU_IS_LOST, UNKNOWN = 3, 4, 15, 999
GIB = 1 << 30
EVERYBODY = [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.fixture
def crowded(place: nodes.Place) -> nodes.Mocked:
    """Lend a node with one process on each card: 1 on the first one, and so on."""
    return place(presets.DGX_A100, {f"card.{index}.process.0": f"c {index + 1} 5" for index in range(8)})


def processes(rig: nodes.Mocked) -> tuple[Process, ...] | None:
    """Sample the cards, and return the processes on them."""
    rig.look()
    return rig.source.processes()


def pids(rig: nodes.Mocked) -> list[int] | None:
    """Sample the cards, and return the pids of the processes on them."""
    found = processes(rig)
    return None if found is None else sorted(process.pid for process in found)


def test_computing_processes_are_told_by_card(place: nodes.Place) -> None:
    """Each process stands with its card and its memory, those of MPS too; none is an answer."""
    rig = place(presets.DGX_A100)
    assert processes(rig) == ()
    lines = {
        "0.process.0": f"c 7 {GIB}",
        "0.process.1": "g 8 1",  # It only draws.
        "1.process.0": "m 9 5",
        "1.process.1": "c 7 6",
    }
    rig.machine.change({f"card.{key}": line for key, line in lines.items()})

    first, second, *_ = (card.uuid for card in rig.look().answering_cards())
    assert processes(rig) == (Process(7, first, GIB), Process(7, second, 6), Process(9, second, 5))


def test_process_on_an_instance_is_told_by_the_instance(place: nodes.Place) -> None:
    """With ids of a MIG instance a process is on that, without them on the card."""
    rig = place(presets.MIG)
    card = nodes.first(rig.source)
    assert card.mig
    second = card.mig.instances[1]
    rig.machine.change({"card.0.process.0": f"c 7 5 {second.gi} {second.ci}", "card.0.process.1": "c 8 5"})

    assert processes(rig) == (Process(7, second.uuid, 5), Process(8, card.uuid, 5))


@pytest.mark.parametrize("call", [COMPUTE, "nvmlDeviceGetMemoryInfo_v2"], ids=["silent", "lost"])
def test_card_that_does_not_tell_is_no_emptier_for_that(crowded: nodes.Mocked, call: str) -> None:
    """What it told last stands, while others go on; when it tells again, that counts."""
    assert pids(crowded) == EVERYBODY

    crowded.machine.fail(call, GPU_IS_LOST, card=2)
    crowded.machine.change({"card.2.process.0": None, "card.5.process.0": "c 60 5"})
    assert pids(crowded) == [1, 2, 3, 4, 5, 7, 8, 60]

    crowded.machine.fail(call, None, card=2)
    assert pids(crowded) == [1, 2, 4, 5, 7, 8, 60]


def test_nothing_is_known_until_each_card_has_told(crowded: nodes.Mocked) -> None:
    """An agent must not take a card for empty whose processes it never saw, nor after a failure."""
    crowded.machine.fail(COMPUTE, UNKNOWN, card=2)
    assert pids(crowded) is None

    crowded.machine.fail(COMPUTE, None, card=2)
    assert pids(crowded) == EVERYBODY
    crowded.machine.fail(COMPUTE, NO_PERMISSION)
    assert pids(crowded) == EVERYBODY
    crowded.fail()
    crowded.source.sample()
    assert crowded.source.processes() is None


def test_card_that_has_no_such_thing_leaves_the_others(crowded: nodes.Mocked) -> None:
    """Neither a driver without MPS nor a card too old hides the others; none at all is no answer."""
    crowded.machine.fail(MPS, NOT_SUPPORTED)
    crowded.machine.fail(COMPUTE, NOT_SUPPORTED, card=2)
    assert pids(crowded) == [1, 2, 4, 5, 6, 7, 8]

    crowded.machine.fail(COMPUTE, NOT_SUPPORTED)
    blind = crowded.start()
    nodes.look(blind)
    assert blind.processes() is None
