"""A second opinion on placements: naive, exhaustive, and written without a look at the first.

A way to serve a pod is a list of things for each ask: a card, an instance of a card, a replica, a device with
or without one of its functions. All ways are listed and each is held against the rules as a whole. It is far
too slow for anything but tiny nodes.
"""

import collections
import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from berth_crds import catalog, link_worths
from berth_crds.vocabulary import PartitionChoice, Scope
from berth_operator.scheduling.devices import device_facts, device_view, node_topology, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from scheduling.devices import free_memory, neighbours
from scheduling.second_opinion import selected


class Thing(NamedTuple):
    """Something given to an ask: a device, and which part of it where it has parts."""

    card: PhysicalDevice
    part: str = ""


class Given(NamedTuple):
    """What one ask of one container got."""

    owner: int
    ask: requests.Ask
    things: tuple[Thing, ...]


Way = tuple[Given, ...]


def ways(view: device_view.View, request: requests.DeviceRequest) -> Iterator[Way]:
    """List all ways to serve a request that break no rule."""
    asks = [(owner, ask) for owner, container in enumerate(request.containers) for ask in container.asks]
    # What follows is chosen last, because how many are needed depends on what leads.
    asks.sort(key=lambda one: follows(request, one[1]))
    yield from (way for way in _extend(view, request, asks, ()) if allowed(view, request, way))


def _extend(
    view: device_view.View, request: requests.DeviceRequest, asks: list[tuple[int, requests.Ask]], way: Way
) -> Iterator[Way]:
    if len(way) == len(asks):
        yield way
        return
    owner, ask = asks[len(way)]
    for things in options(view, request, owner, ask, way):
        yield from _extend(view, request, asks, (*way, Given(owner, ask, things)))


def options(
    view: device_view.View, request: requests.DeviceRequest, owner: int, ask: requests.Ask, way: Way
) -> Iterator[tuple[Thing, ...]]:
    """List what one ask could get, each thing judged by itself."""
    cards = [card for card in view.device.cards if card.trouble is None and may(view, request, card)]
    match ask:
        case requests.Gpus():
            return itertools.combinations((Thing(card) for card in cards if plain(card)), ask.count)
        case requests.Instances():
            things = (
                Thing(card, one.uuid)
                for card in cards
                if card.mig and card.replicas <= 1
                for one in card.instances
                if one.profile == ask.profile and may_instance(request, card, one)
            )
            return itertools.combinations(things, ask.count)
        case requests.Replicas():
            shared = (Thing(card) for card in cards if not card.mig and card.replicas > 1)
            return itertools.combinations_with_replacement(shared, ask.count)
        case requests.OtherDevices():
            return options_of_parts(view, request, owner, ask, way)


def options_of_parts(
    view: device_view.View, request: requests.DeviceRequest, owner: int, ask: requests.OtherDevices, way: Way
) -> Iterator[tuple[Thing, ...]]:
    """List the sets of devices for an ask of another type, with every choice of functions."""
    suiting = [one for one in view.device.others if suits(request, ask, one) and one.trouble is None]
    count = max(1, len(suiting)) if ask.every else ask.count
    if follows(request, ask) and (roots := roots_to_follow(request, owner, way)):
        count = max(count, len(roots))
        suiting = [one for one in suiting if one.root is not None and one.root in roots]
    for chosen in itertools.combinations(suiting, count):
        yield from itertools.product(*(with_functions(request, ask, one) for one in chosen))


def suits(request: requests.DeviceRequest, ask: requests.OtherDevices, one: PhysicalDevice) -> bool:
    """Return whether a device is of the right kind."""
    functions = request.grouping.function_labels
    pins = {uuid for uuid in request.conditions.uuids if uuid.partition("-")[0] == ask.type}
    return (
        one.type == ask.type
        and (not pins or one.uuid in pins)
        and selected(one.labels, request.grouping.labels, ask.type)
        and (
            not requests.of_type(functions, ask.type)
            or any(selected(each.labels, functions, ask.type) for each in one.functions)
        )
        and one.uuid not in request.conditions.avoid_uuids
    )


def with_functions(
    request: requests.DeviceRequest, ask: requests.OtherDevices, one: PhysicalDevice
) -> list[Thing]:
    """List a device by itself, or with each of its functions where it comes with one."""
    wanted = request.grouping.function_labels
    if not one.functions or (ask.share == 100 and not requests.of_type(wanted, ask.type)):
        return [Thing(one)]
    return [Thing(one, each.bus) for each in one.functions if selected(each.labels, wanted, ask.type)]


def plain(card: PhysicalDevice) -> bool:
    """Return whether a card is given out whole or by shares."""
    return card.trouble is None and not card.mig and card.replicas <= 1


def may(view: device_view.View, request: requests.DeviceRequest, card: PhysicalDevice) -> bool:
    """Return whether the conditions allow a card."""
    asked, key = request.conditions, catalog.model_key(card.model)
    return (
        (not asked.models or key in map(catalog.model_key, asked.models))
        and key not in map(catalog.model_key, asked.avoid_models)
        and (not asked.pattern or found(asked.pattern, card))
        and (not asked.avoid_pattern or not found(asked.avoid_pattern, card))
        and (not asked.uuids or bool({card.uuid, *(one.uuid for one in card.instances)} & asked.uuids))
        and card.uuid not in asked.avoid_uuids
        and selected(card.labels, asked.card_labels, "gpu")
        and card.memory >= max(asked.memory_at_least, asked.free_memory_at_least)
        and free_memory.is_enough(view, card, asked)
    )


def found(pattern: str, card: PhysicalDevice) -> bool:
    """Return whether a pattern is found in the model of a card."""
    return re.search(pattern, catalog.normal_model(card.model), re.IGNORECASE) is not None


def may_instance(request: requests.DeviceRequest, card: PhysicalDevice, one: device_facts.Instance) -> bool:
    """Return whether the conditions allow an instance of a card that they allow."""
    asked = request.conditions
    return one.uuid not in asked.avoid_uuids and (
        not asked.uuids or bool({card.uuid, one.uuid} & asked.uuids)
    )


def amounts(request: requests.DeviceRequest, way: Way) -> frozenset[tuple[str, str, str, int, int]]:
    """Return what each container gets of what, in percent and bytes."""
    sums = collections.defaultdict[tuple[str, str, str], list[tuple[int, int]]](list)
    for given in way:
        for thing in given.things:
            key = request.containers[given.owner].name, *named(given.ask, thing)
            sums[key].append(amount(given.ask, thing))
    return frozenset(
        (*key, sum(core for core, _ in parts), sum(memory for _, memory in parts))
        for key, parts in sums.items()
    )


def named(ask: requests.Ask, thing: Thing) -> tuple[str, str]:
    """Name a thing as an allocation does."""
    if isinstance(ask, requests.Instances):
        return thing.part, ""
    return thing.card.uuid, thing.part


def amount(ask: requests.Ask, thing: Thing) -> tuple[int, int]:
    """Return how much a thing is."""
    card = thing.card
    match ask:
        case requests.Gpus():
            part = -(-card.memory * ask.ratio // 100) if ask.ratio else ask.memory
            return ask.core, part
        case requests.Instances():
            return 100, next(one.memory for one in card.instances if one.uuid == thing.part)
        case requests.Replicas():
            return 100 // card.replicas, card.memory // card.replicas
        case requests.OtherDevices():
            return ask.share, card.memory * ask.share // 100


def allowed(view: device_view.View, request: requests.DeviceRequest, way: Way) -> bool:
    """Return whether a way breaks no rule."""
    return (
        view.in_service
        and all(phase_fits(view, phase, way) for phase in phases(request))
        and leaves_withheld(view, way)
        and in_scope(view, request, way)
        and is_joint(request, way)
        and neighbours.is_alone(view, request, {thing.card for given in way for thing in given.things})
    )


def phases(request: requests.DeviceRequest) -> Iterator[set[int]]:
    """List which containers run at the same time."""
    everyone = range(len(request.containers))
    yield {at for at in everyone if request.containers[at].runs}
    for init in everyone:
        if not request.containers[init].runs:
            yield {init, *(at for at in range(init) if request.containers[at].runs)}


def phase_fits(view: device_view.View, phase: set[int], way: Way) -> bool:
    """Add up what runs at the same time."""
    running = [(given.ask, thing) for given in way if given.owner in phase for thing in given.things]
    for card in {thing.card for _, thing in running}:
        here = [(ask, thing.part) for ask, thing in running if thing.card == card]
        if not card_fits(view, card, here):
            return False
    return True


def card_fits(view: device_view.View, card: PhysicalDevice, here: list[tuple[requests.Ask, str]]) -> bool:
    """Hold what one card must give at one time against what is left of it."""
    used = view.usage(card.uuid)
    pieces = [piece for _, piece in here if piece]
    taken = [piece for piece in pieces if in_use(view, piece) or piece in view.functions]
    if taken or len(pieces) != len(set(pieces)):
        return False
    if card.mig:
        return not in_use(view, card.uuid)
    if card.replicas > 1:
        return replicas_in_use(card, used) + len(here) <= card.replicas
    if card.type != "gpu":
        return part_fits(view, card, [ask for ask, _ in here])
    return share_fits(view, card, used, [ask for ask, _ in here])


def in_use(view: device_view.View, uuid: str) -> bool:
    """Return whether anybody has anything of a device or instance."""
    return view.usage(uuid) != device_view.UNUSED


def share_fits(
    view: device_view.View, card: PhysicalDevice, used: device_view.Usage, here: list[requests.Ask]
) -> bool:
    """Add up shares and whole cards."""
    if any(in_use(view, one.uuid) for one in card.instances):
        return False
    if any(map(is_whole, here)):
        return not in_use(view, card.uuid) and len(here) == 1
    limit = view.core_limit if used.memory < card.memory and not used.wholes else 100
    parts = [amount(ask, Thing(card)) for ask in here]
    if not card.memory and any(isinstance(ask, requests.Gpus) and (ask.memory or ask.ratio) for ask in here):
        return False
    core, memory = map(sum, zip(*parts, strict=True))
    return used.core + core <= limit and used.memory + memory <= card.memory


def is_whole(ask: requests.Ask) -> bool:
    """Return whether a whole card is asked for."""
    return isinstance(ask, requests.Gpus) and ask.core == 100 and ask.ratio == 100


def replicas_in_use(card: PhysicalDevice, used: device_view.Usage) -> int:
    """Find how many replicas the holds amount to, by counting up."""
    core, memory = 100 // card.replicas, card.memory // card.replicas
    return next(
        count
        for count in itertools.count(used.pods)
        if count * core >= used.core and (not memory or count * memory >= used.memory)
    )


def part_fits(view: device_view.View, card: PhysicalDevice, here: list[requests.Ask]) -> bool:
    """Add up the percents of another device."""
    busy = in_use(view, card.uuid) or any(one.bus in view.functions for one in card.functions)
    shares = [ask.share for ask in here if isinstance(ask, requests.OtherDevices)]
    return not (100 in shares and busy) and view.usage(card.uuid).core + sum(shares) <= 100


def leaves_withheld(view: device_view.View, way: Way) -> bool:
    """Return whether enough cards of each mode stay untouched, or none of them was touched."""
    touched = {thing.card.uuid for given in way for thing in given.things}
    for mode in itertools.product((False, True), repeat=2):
        unused = {
            card.uuid
            for card in view.device.cards
            if card.trouble is None and (card.mig, card.replicas > 1) == mode and view.unused(card)
        }
        if unused & touched and len(unused - touched) < view.withheld:
            return False
    return True


def in_scope(view: device_view.View, request: requests.DeviceRequest, way: Way) -> bool:
    """Return whether the cards sit as close as they must."""
    grouping, topology = request.grouping, view.device.topology
    order = in_order(view)
    slots = {order.index(thing.card) for given in way for thing in given.things if thing.card.type == "gpu"}
    if not in_partition(view, request, way, slots):
        return False
    if not slots or not grouping.required or grouping.scope in {None, Scope.NODE}:
        return True
    if grouping.scope is Scope.DEVICE:
        return len(slots) == 1
    if grouping.scope is not Scope.NVLINK:
        mask = node_topology.mask_of(slots)
        return any(mask & ~group == 0 for group in dict(topology.groups).get(grouping.scope, ()))
    if max(slots) >= topology.size:
        return False
    whole = node_topology.mask_of(whole_slots(view, way))
    masks = {part.mask for part in topology.partitions if part.size == whole_count(request)}
    joined = all(linked(topology, a, b) for a, b in itertools.combinations(slots, 2))
    return joined and (not masks or whole in masks)


def in_partition(view: device_view.View, request: requests.DeviceRequest, way: Way, slots: set[int]) -> bool:
    """Return whether the whole cards are a partition, where they must be one."""
    grouping, topology, count = request.grouping, view.device.topology, whole_count(request)
    if not count or (grouping.partition is None and not view.honors_partitions):
        return True
    table = [part for part in topology.partitions if part.size == count]
    if grouping.partition is PartitionChoice.RESTRICTED:
        table = [part for part in table if part.score == max(one.score for one in table)]
    if topology.partitions or grouping.ring_bandwidth:
        masks = {part.mask for part in table if part.bandwidth >= grouping.ring_bandwidth}
        return node_topology.mask_of(whole_slots(view, way)) in masks
    narrow = grouping.required and grouping.scope in {Scope.NUMA, Scope.PCIE, Scope.DEVICE}
    known = max(slots) < topology.size
    return known and not narrow and all(linked(topology, a, b) for a, b in itertools.combinations(slots, 2))


def linked(topology: node_topology.NodeTopology, a: int, b: int) -> bool:
    """Return whether two slots are joined by NVLink."""
    ring = any(part.mask >> a & part.mask >> b & 1 for part in topology.partitions)
    return ring or topology.worth[a][b] >= link_worths.NVLINK


def whole_count(request: requests.DeviceRequest) -> int:
    """Return how many whole cards are needed at the same time at most."""
    counts = [
        [ask.count for ask in container.asks if isinstance(ask, requests.Gpus) and is_whole(ask)]
        for container in request.containers
    ]
    return max(sum(sum(counts[at]) for at in phase) for phase in phases(request))


def whole_slots(view: device_view.View, way: Way) -> frozenset[int]:
    """Name the slots that are taken whole."""
    order = in_order(view)
    return frozenset(
        order.index(thing.card) for given in way if is_whole(given.ask) for thing in given.things
    )


def in_order(view: device_view.View) -> list[PhysicalDevice]:
    """List the cards by slot."""
    return sorted(view.device.cards, key=lambda card: (card.minor, card.uuid))


# ---------------------------------------------------------------- together


def type_of(ask: requests.Ask) -> str:
    """Return the type of device that an ask is for, if it leads or follows: none for every device."""
    if isinstance(ask, requests.OtherDevices):
        return "" if ask.every else ask.type
    return "gpu"


def leader(request: requests.DeviceRequest) -> str:
    """Name the type that leads, if any does."""
    joint = request.grouping.joint
    asked = {type_of(ask) for container in request.containers for ask in container.asks}
    first = "gpu" if "gpu" in joint else next(iter(joint), "")
    return first if len(asked & set(joint)) > 1 and first in asked else ""


def follows(request: requests.DeviceRequest, ask: requests.Ask) -> bool:
    """Return whether an ask must sit beside what leads."""
    head, own = leader(request), type_of(ask)
    return bool(head) and own not in {head, "gpu"} and own in request.grouping.joint


def roots_to_follow(request: requests.DeviceRequest, owner: int, way: Way) -> set[str | None]:
    """Name the roots of a container's leading devices, or of all of them where it has none."""
    led = [given for given in way if type_of(given.ask) == leader(request)]
    own = [given for given in led if given.owner == owner]
    return {thing.card.root for given in own or led for thing in given.things}


def is_joint(request: requests.DeviceRequest, way: Way) -> bool:
    """Return whether what follows covers exactly the roots of what leads."""
    for given in way:
        roots = roots_to_follow(request, given.owner, way)
        own = {thing.card.root for thing in given.things}
        if follows(request, given.ask) and (own != roots or None in roots):
            return False
    return True
