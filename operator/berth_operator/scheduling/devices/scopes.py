"""How close the cards of a pod must sit, and which sets of whole cards that leaves.

A scope names groups of slots, and all cards of a pod must lie in one of them. NUMA and PCIe groups come
from the topology; for NVLink the groups are the largest sets in which every card is joined with every
other, and these may overlap. Where the topology has a partition table that somebody published, and the table
knows sets of the size that is wanted, NVLink means one of those.

Where a pod asks for a partition, or the node honours its table, nothing but a partition will do. Of
those that are free the best score wins, and of these the one that leaves the larger ones whole. A
node without a table has no partitions but its NVLink groups, of whose bandwidth nothing is known.

Unknown is not zero: a card of which the topology knows nothing is in no group of NVLink, PCIe or NUMA, so
it never meets such a scope where it is required. A scope that is only preferred is tried first and then
given up step by step, NVLink to PCIe to NUMA to the whole node.
"""

import dataclasses
import functools
import heapq
import itertools
from collections.abc import Iterator
from typing import Final, NamedTuple

from berth_crds.vocabulary import Scope
from berth_operator.scheduling.devices import (
    card_sets,
    node_topology,
    nvlink_cliques,
    requests,
)
from berth_operator.scheduling.devices.search_effort import Effort

NARROWEST_FIRST: Final = (Scope.DEVICE, Scope.NVLINK, Scope.PCIE, Scope.NUMA, Scope.NODE)
# Beginning to look in so many groups costs one step.
GROUPS_PER_STEP: Final = 8
LARGEST: Final = 62  # Bits of a number; larger partitions count as of this size.


class Choice(NamedTuple):
    """A set of slots to take whole, and the group of slots that all cards of the pod must keep to."""

    whole: int
    group: int


class SelectableCards(NamedTuple):
    """What can be chosen from on one node, as masks of slots.

    `free` are the unused cards, `pool` those of them that suit this pod, and
    `everything` all slots of the node. With `table_only` nothing but a partition of the table will do, with
    `best_only` one of its best score, and with `bandwidth` one of so much.
    """

    topology: node_topology.NodeTopology
    everything: int
    free: int
    pool: int
    table_only: bool = False
    best_only: bool = False
    bandwidth: int = 0


def tried(selectable: SelectableCards, grouping: requests.Grouping) -> tuple[Scope, ...]:
    """Return the scopes to try on a node; without a table its partitions are its NVLink groups."""
    narrow = grouping.required and grouping.scope not in {None, Scope.NODE}
    if selectable.table_only and not selectable.topology.partitions and not narrow:
        return (Scope.NVLINK,)
    return narrowest_first(grouping)


def narrowest_first(grouping: requests.Grouping) -> tuple[Scope, ...]:
    """Return the scopes to try, one after the other."""
    if grouping.scope is None:
        return (Scope.NODE,)
    return (
        (grouping.scope,) if grouping.required else NARROWEST_FIRST[NARROWEST_FIRST.index(grouping.scope) :]
    )


def preferred_groupings(grouping: requests.Grouping) -> Iterator[requests.Grouping]:
    """Yield the groupings in which a pod would rather have its devices, the most wanted first.

    A preferred scope is tried as a required one, then the next wider one. In each of them it is first asked
    whether all devices that should be joint can be, without worse connected cards.
    """
    if not grouping.joint_wish and (grouping.required or grouping.scope is None):
        return  # As most pods: each decision comes by here.
    *preferred, _ = narrowest_first(grouping)  # The last one is the grouping as it is.
    for one in (
        *(dataclasses.replace(grouping, scope=scope, required=True) for scope in preferred),
        grouping,
    ):
        if one.joint_wish:
            yield dataclasses.replace(one, joint=one.joint_wish, joint_wish=(), cards_first=True)
        if one is not grouping:
            yield one


def groups(topology: node_topology.NodeTopology, scope: Scope, everything: int) -> tuple[int, ...]:
    """Return the groups of slots in which the cards of a pod may lie."""
    if scope is Scope.NODE:
        return (everything,)
    if scope is Scope.DEVICE:
        return tuple(1 << slot for slot in node_topology.slots(everything))
    if scope is Scope.NVLINK:
        return nvlink_cliques.find(topology) or ()
    return topology.scope(scope)


def partitions(selectable: SelectableCards, count: int) -> tuple[int, ...]:
    """Return the free partitions of that size that will do, best first."""
    if not selectable.topology.partitions:
        return ()
    return _partitions(
        selectable.topology,
        selectable.free,
        count,
        selectable.pool,
        selectable.best_only,
        selectable.bandwidth,
    )


@node_topology.remembered(1 << 12)
def _partitions(
    topology: node_topology.NodeTopology,
    free: int,
    count: int,
    pool: int,
    best_only: bool,  # noqa: FBT001  part of the key
    bandwidth: int,
) -> tuple[int, ...]:
    """Return the partitions of that size that lie in the pool, best first; `free` are all unused cards.

    The best has the highest score. Of equal scores that one wins whose loss breaks up the fewest larger ones,
    then the one that leaves most, then the first of the table.
    """
    sized = topology.best_of_size.get(count, ()) if best_only else topology.partitions
    found = [
        part
        for part in sized
        if part.size == count and part.mask & pool == part.mask and part.bandwidth >= bandwidth
    ]

    def key(part: node_topology.Partition) -> tuple[int, ...]:
        left = free & ~part.mask
        return -part.score, -topology.intact(left, count), -topology.wholeness(left)

    return tuple(dict.fromkeys(part.mask for part in sorted(found, key=key)))


def free_sizes(selectable: SelectableCards) -> int:
    """Return the sizes of which a partition is free, as bits; without a table, of an NVLink group."""
    if selectable.topology.partitions:
        masks = (part.mask for part in selectable.topology.partitions)
        return functools.reduce(
            lambda found, one: found | (one & selectable.free == one) << min(one.bit_count(), LARGEST),
            masks,
            1,
        )
    joined = [
        (one & selectable.free).bit_count()
        for one in groups(selectable.topology, Scope.NVLINK, selectable.everything)
    ]
    return (2 << max(joined, default=0)) - 1


def bound_to_table(selectable: SelectableCards, scope: Scope, count: int) -> bool:
    """Return whether only a partition of the table will do."""
    topology = selectable.topology
    if selectable.table_only:
        return bool(count and (topology.partitions or selectable.bandwidth or scope is not Scope.NVLINK))
    return scope is Scope.NVLINK and count in topology.sizes and not topology.by_model


def best(selectable: SelectableCards, scope: Scope, count: int, effort: Effort) -> int | None:
    """Choose the best set of whole cards within a scope; None where none was found."""
    if scope is not Scope.NODE:
        choice = next(choices(selectable, scope, count, effort), None)
        return None if choice is None else choice.whole
    if selectable.topology.partitions and (table := partitions(selectable, count)):
        return table[0]
    if selectable.table_only:
        return None
    return card_sets.best_set(selectable.topology, selectable.free, count, selectable.pool, effort=effort)


def choices(selectable: SelectableCards, scope: Scope, count: int, effort: Effort) -> Iterator[Choice]:
    """Yield all sets of whole cards that a scope allows, best first: partitions, then by links.

    Where the effort is spent, the walk ends.
    """
    groups_of_scope = groups(selectable.topology, scope, selectable.everything)
    table = partitions(selectable, count)
    for whole in table:
        yield from (Choice(whole, group) for group in groups_of_scope if whole & group == whole)
    if bound_to_table(selectable, scope, count):
        return
    able = [group for group in groups_of_scope if (selectable.pool & group).bit_count() >= count]
    effort.spend(len(able) // GROUPS_PER_STEP)
    walks = [_in_group(selectable, group, count, effort, among=len(able)) for group in able]
    for _, choice in walks[0] if len(walks) == 1 else heapq.merge(*walks):
        if effort.cut_short:
            return
        if choice.whole not in table:
            yield choice


def best_connected(selectable: SelectableCards, choices: Iterator[Choice]) -> Iterator[Choice]:
    """Yield the first of some choices and those after it that are connected as well as the first."""
    scores = {part.mask: part.score for part in selectable.topology.partitions}
    graded = ((selectable.topology.within(one.whole), scores.get(one.whole), one) for one in choices)
    for _, equals in itertools.groupby(graded, key=lambda grade: grade[:2]):
        return (one for *_, one in equals)
    return iter(())


def _in_group(
    selectable: SelectableCards, group: int, count: int, effort: Effort, *, among: int
) -> Iterator[tuple[tuple[int, ...], Choice]]:
    """Yield the sets within one group, each with a key by which groups can be merged."""
    pool = selectable.pool & group
    for whole in card_sets.each(
        selectable.topology, selectable.free, count, pool, effort=effort, among=among
    ):
        if effort.cut_short:
            return
        worth, wholeness, order = card_sets.quality(selectable.topology, selectable.free, whole)
        yield (-worth, -wholeness, -order), Choice(whole, group)
