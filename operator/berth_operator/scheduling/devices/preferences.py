"""What each kind of ask prefers among the spots that would do.

A card that is loaded less comes first, where the policy has that count. A started card is filled before an
unused one, and the tightest fit is taken. Which card one share starts on by another strategy is chosen
before, where all nodes are compared. An init container first borrows what its pod holds already, because the
pod keeps all its cards for life. Ties go to the lower minor, which is the order in which cards are numbered.
These are preferences only: where they lead into a dead end, the search turns back to the next best.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

from berth_operator.scheduling.devices import card_sets, device_view, mig_slices, node_topology, packing
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.devices.packing import Amounts, Arrange, Load, Spot, State

# Parts of a thousand, of each of the two quantities.
MILLE: Final = 1000
CORE_MILLE: Final = 10

Key = Callable[[State, tuple[int, ...], int], tuple[object, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class Preference:
    """What the preference of an item depends on, besides the state."""

    spots: tuple[Spot, ...]
    phases: tuple[int, ...]
    borrows: bool
    loads_by_uuid: Mapping[str, int]  # Of cards, by uuid.

    def load_of(self, spot: Spot) -> int:
        """Return how loaded the card of a spot is."""
        return self.loads_by_uuid.get(spot.card.uuid, 0)


def pools(
    view: device_view.View, cards: tuple[PhysicalDevice, ...], pool: int, count: int
) -> tuple[int, ...]:
    """Return the cards to choose so many from: first those that are loaded least, then all of the pool."""
    if not view.loads_by_uuid or pool.bit_count() <= count:
        return (pool,)
    slots = list(node_topology.slots(pool))
    most = sorted(view.load_of(cards[slot].uuid) for slot in slots)[max(count, 1) - 1]
    calm = node_topology.mask_of([slot for slot in slots if view.load_of(cards[slot].uuid) <= most])
    return (pool,) if calm == pool else (calm, pool)


def left_over(room: Amounts, taken: Amounts, scale: int) -> int:
    """Return how empty a spot would be, in thousandths of the core plus thousandths of the memory."""
    left = (room[0] - taken[0]) * CORE_MILLE
    return left + (room[1] - taken[1]) * MILLE // scale if scale else left


def shares(preference: Preference, needs: Mapping[int, Amounts]) -> Arrange:
    """Order spots for shares of cards and parts of other devices."""

    def key(state: State, _mine: tuple[int, ...], at: int) -> tuple[object, ...]:
        spot, load = preference.spots[at], state.loads[at]
        taken = packing.load_in(load, preference.phases)
        new = spot.fresh and not any(load)
        after = (taken[0] + needs[at][0], taken[1] + needs[at][1])
        tightness = left_over(spot.room, after, spot.scale)
        return _unborrowed(preference, load), preference.load_of(spot), new, tightness, spot.device

    return _sorted_by(key)


def replicas(preference: Preference, count: int, *, spread: bool) -> Arrange:
    """Order cards for one of so many replicas: spread over different ones, or packed on as few as will do."""

    def key(state: State, mine: tuple[int, ...], at: int) -> tuple[object, ...]:
        spot, load = preference.spots[at], state.loads[at]
        free = spot.room[0] - packing.load_in(load, preference.phases)[0]
        used = spot.card.replicas - free
        if spread:
            return (
                mine.count(at),
                _unborrowed(preference, load),
                preference.load_of(spot),
                used,
                spot.device,
            )
        missing = count - sum(1 for one in mine if preference.spots[one].card.replicas > 1)
        fits = free >= missing
        return (
            _unborrowed(preference, load),
            at not in mine,
            not fits,
            preference.load_of(spot),
            -used if fits else used,
            spot.device,
        )

    return _sorted_by(key)


def instances(preference: Preference, in_use: Mapping[int, int]) -> Arrange:
    """Order MIG instances: on a started card first, then by harm; `in_use` are slices, by device."""

    def arrange(state: State, _mine: tuple[int, ...], able: list[int]) -> list[int]:
        taken = _slices_taken(preference, state, in_use)
        return sorted(able, key=lambda at: key(state, taken, at))

    def key(state: State, taken: Mapping[int, int], at: int) -> tuple[object, ...]:
        spot, load = preference.spots[at], state.loads[at]
        assert spot.instance is not None, "a spot for instances"  # noqa: S101
        new = spot.fresh and not state.held >> spot.device & 1
        harm = mig_slices.harm(spot.card.model, mig_slices.occupied((spot.instance,)), taken[spot.device])
        order = spot.device, spot.instance.start, spot.instance.uuid
        return _unborrowed(preference, load), preference.load_of(spot), new, harm, *order

    return arrange


def _slices_taken(preference: Preference, state: State, in_use: Mapping[int, int]) -> dict[int, int]:
    """Add to the slices in use those of the instances that the pod was given so far."""
    taken = dict(in_use)
    for spot, load in zip(preference.spots, state.loads, strict=True):
        if spot.instance is not None and any(load):
            taken[spot.device] |= mig_slices.occupied((spot.instance,))
    return taken


def whole_cards(preference: Preference, topology: node_topology.NodeTopology, count: int) -> Arrange:
    """Order cards to take whole: those to borrow, then the best set of that size, then the others."""

    def arrange(state: State, _mine: tuple[int, ...], able: list[int]) -> list[int]:
        of = {preference.spots[at].device: at for at in able}
        held = [slot for slot, at in of.items() if preference.borrows and any(state.loads[at])]
        enough = len(held) >= count
        best = card_sets.best_set(topology, node_topology.mask_of(held if enough else of), count) or 0
        # Where too few are held, all of them are borrowed, and which ones join them matters less.
        first = best if enough or not held else node_topology.mask_of(held)
        return [of[slot] for slot in sorted(of, key=lambda slot: (not first >> slot & 1, slot))]

    return arrange


def _unborrowed(preference: Preference, load: Load) -> bool:
    return preference.borrows and not any(load)


def _sorted_by(key: Key) -> Arrange:
    return lambda state, mine, able: sorted(able, key=lambda at: key(state, mine, at))
