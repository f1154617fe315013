"""An exact search: things of several sizes, put into places of several sizes, in several phases.

Of devices it knows the PCIe root and the NUMA node; all else is plain numbers. A Spot is a place with room
in two quantities; an Item asks for a number of different spots and says what it takes of each, and in which
phases of the pod's life. Items of different phases may use the same room one after the other, and what runs
in several phases keeps its spots in all of them. Spots belong to devices, and limits say how many devices
out of a set may be used at all.

The search goes item by item and returns to an earlier choice when a later item finds no
spot, so it finds an answer whenever one exists; the first choice everywhere is what the
item prefers, so that with room enough the answer is the preferred one. Two things keep
it short: a spot is not tried where an equal one has failed, and a state of the spots
from which the rest was found impossible is remembered and not entered again. Once a
search takes longer than usual, it also counts: what is left to place may be too much,
or too many things too large, for the room that is left.

The worst case is still exponential, so an Effort bounds the number of steps. Pods of a few
containers on eight cards take tens of steps.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from berth_operator.scheduling.devices import bounds, device_facts, joint
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.devices.search_effort import Effort

# Below so many steps and items, counting would cost more than it saves.
STEPS_BEFORE_COUNTING: Final = 40
MANY_ITEMS: Final = 24
# A step costs more where there are many spots and phases: what it changes is copied.
SPOT_PHASES_PER_STEP: Final = 32

# Two amounts: of a card its core and memory; of an instance or replicas how many; of a NIC its core and
# its functions. So much room a spot has, and so much an item needs of it.
Amounts = tuple[int, int]
Load = tuple[int, ...]  # What the items placed so far take of a spot: two numbers for each phase.


class Spot(NamedTuple):
    """A place that something can be put: the room of a card, one MIG instance, the functions of a NIC.

    `device` is the number of its device, `scale` what the second quantity is measured
    against, `root` a bit for its PCIe root, and `fresh` whether the device is unused.
    """

    device: int
    room: Amounts
    card: PhysicalDevice
    instance: device_facts.Instance | None = None
    scale: int = 0
    root: int = 0
    fresh: bool = False


class State(NamedTuple):
    """What is placed so far: loads of the spots, devices used, roots of each container, choices made."""

    loads: tuple[Load, ...]
    held: int
    roots: tuple[int, ...]
    chosen: tuple[tuple[int, ...], ...] = ()


# Puts the spots that would do in the order of preference; the second value names the spots
# that earlier items of the same container took.
Arrange = Callable[[State, tuple[int, ...], list[int]], list[int]]


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """So many different spots for one container, in some phases; `needs` says what is taken of each spot.

    `leads` marks what sits on PCIe roots that others must follow, `follows` what must be
    beside it: on the roots of its container's leading devices, on each of them at least one.
    With `wished` it need only come as near as it can. `recalls` tells that the preference depends
    on what the same container took before. `ordering_steps` says how many it costs to put so many spots in
    order, where that is more than sorting.
    """

    container_number: int
    ask_number: int
    phases: tuple[int, ...]
    count: int
    needs: Mapping[int, Amounts]
    arrange: Arrange
    leads: bool = False
    follows: bool = False
    wished: bool = False
    recalls: bool = False
    ordering_steps: Callable[[int], int] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """At most so many of these devices may be used."""

    devices: int
    most: int


@dataclasses.dataclass(frozen=True, slots=True)
class PackingProblem:
    """All that is to be placed, and where."""

    spots: tuple[Spot, ...]
    items: tuple[Item, ...]
    phases: int
    container_count: int
    limits: tuple[Limit, ...] = ()


def solve(problem: PackingProblem, effort: Effort) -> State | None:
    """Place all items, or say that it cannot be done (or not within the effort)."""
    return _Search(problem, effort).settle(0, _empty(problem))


def _empty(problem: PackingProblem) -> State:
    return State(((0,) * (2 * problem.phases),) * len(problem.spots), 0, (0,) * problem.container_count)


def load_in(load: Load, phases: tuple[int, ...]) -> Amounts:
    """Return how much of a spot is taken in the fullest of some phases."""
    return max(load[2 * phase] for phase in phases), max(load[2 * phase + 1] for phase in phases)


class _Search:
    """One search: the problem, and what was found impossible so far."""

    def __init__(self, problem: PackingProblem, effort: Effort) -> None:
        self.problem = problem
        self.effort = effort
        self.kinds = _kinds(problem)
        self.rooms = tuple(spot.room for spot in problem.spots)
        self.has_followers = any(item.follows for item in problem.items)
        self.failed: set[object] = set()
        self.begun = effort.left
        self.steps_per_put = 1 + len(problem.spots) * problem.phases // SPOT_PHASES_PER_STEP
        self.sizes: tuple[bounds.Size, ...] = ()
        self.unplaced: dict[int, tuple[bounds.Unplaced, ...]] = {}

    def settle(self, item_number: int, state: State) -> State | None:
        """Place the items from one number on."""
        if item_number == len(self.problem.items):
            return state
        key = self._key(item_number, state)
        if key in self.failed or self._hopeless(item_number, state):
            return None
        for after in self._ways(self.problem.items[item_number], state):
            if (done := self.settle(item_number + 1, after)) is not None or self.effort.cut_short:
                return done
        self.failed.add(key)
        return None

    def _hopeless(self, item_number: int, state: State) -> bool:
        """Count whether the rest can fit at all, once the search has lasted for a while."""
        if self.begun - self.effort.left < STEPS_BEFORE_COUNTING and len(self.problem.items) < MANY_ITEMS:
            return False
        if item_number not in self.unplaced:
            self.sizes = self.sizes or tuple(map(_size_of, self.problem.items))
            self.unplaced[item_number] = tuple(bounds.sum_up(self.sizes[item_number:], self.problem.phases))
        return any(bounds.exceeds(one, self.rooms, state.loads) for one in self.unplaced[item_number])

    def _key(self, item_number: int, state: State) -> object:
        """Describe a state so that equal spots may trade places."""
        alike = tuple(sorted(zip(self.kinds, state.loads, strict=True)))
        return item_number, alike, state.roots if self.has_followers else ()

    def _ways(self, item: Item, state: State) -> Iterator[State]:
        """Yield all ways to place one item, the preferred first."""
        roots = joint.to_follow(state.roots, item.container_number) if item.follows else 0
        able = [number for number in item.needs if self._has_room(item, state, number)]
        if roots and not item.wished:
            able = [number for number in able if self.problem.spots[number].root & roots]
        mine = self._taken_by(item.container_number, state) if item.recalls else ()
        if item.ordering_steps is not None:
            self.effort.spend(item.ordering_steps(len(able)))
        order = item.arrange(state, mine, able)
        if not roots:
            found = self._pick(item, state, order, item.count, 0)
        elif item.wished:
            found = self._pick_near(item, state, order, roots & ~joint.UNKNOWN)
        else:
            order = joint.in_rounds(order, [self.problem.spots[number].root for number in order])
            found = self._pick(item, state, order, max(item.count, roots.bit_count()), roots)
        for chosen, after in found:
            yield after._replace(chosen=(*state.chosen, chosen))

    def _pick_near(
        self, item: Item, state: State, order: list[int], roots: int
    ) -> Iterator[tuple[tuple[int, ...], State]]:
        """Yield sets of spots near what leads: first one spot for each root, then fewer, down to the count.

        Of each larger number only the best set is tried: to get more than was asked is worth no search.
        """
        order = joint.nearest_first(
            order, self.problem.spots, roots, self._leading(item.container_number, state)
        )
        for count in range(min(roots.bit_count(), len(order)), item.count, -1):
            yield from itertools.islice(self._pick(item, state, order, count, 0), 1)
        yield from self._pick(item, state, order, item.count, 0)

    def _pick(
        self, item: Item, state: State, order: list[int], count: int, missing_roots: int
    ) -> Iterator[tuple[tuple[int, ...], State]]:
        """Yield the sets of `count` spots, in order, that leave none of these roots missing."""
        if not count:
            yield (), state
            return
        tried = set()
        for place in range(len(order) - count + 1):
            spot_number = order[place]
            likeness = (self.kinds[spot_number], state.loads[spot_number])
            if likeness in tried or self.effort.cut_short:
                continue
            tried.add(likeness)
            after = self._put(item, state, spot_number)
            rest = missing_roots & ~self.problem.spots[spot_number].root
            if after is None or rest.bit_count() >= count:
                continue
            for chosen, final in self._pick(item, after, order[place + 1 :], count - 1, rest):
                yield (spot_number, *chosen), final

    def _has_room(self, item: Item, state: State, spot_number: int) -> bool:
        (first, second), load, need = (
            self.rooms[spot_number],
            state.loads[spot_number],
            item.needs[spot_number],
        )
        for phase in item.phases:
            if load[2 * phase] + need[0] > first or load[2 * phase + 1] + need[1] > second:
                return False
        return True

    def _put(self, item: Item, state: State, spot_number: int) -> State | None:
        """Put one unit on a spot that has room for it; None where a limit forbids its device."""
        self.effort.spend(self.steps_per_put)
        spot, held = self.problem.spots[spot_number], state.held | 1 << self.problem.spots[spot_number].device
        if held != state.held and any(
            (held & one.devices).bit_count() > one.most for one in self._limits(spot)
        ):
            return None
        load = list(state.loads[spot_number])
        for phase in item.phases:
            load[2 * phase] += item.needs[spot_number][0]
            load[2 * phase + 1] += item.needs[spot_number][1]
        loads = (*state.loads[:spot_number], tuple(load), *state.loads[spot_number + 1 :])
        roots = state.roots
        if item.leads:
            roots = (
                *roots[: item.container_number],
                roots[item.container_number] | spot.root,
                *roots[item.container_number + 1 :],
            )
        return State(loads, held, roots, state.chosen)

    def _limits(self, spot: Spot) -> Iterator[Limit]:
        return (one for one in self.problem.limits if one.devices >> spot.device & 1)

    def _leading(self, container_number: int, state: State) -> list[int]:
        """Return the spots that lead for a container: its own, or all of the pod where it has none."""
        done = zip(self.problem.items, state.chosen, strict=False)
        leading = [
            (item.container_number, spot_number)
            for item, chosen in done
            if item.leads
            for spot_number in chosen
        ]
        return [spot_number for one, spot_number in leading if one == container_number] or [
            spot_number for _, spot_number in leading
        ]

    def _taken_by(self, container_number: int, state: State) -> tuple[int, ...]:
        done = zip(self.problem.items, state.chosen, strict=False)
        return tuple(
            spot_number
            for item, chosen in done
            if item.container_number == container_number
            for spot_number in chosen
        )


def _size_of(item: Item) -> bounds.Size:
    """Return each unit of an item at the smallest size it has on any spot."""
    needs = item.needs.values()
    least = min((one for one, _ in needs), default=0), min((one for _, one in needs), default=0)
    return bounds.Size(item.count, item.phases, least, frozenset(item.needs))


def _kinds(problem: PackingProblem) -> tuple[int, ...]:
    """Number the spots so that two have the same number only if nothing tells them apart for any item."""
    numbers: dict[object, int] = {}
    crowded = {spot.device for spot in problem.spots if spot.instance is not None}
    return tuple(
        numbers.setdefault(
            (
                spot.room,
                spot.root,
                # Instances of one card share its place in the limits.
                spot.device if spot.device in crowded else -1,
                tuple(bool(one.devices >> spot.device & 1) for one in problem.limits),
                tuple(item.needs.get(spot_number) for item in problem.items),
            ),
            len(numbers),
        )
        for spot_number, spot in enumerate(problem.spots)
    )
