"""The probe for real cards tells which processes compute on which card or MIG instance."""

import pytest

from berth_agent import extra_devices, probe, simulated
from berth_agent.card_processes import Process
from berth_agent.nvml import nvml_probe
from support import nodes
from support.nvml import presets

COMPUTE, MPS = "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3"
NOT_SUPPORTED, NO_PERMISSION, GPU_IS_LOST, UNKNOWN = 3, 4, 15, 999
GIB = 1 << 30


def told(looking: object) -> list[tuple[int, str, int | None]] | None:
    """Look at the cards of a probe, and give its processes as plain values."""
    assert isinstance(looking, nvml_probe.NvmlProbe)
    nodes.look(looking)
    found = looking.processes()
    return None if found is None else [(each.pid, each.uuid, each.memory) for each in found]


def test_computing_processes_are_told_by_card(place: nodes.Place) -> None:
    """Each process stands with its card and its memory, those of MPS too, and those that only draw do not."""
    rig = place(presets.DGX_A100)
    lines = {
        "0.process.0": f"c 7 {GIB}",
        "0.process.1": "g 8 1",
        "1.process.0": "m 9 5",
        "1.process.1": "c 7 6",
    }
    rig.machine.change({f"card.{key}": line for key, line in lines.items()})
    looking = rig.start()
    first, second = [card.uuid for card in nodes.look(looking).answering_cards()][:2]

    assert told(looking) == [(7, first, GIB), (7, second, 6), (9, second, 5)]


def test_nobody_is_an_answer(place: nodes.Place) -> None:
    """Cards without processes give none, which is not the same as not to know."""
    assert told(place(presets.DGX_A100).start()) == []


def test_process_on_an_instance_is_told_by_the_instance(place: nodes.Place) -> None:
    """With ids of a MIG instance a process is on that, without them on the card."""
    rig = place(presets.MIG)
    card = nodes.first(rig.source)
    assert card.mig
    second = card.mig.instances[1]
    rig.machine.change({"card.0.process.0": f"c 7 5 {second.gi} {second.ci}", "card.0.process.1": "c 8 5"})

    assert told(rig.source) == [(7, second.uuid, 5), (8, card.uuid, 5)]


def crowded(place: nodes.Place) -> nodes.Mocked:
    """Give a node with one process on each card: 1 on the first one, and so on."""
    return place(presets.DGX_A100, {f"card.{index}.process.0": f"c {index + 1} 5" for index in range(8)})


def pids(looking: probe.Probe) -> list[int] | None:
    """Look, and give the processes that are told."""
    found = told(looking)
    return None if found is None else sorted(pid for pid, _, _ in found)


@pytest.mark.parametrize("call", [COMPUTE, "nvmlDeviceGetMemoryInfo_v2"], ids=["silent", "lost"])
def test_card_that_does_not_tell_is_no_emptier_for_that(place: nodes.Place, call: str) -> None:
    """What it told last stands, while others go on; when it tells again, that counts."""
    rig = crowded(place)
    looking = rig.start()
    assert pids(looking) == [1, 2, 3, 4, 5, 6, 7, 8]

    rig.machine.fail(call, GPU_IS_LOST, card=2)
    rig.machine.change({"card.2.process.0": None, "card.5.process.0": "c 60 5"})
    assert pids(looking) == [1, 2, 3, 4, 5, 7, 8, 60]

    rig.machine.fail(call, None, card=2)
    assert pids(looking) == [1, 2, 4, 5, 7, 8, 60]


def test_nothing_is_known_until_each_card_has_told(place: nodes.Place) -> None:
    """An agent that has just started must not take a card for empty whose processes it never saw."""
    rig = crowded(place)
    looking = rig.start()
    rig.machine.fail(COMPUTE, UNKNOWN, card=2)
    assert pids(looking) is None

    rig.machine.fail(COMPUTE, None, card=2)
    assert pids(looking) == [1, 2, 3, 4, 5, 6, 7, 8]
    rig.machine.fail(COMPUTE, NO_PERMISSION)
    assert pids(looking) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_card_that_has_no_such_thing_leaves_the_others(place: nodes.Place) -> None:
    """A card too old to tell hides none of the others; where none can tell, nothing is known."""
    rig = crowded(place)
    looking = rig.start()
    rig.machine.fail(COMPUTE, NOT_SUPPORTED, card=2)
    assert pids(looking) == [1, 2, 4, 5, 6, 7, 8]

    blind = rig.start()
    rig.machine.fail(COMPUTE, NOT_SUPPORTED)
    assert pids(blind) is None


def test_driver_without_mps_tells_the_rest(place: nodes.Place) -> None:
    """That there is no MPS hides no process."""
    rig = place(presets.DGX_A100, {"card.0.process.0": "c 7 5"})
    rig.machine.fail(MPS, NOT_SUPPORTED)

    assert [pid for pid, _, _ in told(rig.start()) or ()] == [7]


def test_source_that_failed_tells_nothing(place: nodes.Place) -> None:
    """Without a look that succeeded, nothing is known of processes."""
    rig = place(presets.DGX_A100)
    assert isinstance(rig.source, nvml_probe.NvmlProbe)
    rig.look()
    rig.fail()
    rig.source.sample()

    assert rig.source.processes() is None


def test_probe_with_devices_beside_the_cards_hands_processes_on(place: nodes.Place) -> None:
    """What stands beside the cards hides nobody who is on them."""
    rig = place(presets.DGX_A100, {"card.0.process.0": "c 7 5"})
    both = extra_devices.ExtraDevicesProbe(rig.start(), ())
    [card, *_] = nodes.look(both).answering_cards()

    assert both.processes() == (Process(7, card.uuid, 5),)
    made_up = simulated.SimulatedProbe(simulated.machine("n1", "1xT4"), simulated.FaultFile(None, "n1"))
    assert extra_devices.ExtraDevicesProbe(made_up, ()).processes() is None
