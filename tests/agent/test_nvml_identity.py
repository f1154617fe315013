"""Which card is which, where it sits and what joins it to its peers, told from what NVML and the kernel say.

Indices move, minors are in another order, the kernel does not know every NUMA node, and a
card that is lost says nothing of itself at all.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import pytest

from berth_agent import device_spec, probe, sysfs
from berth_agent.nvml import nvml_probe
from berth_crds import wire
from support import nodes
from support.nvml import presets

NOT_SUPPORTED: Final = 3


# ---------------------------------------------------------------- what one look reads


def numbers(sample: probe.Sample) -> list[tuple[int, int]]:
    """Return index and minor of each card."""
    return [(card.index, card.minor) for card in sample.answering_cards()]


def numa_nodes(sample: probe.Sample) -> list[int | None]:
    """Return the NUMA node of each card."""
    return [card.location.numa_node for card in sample.answering_cards()]


def kinds(sample: probe.Sample) -> list[str]:
    """Return the kinds of the first card's links."""
    return [str(link.kind) for link in next(sample.answering_cards()).links]


WITHOUT_TOPOLOGY: Final = {"error.nvmlDeviceGetTopologyCommonAncestor": NOT_SUPPORTED}
LEVELS: Final = {
    0: "pcie-switch",
    10: "pcie-switch",
    20: "pcie-switch",
    30: "pcie-host",
    40: "numa",
    50: "system",
}


@pytest.mark.parametrize(
    ("preset", "changes", "read", "expected"),
    [
        pytest.param(
            presets.MIXED, {}, numbers, [(0, 2), (1, 0), (2, 3), (3, 1)], id="minors are no indices"
        ),
        pytest.param(
            presets.A10,
            {"error.nvmlDeviceGetMinorNumber": NOT_SUPPORTED},
            numbers,
            [(index, index) for index in range(8)],
            id="without device files (WSL) the index stands for the minor",
        ),
        pytest.param(
            presets.A10,
            {"card.4.minor": 1},
            lambda sample: [(lost.index, lost.reason) for lost in sample.lost_cards()],
            [(4, "NotDistinct")],
            id="of two cards with one minor the later one is lost",
        ),
        pytest.param(
            presets.A10,
            {"card.7.name": "NVIDIA DGX Display"},
            lambda sample: [card.index for card in sample.cards],
            list(range(7)),
            id="a card that only drives a display is neither listed nor lost",
        ),
        pytest.param(
            presets.MIXED,
            {},
            lambda sample: next(sample.answering_cards()).location,
            wire.Topology(None, "pci0000:00", "0000:04:00.0"),
            id="the kernel's -1 is no NUMA node",
        ),
        pytest.param(
            presets.DGX_A100, {}, numa_nodes, [3, 3, 1, 1, 7, 7, 5, 5], id="numbers are the kernel's"
        ),
        pytest.param(presets.A10, {}, lambda sample: numa_nodes(sample)[0], 0, id="node 0 is a node"),
        pytest.param(
            presets.A10,
            WITHOUT_TOPOLOGY,
            kinds,
            ["pcie-host"] * 3 + ["system"] * 4,
            id="without a common ancestor root and NUMA node tell the way",
        ),
        pytest.param(presets.MIXED, WITHOUT_TOPOLOGY, kinds, ["pcie-host"], id="as far as they are known"),
        *(
            pytest.param(
                presets.A10,
                {"ancestor.0.1": level},
                lambda sample: kinds(sample)[0],
                kind,
                id=f"level {level}",
            )
            for level, kind in LEVELS.items()
        ),
        pytest.param(
            presets.DGX_1V,
            {"card.0.nvlink.0": "1 0 0000FFFF:FF:1F.0"},
            lambda sample: sum(link.count or 0 for link in next(sample.answering_cards()).links),
            5,
            id="an NVLink to an address that nobody has (in a virtual machine) is not counted",
        ),
    ],
)
def test_look_reads(
    place: nodes.Place,
    preset: presets.Preset,
    changes: dict[str, object],
    read: Callable[[probe.Sample], object],
    expected: object,
) -> None:
    """Numbers, places and links are what driver and kernel say, and what they do not say is unknown."""
    assert read(place(preset, changes).look()) == expected


# ---------------------------------------------------------------- which card it is


def test_unplugged_card_leaves_and_the_others_stay_who_they_are(place: nodes.Place) -> None:
    """A card that was taken out is not listed, and those that moved up keep uuid and minor."""
    rig = place(presets.A10)
    before = rig.look()
    rig.machine.unplug(0)

    after = rig.look()
    assert not list(after.lost_cards())
    assert [(card.index, card.uuid, card.minor) for card in after.answering_cards()] == [
        (card.index - 1, card.uuid, card.minor) for card in before.answering_cards() if card.index
    ]
    rig.machine.plug(0)
    assert rig.look() == before


def test_card_that_nvml_does_not_count_is_not_forgotten(place: nodes.Place) -> None:
    """A card that the kernel's driver holds and NVML does not count is lost, wherever the others moved."""
    rig = place(presets.A10)
    before = tuple(rig.look().answering_cards())
    rig.machine.drop(2)

    for _ in range(3):
        (lost,) = rig.look().lost_cards()
        assert (lost.uuid, lost.bus_id) == (before[2].uuid, before[2].location.bus_id)
    assert (lost.reason, len(rig.look().cards)) == ("NotCounted", 8)


def test_lost_card_is_known_again_by_an_agent_started_anew(place: nodes.Place) -> None:
    """An agent that has never seen the card finds it in the Device by its address, not by its index."""
    rig = place(presets.A10)
    known = nodes.spec(rig.start())
    rig.machine.unplug(0)
    rig.machine.lose(3)
    gone, lost = known.devices[0].uuid, known.devices[3].uuid

    outcome = nodes.look(rig.start())
    spec = device_spec.spec(nodes.NODE, outcome, known)
    (verdict,) = nodes.status(outcome, spec).devices
    assert verdict.uuid == lost
    assert {each.uuid for each in spec.devices} == {each.uuid for each in known.devices} - {gone}


def test_exchanged_card_is_another_card(place: nodes.Place) -> None:
    """A card with another uuid at the same index is never described by what was known of the first."""
    rig = place(presets.A10)
    rig.look()
    uuid = "GPU-00000000-0000-4000-8000-000000000000"
    rig.machine.change({"card.0.uuid": uuid, "card.0.name": "NVIDIA L4", "card.0.capability": "8 9"})

    card = nodes.first(rig.source)
    assert (card.uuid, card.model, card.compute_capability) == (uuid, "NVIDIA L4", "8.9")


# ---------------------------------------------------------------- where it sits


def test_without_sysfs_the_place_is_what_nvml_tells(place: nodes.Place) -> None:
    """In a container that does not see the kernel's trees cards are read all the same."""
    rig = place(presets.A10)
    looking = nvml_probe.NvmlProbe(sysfs.Kernel(Path("/nonexistent"), Path("/nonexistent")))

    sample = nodes.look(looking)
    assert sample.boot_id == ""
    assert next(sample.answering_cards()).location == wire.Topology(None, None, "0000:12:00.0")
    rig.machine.lose(0)
    assert [(lost.index, lost.bus_id) for lost in nodes.look(looking).lost_cards()] == [(0, None)]


def test_nvlink_that_is_down_is_not_counted(place: nodes.Place) -> None:
    """A link that went down shows at the next look, and a board whose ways differ has no partitions."""
    rig = place(presets.DGX_A100)
    rig.look()
    rig.machine.change({"card.0.nvlink.5": "0" + rig.machine.read()["card.0.nvlink.5"][1:]})

    sample = rig.look()
    assert {link.count for link in next(sample.answering_cards()).links} == {11}
    assert sample.partitions == ()


def test_partitions_follow_the_sockets(place: nodes.Place) -> None:
    """Groups are cut along the numbers of the sockets, which are not in the order of the bus."""
    sample = nodes.look(place(presets.HGX_H100).start())
    modules = {card.uuid: card.module_id for card in sample.answering_cards()}

    pairs = [group.members for group in sample.partitions if len(group.members) == 2]
    assert [[modules[each] for each in pair] for pair in pairs] == [[1, 2], [3, 4], [5, 6], [7, 8]]


# ---------------------------------------------------------------- the order in which the driver finds them


@pytest.mark.parametrize("preset", [presets.DGX_A100, presets.DGX_1V, presets.MIXED], ids=lambda it: it.name)
def test_order_in_which_cards_are_found_changes_nothing_but_indices(
    place: nodes.Place, preset: presets.Preset
) -> None:
    """Under running pods a board keeps its groups, and each card its links, though the driver counts anew."""
    rig = place(preset)
    before = rig.spec()
    order = range(len(before.devices))
    rig.machine.reorder([*order[1:], 0])
    rig.machine.load()
    after = rig.spec(before)

    assert (by_uuid(before), before.partitions) == (by_uuid(after), after.partitions)
    assert {each.uuid: each.index for each in after.devices} == {
        each.uuid: order[(each.index or 0) - 1] for each in before.devices
    }


def test_groups_go_by_the_bus_where_sockets_are_not_told(place: nodes.Place) -> None:
    """Not even minors say where a card sits."""
    rig = place(presets.DGX_A100, {f"card.{card}.module": None for card in range(8)})
    before = rig.look()
    rig.machine.change({f"card.{card}.minor": 7 - card for card in range(8)})
    after = rig.look()

    assert (len(before.partitions), after.partitions) == (15, before.partitions)


def by_uuid(spec: wire.DeviceSpec) -> dict[str, object]:
    """Give what is said of each card, but for where it stands in the list and in which order its peers do."""
    return {
        each.uuid: (
            msgspec.structs.replace(each, index=None, links=()),
            frozenset((link.peer, link.kind, link.count) for link in each.links),
        )
        for each in spec.devices
    }
