"""Which card is which, where it sits and what joins it to its peers, told from what NVML and the kernel say.

Indices move, minors are in another order, the kernel does not know every NUMA node, and a
card that is lost says nothing of itself at all.
"""

import datetime as dt
from pathlib import Path
from typing import Final

import pytest

from berth_agent import describe, probe, sysfs
from berth_agent.nvml import source
from berth_crds import vocabulary
from support import nodes
from support.nvml import presets

NOW: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
NOT_SUPPORTED, NO_PERMISSION, UNKNOWN = 3, 4, 999
GPU_IS_LOST, RESET_REQUIRED, FUNCTION_NOT_FOUND = 15, 16, 13


# ---------------------------------------------------------------- which card it is


def test_minor_is_not_index(place: nodes.Place) -> None:
    """Minors stand as the driver gives them, and the index beside them as what it is."""
    cards = tuple(nodes.look(place(presets.MIXED).start()).read())

    assert [(card.index, card.minor) for card in cards] == [(0, 2), (1, 0), (2, 3), (3, 1)]


def test_node_without_minors_has_indices(place: nodes.Place) -> None:
    """Where there are no device files (WSL) the index stands for the minor."""
    rig = place(presets.A10)
    rig.machine.fail("nvmlDeviceGetMinorNumber", NOT_SUPPORTED)

    assert [card.minor for card in nodes.look(rig.start()).read()] == list(range(8))


def test_two_cards_of_one_minor_are_not_both_listed(place: nodes.Place) -> None:
    """The schema would refuse the whole list for two cards of one minor: the later one is lost instead."""
    rig = place(presets.A10)
    rig.machine.change({"card.4.minor": 1})

    sample = nodes.look(rig.start())
    assert [(lost.index, lost.reason) for lost in sample.lost()] == [(4, "NotDistinct")]


def test_unplugged_card_leaves_and_the_others_stay_who_they_are(place: nodes.Place) -> None:
    """A card that was taken out is not listed, and those that moved up keep uuid and minor."""
    rig = place(presets.A10)
    looking = rig.start()
    before = nodes.look(looking)
    rig.machine.unplug(0)

    after = nodes.look(looking)
    assert not list(after.lost())
    assert [(card.index, card.uuid, card.minor) for card in after.read()] == [
        (card.index - 1, card.uuid, card.minor) for card in before.read() if card.index
    ]
    rig.machine.plug(0)
    assert nodes.look(looking) == before


def test_card_that_nvml_does_not_count_is_not_forgotten(place: nodes.Place) -> None:
    """A card that the kernel's driver holds and NVML does not count is lost, wherever the others moved."""
    rig = place(presets.A10)
    looking = rig.start()
    before = tuple(nodes.look(looking).read())
    rig.machine.drop(2)

    for _ in range(3):
        (lost,) = nodes.look(looking).lost()
        assert (lost.uuid, lost.bus_id) == (before[2].uuid, before[2].place.bus_id)
    assert lost.reason == "NotCounted"
    assert len(nodes.look(looking).cards) == 8


def test_lost_card_is_known_again_by_an_agent_started_anew(place: nodes.Place) -> None:
    """An agent that has never seen the card finds it in the Device by its address, not by its index."""
    rig = place(presets.A10)
    known = describe.spec(nodes.NODE, nodes.look(rig.start()), None)
    rig.machine.unplug(0)
    rig.machine.lose(3)
    gone, lost = known.devices[0].uuid, known.devices[3].uuid

    outcome = nodes.look(rig.start())
    spec = describe.spec(nodes.NODE, outcome, known)
    (verdict,) = nodes.status(outcome, spec, now=NOW).devices
    assert verdict.uuid == lost
    assert {each.uuid for each in spec.devices} == {each.uuid for each in known.devices} - {gone}


def test_exchanged_card_is_another_card(place: nodes.Place) -> None:
    """A card with another uuid at the same index is never described by what was known of the first."""
    rig = place(presets.A10)
    looking = rig.start()
    nodes.look(looking)
    uuid = "GPU-00000000-0000-4000-8000-000000000000"
    rig.machine.change({"card.0.uuid": uuid, "card.0.name": "NVIDIA L4", "card.0.capability": "8 9"})

    card = nodes.first(looking)
    assert (card.uuid, card.model, card.compute_capability) == (uuid, "NVIDIA L4", "8.9")


def test_display_card_is_not_given_out(place: nodes.Place) -> None:
    """The card that only drives a display is neither listed nor lost."""
    rig = place(presets.A10)
    rig.machine.change({"card.7.name": "NVIDIA DGX Display"})

    assert [card.index for card in nodes.look(rig.start()).cards] == list(range(7))


# ---------------------------------------------------------------- where it sits


def test_unknown_numa_node_is_absent(place: nodes.Place) -> None:
    """The kernel's -1 is no NUMA node, and the other facts of the place stand all the same."""
    card = nodes.first(place(presets.MIXED).start())

    assert card.place == probe.Place(None, "pci0000:00", "0000:04:00.0")


def test_numa_node_zero_is_known(place: nodes.Place) -> None:
    """Node 0 is a node like any other, and numbers are those of the kernel."""
    assert [card.place.numa_node for card in nodes.look(place(presets.DGX_A100).start()).read()] == [
        *(3, 3, 1, 1),
        *(7, 7, 5, 5),
    ]
    assert nodes.first(place(presets.A10).start()).place.numa_node == 0


def test_without_sysfs_the_place_is_what_nvml_tells(place: nodes.Place) -> None:
    """In a container that does not see the kernel's trees cards are read all the same."""
    rig = place(presets.A10)
    looking = source.NvmlProbe(sysfs.Kernel(Path("/nonexistent"), Path("/nonexistent")))

    sample = nodes.look(looking)
    assert sample.boot_id == ""
    assert next(sample.read()).place == probe.Place(None, None, "0000:12:00.0")
    rig.machine.lose(0)
    assert [(lost.index, lost.bus_id) for lost in nodes.look(looking).lost()] == [(0, None)]


def test_without_topology_places_tell_the_way(place: nodes.Place) -> None:
    """Where the driver does not tell the common ancestor, root and NUMA node do, as far as they are known."""
    rig = place(presets.A10)
    rig.machine.fail("nvmlDeviceGetTopologyCommonAncestor", NOT_SUPPORTED)
    kinds = [link.kind for link in nodes.first(rig.start()).links]
    assert kinds == [vocabulary.LinkKind.PCIE_HOST] * 3 + [vocabulary.LinkKind.SYSTEM] * 4

    mixed = place(presets.MIXED)
    mixed.machine.fail("nvmlDeviceGetTopologyCommonAncestor", NOT_SUPPORTED)
    assert [link.kind for link in nodes.first(mixed.start()).links] == [vocabulary.LinkKind.PCIE_HOST]


@pytest.mark.parametrize(
    ("level", "kind"),
    [
        pytest.param(0, "pcie-switch", id="one board"),
        pytest.param(10, "pcie-switch", id="one switch"),
        pytest.param(20, "pcie-switch", id="several switches"),
        pytest.param(30, "pcie-host", id="host bridge"),
        pytest.param(40, "numa", id="one NUMA node"),
        pytest.param(50, "system", id="between sockets"),
    ],
)
def test_levels_of_topology_have_words(place: nodes.Place, level: int, kind: str) -> None:
    """Each level of NVML's topology is one kind of link."""
    rig = place(presets.A10)
    rig.machine.change({"ancestor.0.1": level})

    assert nodes.first(rig.start()).links[0].kind == kind


def test_nvlink_that_is_down_is_not_counted(place: nodes.Place) -> None:
    """A link that went down shows at the next look, and a board whose ways differ has no partitions."""
    rig = place(presets.DGX_A100)
    looking = rig.start()
    nodes.look(looking)
    line = rig.machine.read()["card.0.nvlink.5"]
    rig.machine.change({"card.0.nvlink.5": "0" + line[1:]})

    sample = nodes.look(looking)
    assert {link.count for link in next(sample.read()).links} == {11}
    assert sample.partitions == ()


def test_nvlink_that_leads_nowhere_known_is_not_counted(place: nodes.Place) -> None:
    """In a virtual machine an NVLink may lead to an address that nobody has."""
    rig = place(presets.DGX_1V)
    rig.machine.change({"card.0.nvlink.0": "1 0 0000FFFF:FF:1F.0"})

    links = {link.peer: link for link in nodes.first(rig.start()).links}
    assert sum(link.count or 0 for link in links.values()) == 5


def test_partitions_follow_the_sockets(place: nodes.Place) -> None:
    """Groups are cut along the numbers of the sockets, which are not in the order of the bus."""
    sample = nodes.look(place(presets.HGX_H100).start())
    modules = {card.uuid: card.module_id for card in sample.read()}

    pairs = [group.members for group in sample.partitions if len(group.members) == 2]
    assert [[modules[each] for each in pair] for pair in pairs] == [[1, 2], [3, 4], [5, 6], [7, 8]]
