"""From a request and the devices of one node to packing problems that the exact search can solve.

A NodeProblem is read once for each request: the spots that the node's devices offer, and the asks as items
with all spots that would do for each. Types of device that have nothing to do with each other become problems
of their own, so that a node without a free NIC is not tried with every set of cards; types that are asked
jointly stay together. The problem of the cards is built again for each set of whole cards and each group of
slots to keep to.

Phases are numbered as `container_peaks.phases` gives them: all that keeps running is phase 0, and each init
container adds one.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from berth_crds.vocabulary import PartitionChoice
from berth_operator.scheduling.devices import (
    card_sets,
    device_facts,
    device_view,
    equivalence,
    exclusivity,
    joint,
    mig_slices,
    packing,
    preferences,
    requests,
    scopes,
    verdicts,
)
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.devices.packing import Amounts, Item, Limit, PackingProblem, Spot
from berth_operator.scheduling.devices.search_effort import Effort

# In which order items are placed: those with the least choice first.
LEAST_CHOICE_FIRST: Final = (requests.Gpus, requests.Instances, requests.Replicas, requests.OtherDevices)


@dataclasses.dataclass(frozen=True)
class NodeProblem:
    """One request to one node, laid out: the view, the request, and its joint types."""

    view: device_view.View
    request: requests.DeviceRequest

    @functools.cached_property
    def cards(self) -> tuple[PhysicalDevice, ...]:
        """The cards, in the order of their slots."""
        return in_order(self.view.device.cards)

    @functools.cached_property
    def roles(self) -> joint.Roles:
        """Which types lead and follow."""
        return joint.roles(self.request)

    @functools.cached_property
    def selectable(self) -> scopes.SelectableCards:
        """The cards as masks of slots: all, unused ones, and those of them that suit as whole ones."""
        return selectable_cards_of(self.view, self.cards, self.request)

    @functools.cached_property
    def others(self) -> tuple[PhysicalDevice, ...]:
        """The devices of other types, in the order of their minors."""
        return others_in_order(self.view.device)

    @functools.cached_property
    def devices(self) -> tuple[PhysicalDevice, ...]:
        """All devices: a spot names its own by the number that it has here."""
        return (*self.cards, *self.others)

    @functools.cached_property
    def alike(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the devices, together those of which the same is true for whatever is asked."""
        return tuple(equivalence.groups(self.view, self.devices, self.request))

    @functools.cached_property
    def spots(self) -> tuple[Spot, ...]:
        """All places on the node where something may be put."""
        return tuple(_spots(self))

    @functools.cached_property
    def items(self) -> tuple[Item, ...]:
        """All asks with all spots that would do, in the order in which they are placed."""
        return tuple(_items(self))

    @functools.cached_property
    def limits(self) -> tuple[Limit, ...]:
        """How many unused cards may be started, where some are withheld."""
        return tuple(_limits(self)) if self.view.withheld else ()

    @functools.cached_property
    def phases(self) -> tuple[tuple[int, ...], ...]:
        """For each container, the phases in which it runs: from its start to the end, or one of its own."""
        found: list[tuple[int, ...]] = []
        last = self.phase_count - 1
        done = 0  # Init containers that end before this one starts.
        for container in self.request.containers:
            if container.runs:
                found.append((0, *range(done + 1, last + 1)))
            else:
                done += 1
                found.append((done,))
        return tuple(found)

    @functools.cached_property
    def phase_count(self) -> int:
        """The number of phases: all that keeps running, and one for each init container."""
        return 1 + sum(not container.runs for container in self.request.containers)

    @functools.cached_property
    def needs(self) -> dict[requests.Ask, dict[int, Amounts]]:
        """What was found to do for each ask; containers often ask for the same."""
        return {}

    def is_read(self, effort: Effort) -> bool:
        """Ask all devices for each thing that is asked, and return whether there was time for it."""
        for container in self.request.containers:
            for ask in container.asks:
                _needs(self, ask)
                if effort.out_of_time:
                    effort.spend(0)
                    return False
        return True

    def type_of(self, item: Item) -> str:
        """Return the type of device that an item asks for."""
        return joint.type_of(self.ask_of(item))

    def ask_of(self, item: Item) -> requests.Ask:
        """Return the ask that an item came from."""
        return self.request.containers[item.container_number].asks[item.ask_number]

    @functools.cached_property
    def types_together(self) -> tuple[frozenset[str], ...]:
        """The types that must be placed together, those with cards last, for they take the longest."""
        types = {self.type_of(item) for item in self.items}
        together = self.roles.types
        alone = [frozenset({one}) for one in sorted(types - together)]
        return tuple(
            sorted([*alone, *([together] if together else [])], key=lambda one: device_facts.GPU in one)
        )

    def packing_problem(
        self, types: frozenset[str], choice: scopes.Choice, limits: tuple[Limit, ...] = ()
    ) -> PackingProblem:
        """Return the problem of some types, with cards only from a group and whole cards only from a set."""
        items = (self._within(item, choice) for item in self.items if self.type_of(item) in types)
        container_count = len(self.request.containers)
        return PackingProblem(
            self.spots, tuple(items), self.phase_count, container_count, (*self.limits, *limits)
        )

    def _within(self, item: Item, choice: scopes.Choice) -> Item:
        ask = self.ask_of(item)
        if isinstance(ask, requests.OtherDevices):
            return item
        allowed = choice.whole if isinstance(ask, requests.Gpus) and ask.is_whole else choice.group
        needs = {at: need for at, need in item.needs.items() if allowed >> self.spots[at].device & 1}
        return item if len(needs) == len(item.needs) else dataclasses.replace(item, needs=needs)


def in_order(cards: tuple[PhysicalDevice, ...]) -> tuple[PhysicalDevice, ...]:
    """Return cards in the order of their slots, which is that of their minors; mostly they are already."""
    last = -1
    for card in cards:
        if card.minor <= last:
            return tuple(sorted(cards, key=lambda one: (one.minor, one.uuid)))
        last = card.minor
    return cards


def others_in_order(device: device_facts.Device) -> tuple[PhysicalDevice, ...]:
    """Return the devices that are no cards in order: by type, then minor."""
    return tuple(sorted(device.others, key=lambda one: (one.type, one.minor, one.uuid)))


def read_selectable_cards(
    view: device_view.View, cards: tuple[PhysicalDevice, ...], asked: requests.Conditions
) -> scopes.SelectableCards:
    """Read which cards could be taken whole."""
    free = pool = 0
    for slot, card in enumerate(cards):
        if not (card.mig or card.replicas > 1 or card.trouble) and view.unused(card):
            free |= 1 << slot
            if asked is requests.ANY_CARD or _meets(view, card, asked):
                pool |= 1 << slot
    return scopes.SelectableCards(view.device.topology, (1 << len(cards)) - 1, free, pool)


def _meets(view: device_view.View, card: PhysicalDevice, asked: requests.Conditions) -> bool:
    """Whether an unused card meets the conditions."""
    suits = verdicts.unfit(card, requests.cards(1), asked) is None
    return suits and verdicts.enough_memory_free(view, card, asked)


def selectable_cards_of(
    view: device_view.View, cards: tuple[PhysicalDevice, ...], request: requests.DeviceRequest
) -> scopes.SelectableCards:
    """Read which cards a request could take whole, and whether they must be a partition."""
    selectable, grouping = read_selectable_cards(view, cards, request.conditions), request.grouping
    if (grouping.partition is None and not view.honors_partitions) or not request.need.whole_cards:
        return selectable
    return selectable._replace(
        table_only=True,
        best_only=grouping.partition is PartitionChoice.RESTRICTED,
        bandwidth=grouping.ring_bandwidth,
    )


# ---------------------------------------------------------------- spots


def _spots(problem: NodeProblem) -> Iterator[Spot]:
    bits = joint.root_bits(problem.view.device) if problem.roles.types else {}
    for slot, card in enumerate(problem.cards):
        if card.trouble is None:
            root = _root(problem, card, bits)
            fresh = problem.view.unused(card)
            yield from (spot._replace(root=root, fresh=fresh) for spot in _spots_of_card(problem, slot, card))
    for number, device in enumerate(problem.others, start=len(problem.cards)):
        if device.trouble is None:
            yield _spot_of_other(problem, number, device)._replace(root=_root(problem, device, bits))


def _root(problem: NodeProblem, card: PhysicalDevice, bits: Mapping[str, int]) -> int:
    if card.type not in problem.roles.types:
        return 0
    unknown = joint.UNKNOWN if card.type == problem.roles.leader else 0
    return bits.get(card.root or "", unknown)


def _spots_of_card(problem: NodeProblem, slot: int, card: PhysicalDevice) -> Iterator[Spot]:
    if card.mig:
        for one in verdicts.free_instances(problem.view, card, problem.request.conditions):
            yield Spot(slot, (1, 0), card, instance=one)
    elif card.replicas > 1:
        yield Spot(slot, (verdicts.free_replicas(problem.view, card), 0), card)
    else:
        yield Spot(
            slot, (problem.view.free_core(card), problem.view.free_memory(card)), card, scale=card.memory
        )


def _spot_of_other(problem: NodeProblem, number: int, device: PhysicalDevice) -> Spot:
    functions = sum(1 for _ in verdicts.free_functions(problem.view, device, problem.request.grouping))
    unused = verdicts.unused_part(problem.view, device)
    return Spot(number, (problem.view.free_core(device), functions), device, fresh=unused)


def _limits(problem: NodeProblem) -> Iterator[Limit]:
    """Leave as many unused cards of each mode as are withheld, because their modes are unknown."""
    modes: dict[tuple[bool, bool], int] = {}
    for slot, card in enumerate(problem.cards):
        if card.trouble is None and problem.view.unused(card):
            mode = (card.mig, card.replicas > 1)
            modes[mode] = modes.get(mode, 0) | 1 << slot
    for mask in modes.values():
        yield Limit(mask, max(0, mask.bit_count() - problem.view.withheld))


# ---------------------------------------------------------------- items


def _items(problem: NodeProblem) -> Iterator[Item]:
    """Make the items: what leads before what follows, what runs before what borrows, the large first."""
    asks = [
        (container_number, number, ask)
        for container_number, container in enumerate(problem.request.containers)
        for number, ask in enumerate(container.asks)
        if ask.count > 0 or (isinstance(ask, requests.OtherDevices) and ask.every)
    ]
    asks.sort(key=lambda one: _urgency(problem, *one))
    for container_number, number, ask in asks:
        yield from _items_of(problem, container_number, number, ask)


def _urgency(
    problem: NodeProblem, container_number: int, number: int, ask: requests.Ask
) -> tuple[object, ...]:
    follows = joint.type_of(ask) in problem.roles.followers
    borrows = not problem.request.containers[container_number].runs
    if isinstance(ask, requests.Gpus):
        return follows, borrows, 0, -ask.core, -ask.ratio, -ask.memory, container_number, number
    kind = LEAST_CHOICE_FIRST.index(type(ask))
    share = ask.share if isinstance(ask, requests.OtherDevices) else 0
    return follows, borrows, kind, -share, 0, 0, container_number, number


def _items_of(problem: NodeProblem, container_number: int, number: int, ask: requests.Ask) -> Iterator[Item]:
    needs = _needs(problem, ask)
    phases = problem.phases[container_number]
    preference = preferences.Preference(
        problem.spots,
        phases,
        borrows=not problem.request.containers[container_number].runs,
        loads_by_uuid=problem.view.loads_by_uuid,
    )
    whole = Item(
        container_number, number, phases, ask.count, needs, _arrange(problem, ask, preference, needs)
    )
    kind = joint.type_of(ask)
    if isinstance(ask, requests.Instances | requests.Replicas):
        recalls = isinstance(ask, requests.Replicas)
        single = dataclasses.replace(whole, count=1, leads=kind == problem.roles.leader, recalls=recalls)
        yield from (single for _ in range(ask.count))
    elif isinstance(ask, requests.OtherDevices) and ask.every:
        yield dataclasses.replace(whole, count=count_of_every(problem.view, ask, problem.request))
    else:
        steps = _ordering_steps(ask)
        leads, follows = kind == problem.roles.leader, kind in problem.roles.followers
        wished = follows and problem.roles.wished
        yield dataclasses.replace(whole, leads=leads, follows=follows, wished=wished, ordering_steps=steps)


def _needs(problem: NodeProblem, ask: requests.Ask) -> dict[int, Amounts]:
    """Return for each spot that would do by itself what one unit takes of it."""
    if ask not in problem.needs:
        problem.needs[ask] = _found_needs(problem, ask)
    return problem.needs[ask]


def _found_needs(problem: NodeProblem, ask: requests.Ask) -> dict[int, Amounts]:
    rooms: dict[int, Amounts] = {}
    for numbers in problem.alike:
        device = problem.devices[numbers[0]]
        if _suits(problem, device, ask):
            rooms |= dict.fromkeys(numbers, _need(problem, device, ask))
    spots = ((at, spot) for at, spot in enumerate(problem.spots) if spot.device in rooms)
    return {at: rooms[spot.device] for at, spot in spots if _right_instance(spot, ask)}


def _suits(problem: NodeProblem, device: PhysicalDevice, ask: requests.Ask) -> bool:
    if (device.type == device_facts.GPU) == isinstance(ask, requests.OtherDevices):
        return False
    asked, grouping = problem.request.conditions, problem.request.grouping
    return verdicts.reason_against(problem.view, device, ask, asked, grouping=grouping) is None


def _right_instance(spot: Spot, ask: requests.Ask) -> bool:
    if spot.instance is None or not isinstance(ask, requests.Instances):
        return spot.instance is None
    return spot.instance.profile == ask.profile


def _need(problem: NodeProblem, device: PhysicalDevice, ask: requests.Ask) -> Amounts:
    match ask:
        case requests.Gpus():
            # A whole card is taken with all that could be promised of it.
            core = problem.view.free_core(device) if ask.is_whole else ask.core
            return core, ask.least_of(device.memory)
        case requests.OtherDevices():
            return ask.share, int(verdicts.takes_function(device, ask, problem.request.grouping))
    return 1, 0


def count_of_every(
    view: device_view.View, ask: requests.OtherDevices, request: requests.DeviceRequest
) -> int:
    """Count the devices that an ask for every one must get: those that suit and are well, at least one."""
    found = sum(
        (device.trouble is None or device.trouble in exclusivity.SHARED)
        and verdicts.unfit(device, ask, request.conditions, grouping=request.grouping) is None
        for device in view.device.others
    )
    return max(1, found)


def _arrange(
    problem: NodeProblem, ask: requests.Ask, preference: preferences.Preference, needs: Mapping[int, Amounts]
) -> packing.Arrange:
    match ask:
        case requests.Gpus() if ask.is_whole:
            return preferences.whole_cards(preference, problem.view.device.topology, ask.count)
        case requests.Instances():
            return preferences.instances(preference, _slices_in_use(problem))
        case requests.Replicas():
            return preferences.replicas(
                preference, ask.count, spread=problem.request.grouping.spread_replicas
            )
    return preferences.shares(preference, needs)


def _ordering_steps(ask: requests.Ask) -> Callable[[int], int] | None:
    """Return what it costs to order cards for an ask, by their number: whole ones are chosen as a set."""
    if not isinstance(ask, requests.Gpus) or not ask.is_whole:
        return None
    return functools.partial(card_sets.price, count=ask.count)


def _slices_in_use(problem: NodeProblem) -> dict[int, int]:
    """Return for each card which of its slices belong to instances in use."""
    return {
        slot: mig_slices.occupied(
            one for one in card.instances if problem.view.usage(one.uuid) != device_view.UNUSED
        )
        for slot, card in enumerate(problem.cards)
    }
