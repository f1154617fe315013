"""The order in which the driver finds the cards of a node is nothing to anybody who holds one."""

import contextlib

import msgspec
import pytest

from berth_agent import device_spec
from berth_crds import wire
from support import nodes
from support.nvml import presets


@pytest.mark.parametrize("preset", [presets.DGX_A100, presets.DGX_1V, presets.MIXED], ids=lambda it: it.name)
def test_order_in_which_cards_are_found_changes_nothing_but_indices(
    place: nodes.Place, preset: presets.Preset
) -> None:
    """Under running pods a board keeps its groups, and each card its links, though the driver counts anew."""
    rig = place(preset)
    with contextlib.closing(rig.start()) as looking:
        before = device_spec.spec(nodes.NODE, nodes.look(looking), None)
        order = range(len(before.devices))
        rig.machine.reorder([*order[1:], 0])
        rig.machine.load()
        after = device_spec.spec(nodes.NODE, nodes.look(looking), before)

    assert (by_uuid(before), before.partitions) == (by_uuid(after), after.partitions)
    assert {each.uuid: each.index for each in after.devices} == {
        each.uuid: order[(each.index or 0) - 1] for each in before.devices
    }


def test_groups_go_by_the_bus_where_sockets_are_not_told(place: nodes.Place) -> None:
    """Not even minors say where a card sits."""
    rig = place(presets.DGX_A100, {f"card.{card}.module": None for card in range(8)})
    with contextlib.closing(rig.start()) as looking:
        before = nodes.look(looking)
        rig.machine.change({f"card.{card}.minor": 7 - card for card in range(8)})
        after = nodes.look(looking)

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
