"""What is left of one node's devices, written into the node table.

A node has few devices, so nothing is counted up and down: what is left is computed again
from what the pods hold, for a whole node when its Device changed, else for the cards that
a hold names.
"""

import collections
import dataclasses
from collections.abc import Collection, Iterable
from typing import Final

from berth_crds import catalog
from berth_operator.scheduling import node_table
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import (
    device_facts,
    device_view,
    packing_problems,
    requests,
    scopes,
    verdicts,
)
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.node_info import NodeInfo

# What of each card is computed again; its size and model are written once.
OF_CARDS: Final = ("core", "excess", "memory", "ratio", "space", "in_service", "unused", "trouble")


def use_columns(
    table: node_table.NodeTable, at: int, device: device_facts.Device, models: Iterable[str] = ()
) -> None:
    """Make columns for what the devices of a row are, and leave those for what it has no more."""
    table.models.use(at, models)
    profiles = (one.profile for card in device.cards for one in card.instances)
    table.use_kinds(at, profiles=profiles, types=(one.type for one in device.others))
    table.use_gpu_unit(at, device.gpu_unit)


def install(table: node_table.NodeTable, info: NodeInfo, device: device_facts.Device) -> None:
    """Write what the cards of a node are, in place of those that it had."""
    table.reserve_slots(len(device.cards))
    table.clear_cards(info.row)
    info.measured_free = {}
    models = [catalog.model_key(card.model) for card in device.cards]
    use_columns(table, info.row, device, models)
    for slot, card in enumerate(device.cards):
        table.model[info.row, slot] = table.models.of[models[slot]]
        table.total[info.row, slot] = card.memory


def take(info: NodeInfo, hold: Hold, sign: int) -> None:
    """Add what a hold takes of each device to what is used of the node, or with -1 subtract it."""
    info.unnamed_of_pods += sign * hold.withheld
    for share in hold.shares:
        old = info.used.get(share.uuid, device_view.UNUSED)
        whole = share.core >= device_view.FULL_CORE and not share.core_limit
        new = device_view.Usage(
            old.core + sign * share.core,
            old.memory + sign * share.memory,
            old.pods + sign,
            old.wholes + sign * whole,
        )
        if new.pods:
            info.used[share.uuid] = new
        else:
            del info.used[share.uuid]
        if share.function:
            # Damaged records may name one function twice; it is free when the last of them is gone.
            info.functions[share.function] = info.functions.get(share.function, 0) + sign
            if not info.functions[share.function]:
                del info.functions[share.function]


def refresh(table: node_table.NodeTable, info: NodeInfo, changed: Collection[Hold]) -> None:
    """Compute again what is left of the devices that these holds name, which have come or gone."""
    if any(hold.withheld or (hold.devices and not info.plain) for hold in changed):
        recount(table, info)
        return
    if info.in_service and info.device is not None:
        for uuid in {share.uuid for hold in changed for share in hold.shares}:
            if (slot := info.slots.get(uuid)) is not None:
                _write_slot(table, info, slot, info.device.cards[slot])
        if info.row in table.honoring:
            _write_partitions(table, info, info.view())
    table.touch(info.row)


def recount(table: node_table.NodeTable, info: NodeInfo) -> None:
    """Compute again what is left of all devices of one node."""
    at, view = info.row, info.view()
    cards = view.device.cards
    info.slots = {card.uuid: slot for slot, card in enumerate(cards) if divisible(card)}
    info.uncounted = 0
    info.plain = len(info.slots) == len(cards) and not view.device.others
    table.withheld[at] = view.withheld
    table.state[at] = _state(info)
    table.delivery[at] = view.device.delivery
    table.one_replica_each[at] = view.device.one_replica_each
    for name in (
        *OF_CARDS,
        *node_table.REPLICA_TABLES,
        *node_table.INSTANCE_TABLES,
        *node_table.OTHER_TABLES,
    ):
        getattr(table, name)[at] = 0
    table.pieces_memory[at] = 0
    for slot, card in enumerate(cards):
        table.trouble[at, slot] = _trouble(card)
        if view.in_service and divisible(card):
            table.in_service[at, slot] = True
            _write_slot(table, info, slot, card)
    if not info.plain:
        _recount_rest(table, info, view)
    _write_partitions(table, info, view)
    table.touch(at)


def recount_partitions(table: node_table.NodeTable, info: NodeInfo, *, honored: bool) -> None:
    """Compute again of which sizes a partition is free, where the node honours them otherwise than before."""
    if info.honors_partitions is not honored:
        _write_partitions(table, info, info.view())


def _write_partitions(table: node_table.NodeTable, info: NodeInfo, view: device_view.View) -> None:
    sizes = None
    if view.honors_partitions:
        cards = packing_problems.in_order(view.device.cards)
        sizes = scopes.free_sizes(packing_problems.read_selectable_cards(view, cards, requests.ANY_CARD))
    table.allow_partitions(info.row, sizes)


def _write_slot(table: node_table.NodeTable, info: NodeInfo, slot: int, card: PhysicalDevice) -> None:
    used = info.used.get(card.uuid, device_view.UNUSED)
    core, memory = max(0, device_view.FULL_CORE - used.core), max(0, card.memory - used.memory)
    table.core[info.row, slot] = core
    if table.any_excess or used.core > device_view.FULL_CORE:
        table.excess[info.row, slot] = max(0, used.core - device_view.FULL_CORE)
        table.any_excess = True
    table.memory[info.row, slot] = memory
    table.ratio[info.row, slot] = ratio(memory, card.memory)
    table.space[info.row, slot] = space(core, memory, card.memory)
    table.unused[info.row, slot] = not used.pods


def ratio(memory: int, total: int) -> int:
    """Return the largest share of a card's memory, in percent, for which so much of it suffices."""
    if memory >= total:
        return requests.WHOLE if total else 0
    # All of it is only there when all of it is.
    return min(requests.WHOLE - 1, (memory + requests.rounding(total)) * requests.WHOLE // total)


def space(core: int, memory: int, total: int) -> int:
    """Return what is left of a card in percent: the scarcer of compute and memory, memory to the nearest.

    Shares asked in percent are rounded up to bytes, so rounding down would lose a percent of
    each. A card of unknown size is judged by its compute alone.
    """
    return min(core, (memory * device_view.FULL_CORE + total // 2) // total) if total else core


@dataclasses.dataclass(slots=True)
class _Counts:
    """Equal pieces of devices, counted as in `node_table.PIECE_COUNTS`."""

    left: int = 0
    well: int = 0
    in_all: int = 0
    trouble: int = 0
    free: int = 0  # Percents of devices that are left, where these are counted.

    def add(self, holder: PhysicalDevice, count: int, left: int, *, free: int = 0) -> None:
        """Add the pieces of one device."""
        self.in_all += count
        if holder.trouble is None:
            self.well += count
            self.left += left
            self.free += free
        else:
            code = node_table.TROUBLES.index(holder.trouble) if holder.trouble in node_table.TROUBLES else 0
            self.trouble = min(self.trouble or code, code)


def _recount_rest(table: node_table.NodeTable, info: NodeInfo, view: device_view.View) -> None:
    """Count what is left of a node's replicas, instances and other devices, and how many there are at all."""
    replicas = _Counts()
    instances: dict[str, _Counts] = collections.defaultdict(_Counts)
    others: dict[str, _Counts] = collections.defaultdict(_Counts)
    for card in view.device.cards:
        if card.replicas > 1:
            left = verdicts.free_replicas(view, card) if view.in_service and card.trouble is None else 0
            replicas.add(card, card.replicas, left)
            table.pieces_memory[info.row] += card.memory * left // card.replicas
        for one in card.instances:
            unused = view.in_service and view.usage(one.uuid) == device_view.UNUSED
            instances[one.profile].add(card, 1, unused)
            table.pieces_memory[info.row] += one.memory if unused and card.trouble is None else 0
    for other in view.device.others:
        free = view.free_core(other) if view.in_service else 0
        others[other.type].add(other, 1, free > 0, free=free)
    _write(table, node_table.REPLICA_TABLES, info.row, replicas)
    _write_all(table, node_table.INSTANCE_TABLES, info, table.profiles, instances)
    _write_all(table, node_table.OTHER_TABLES, info, table.types, others)


def _write_all(
    table: node_table.NodeTable,
    tables: tuple[str, ...],
    info: NodeInfo,
    names: node_table.Names,
    counts_by_name: dict[str, _Counts],
) -> None:
    """Write the counts of each name that has a column; the others are too many, and are not given out."""
    for name, counts in counts_by_name.items():
        if (at := names.get(name)) is not None:
            _write(table, tables, (info.row, at), counts)
        else:
            info.uncounted += 1


def _write(
    table: node_table.NodeTable, names: tuple[str, ...], at: int | tuple[int, int], counts: _Counts
) -> None:
    # Only other devices have a table for the last of these.
    figures = (counts.left, counts.well, counts.in_all, counts.trouble, counts.free)
    for name, count in zip(names, figures, strict=False):
        getattr(table, name)[at] = count


def divisible(card: PhysicalDevice) -> bool:
    """Whether a card is given out whole or in fractions: no trouble, no MIG instances, no replicas."""
    return card.trouble is None and not card.mig and card.replicas <= 1


def _state(info: NodeInfo) -> int:
    if info.device is None:
        return node_table.NO_DEVICES_REASONS.index(Reason.NOT_PUBLISHED)
    if not (info.device.cards or info.device.others):
        return node_table.NO_DEVICES_REASONS.index(Reason.NO_DEVICE)
    if info.agent_not_ready:
        return node_table.NO_DEVICES_REASONS.index(Reason.SILENT)
    if info.device.failed:
        return node_table.NO_DEVICES_REASONS.index(Reason.SOURCE_FAILED)
    return node_table.NO_DEVICES_REASONS.index(Reason.QUARANTINED) if info.quarantine else 0


def _trouble(card: PhysicalDevice) -> int:
    trouble = card.trouble or _mode(card)
    return node_table.TROUBLES.index(trouble) if trouble in node_table.TROUBLES else 0


def _mode(card: PhysicalDevice) -> Reason | None:
    """Return the mode in which a card is given out neither whole nor by shares, if it is in one."""
    if card.mig:
        return Reason.MIG_MODE
    return Reason.SHARING_MODE if card.replicas > 1 else None
