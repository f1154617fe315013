"""The probe for real cards tells which processes compute on which card or MIG instance."""

from berth_agent import beside, simulated
from berth_agent.nvml import source
from berth_agent.processes import Process
from support import nodes
from support.nvml import presets

COMPUTE, MPS = "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3"
NOT_SUPPORTED, NO_PERMISSION, GPU_IS_LOST = 3, 4, 15
GIB = 1 << 30


def told(looking: object) -> list[tuple[int, str, int | None]] | None:
    """Look at the cards of a probe, and give its processes as plain values."""
    assert isinstance(looking, source.NvmlProbe)
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
    first, second = [card.uuid for card in nodes.look(looking).read()][:2]

    assert told(looking) == [(7, first, GIB), (7, second, 6), (9, second, 5)]


def test_nobody_is_an_answer(place: nodes.Place) -> None:
    """Cards without processes give none, which is not the same as not to know."""
    assert told(place(presets.DGX_A100).start()) == []


def test_process_on_an_instance_is_told_by_the_instance(place: nodes.Place) -> None:
    """With ids of a MIG instance a process is on that, without them on the card."""
    rig = place(presets.MIG)
    looking = rig.start()
    card = nodes.first(looking)
    assert card.mig
    second = card.mig.instances[1]
    rig.machine.change({"card.0.process.0": f"c 7 5 {second.gi} {second.ci}", "card.0.process.1": "c 8 5"})

    assert told(looking) == [(7, second.uuid, 5), (8, card.uuid, 5)]


def test_card_that_cannot_tell_leaves_the_others(place: nodes.Place) -> None:
    """One card that fails is left out, and when all of them do nothing is known."""
    rig = place(presets.DGX_A100)
    rig.machine.change({f"card.{index}.process.0": f"c {index + 1} 5" for index in range(8)})
    looking = rig.start()
    rig.machine.fail(COMPUTE, GPU_IS_LOST, card=2)
    some = told(looking)
    rig.machine.fail(COMPUTE, NO_PERMISSION)

    assert some is not None
    assert [pid for pid, _, _ in some] == [1, 2, 4, 5, 6, 7, 8]
    assert told(looking) is None


def test_driver_without_mps_tells_the_rest(place: nodes.Place) -> None:
    """That there is no MPS hides no process."""
    rig = place(presets.DGX_A100)
    rig.machine.change({"card.0.process.0": "c 7 5"})
    rig.machine.fail(MPS, NOT_SUPPORTED)

    assert [pid for pid, _, _ in told(rig.start()) or ()] == [7]


def test_source_that_failed_tells_nothing(place: nodes.Place) -> None:
    """Without a look that succeeded, nothing is known of processes."""
    rig = place(presets.DGX_A100)
    looking = rig.start()
    assert isinstance(looking, source.NvmlProbe)
    nodes.look(looking)
    rig.fail()
    looking.sample()

    assert looking.processes() is None


def test_probe_with_devices_beside_the_cards_hands_processes_on(place: nodes.Place) -> None:
    """What stands beside the cards hides nobody who is on them."""
    rig = place(presets.DGX_A100)
    rig.machine.change({"card.0.process.0": "c 7 5"})
    both = beside.Beside(rig.start(), ())
    [card, *_] = nodes.look(both).read()

    assert both.processes() == (Process(7, card.uuid, 5),)
    made_up = simulated.SimulatedProbe(simulated.machine("n1", "1xT4"), simulated.FaultFile(None, "n1"))
    assert beside.Beside(made_up, ()).processes() is None
