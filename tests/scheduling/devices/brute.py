"""A second opinion on placements: naive, exhaustive, and written without a look at the first.

A way to serve a pod is a list of things for each ask: a card, an instance of a card, a
replica, a device with or without one of its functions. All ways are listed and each is
held against the rules as a whole. It is far too slow for anything but tiny nodes.
"""

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from berth_crds import catalog
from berth_crds.vocabulary import Scope
from berth_operator.scheduling.devices import device_view, facts, node_topology, requests


class Thing(NamedTuple):
    """Something given to an ask: a device, and which part of it where it has parts."""

    card: facts.Card
    part: str = ""


class Given(NamedTuple):
    """What one ask of one container got."""

    owner: int
    ask: requests.Ask
    things: tuple[Thing, ...]


Way = tuple[Given, ...]


def ways(view: device_view.View, request: requests.Request) -> Iterator[Way]:
    """List all ways to serve a request that break no rule."""
    asks = [(owner, ask) for owner, container in enumerate(request.containers) for ask in container.asks]
    # What follows is chosen last, because how many are needed depends on what leads.
    asks.sort(key=lambda one: is_follower(request, one[1]))
    for way in _extend(view, request, asks, ()):
        if allowed(view, request, way):
            yield way


def _extend(
    view: device_view.View, request: requests.Request, asks: list[tuple[int, requests.Ask]], way: Way
) -> Iterator[Way]:
    if len(way) == len(asks):
        yield way
        return
    owner, ask = asks[len(way)]
    for things in options(view, request, owner, ask, way):
        yield from _extend(view, request, asks, (*way, Given(owner, ask, things)))


def options(
    view: device_view.View, request: requests.Request, owner: int, ask: requests.Ask, way: Way
) -> Iterator[tuple[Thing, ...]]:
    """List what one ask could get, each thing judged by itself."""
    if isinstance(ask, requests.Gpus):
        cards = [card for card in view.device.cards if plain(card) and may(request, card)]
        yield from itertools.combinations(map(Thing, cards), ask.count)
    elif isinstance(ask, requests.Instances):
        things = [
            Thing(card, one.uuid)
            for card in view.device.cards
            if card.trouble is None and card.mig and card.replicas <= 1 and may(request, card)
            for one in card.instances
            if one.profile == ask.profile and may_instance(request, card, one)
        ]
        yield from itertools.combinations(things, ask.count)
    elif isinstance(ask, requests.Replicas):
        cards = [
            card
            for card in view.device.cards
            if card.trouble is None and not card.mig and card.replicas > 1 and may(request, card)
        ]
        yield from itertools.combinations_with_replacement(map(Thing, cards), ask.count)
    else:
        yield from options_of_parts(view, request, owner, ask, way)


def options_of_parts(
    view: device_view.View, request: requests.Request, owner: int, ask: requests.OtherDevices, way: Way
) -> Iterator[tuple[Thing, ...]]:
    """List the sets of devices for an ask of another type, with every choice of functions."""
    suiting = [one for one in view.device.others if suits(request, ask, one) and one.trouble is None]
    count = ask.count
    if ask.every:
        count = max(1, len(suiting))
    if follows(request, ask) and (roots := roots_to_follow(request, owner, way)):
        count = max(count, len(roots))
        suiting = [one for one in suiting if one.root is not None and one.root in roots]
    for chosen in itertools.combinations(suiting, count):
        yield from itertools.product(*(with_functions(request, ask, one) for one in chosen))


def suits(request: requests.Request, ask: requests.OtherDevices, one: facts.Card) -> bool:
    """Return whether a device is of the right kind."""
    wanted = set(request.grouping.function_labels)
    pins = {uuid for uuid in request.conditions.uuids if uuid.partition("-")[0] == ask.type}
    return (
        one.type == ask.type
        and (not pins or one.uuid in pins)
        and set(request.grouping.labels) <= set(one.labels)
        and (not wanted or any(wanted <= set(each.labels) for each in one.functions))
        and one.uuid not in request.conditions.avoid_uuids
    )


def with_functions(request: requests.Request, ask: requests.OtherDevices, one: facts.Card) -> list[Thing]:
    """List a device by itself, or with each of its functions where it comes with one."""
    labels = set(request.grouping.function_labels)
    if not one.functions or (ask.share == 100 and not labels):
        return [Thing(one)]
    return [Thing(one, each.bus) for each in one.functions if labels <= set(each.labels)]


def plain(card: facts.Card) -> bool:
    """Return whether a card is given out whole or by shares."""
    return card.trouble is None and not card.mig and card.replicas <= 1


def may(request: requests.Request, card: facts.Card) -> bool:
    """Return whether the conditions allow a card."""
    asked, key = request.conditions, catalog.model_key(card.model)
    if asked.models and key not in {catalog.model_key(model) for model in asked.models}:
        return False
    if key in {catalog.model_key(model) for model in asked.avoid_models}:
        return False
    if asked.pattern and not re.search(asked.pattern, catalog.normal_model(card.model), re.IGNORECASE):
        return False
    avoided = asked.avoid_pattern
    if avoided and re.search(avoided, catalog.normal_model(card.model), re.IGNORECASE):
        return False
    names = {card.uuid, *(one.uuid for one in card.instances)}
    if asked.uuids and not names & asked.uuids:
        return False
    return card.uuid not in asked.avoid_uuids and card.memory >= asked.memory_at_least


def may_instance(request: requests.Request, card: facts.Card, one: facts.Instance) -> bool:
    """Return whether the conditions allow an instance of a card that they allow."""
    asked = request.conditions
    return one.uuid not in asked.avoid_uuids and (
        not asked.uuids or bool({card.uuid, one.uuid} & asked.uuids)
    )


def amounts(request: requests.Request, way: Way) -> frozenset[tuple[str, str, str, int, int]]:
    """Return what each container gets of what, in percent and bytes."""
    sums: dict[tuple[str, str, str], tuple[int, int]] = {}
    for given in way:
        for thing in given.things:
            uuid, function = named(given.ask, thing)
            key = request.containers[given.owner].name, uuid, function
            core, memory = amount(given.ask, thing)
            before = sums.get(key, (0, 0))
            sums[key] = before[0] + core, before[1] + memory
    return frozenset((*key, *both) for key, both in sums.items())


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


def allowed(view: device_view.View, request: requests.Request, way: Way) -> bool:
    """Return whether a way breaks no rule."""
    return (
        view.open
        and all(phase_fits(view, phase, way) for phase in phases(request))
        and leaves_withheld(view, way)
        and in_scope(view, request, way)
        and is_joint(request, way)
    )


def phases(request: requests.Request) -> Iterator[set[int]]:
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


def card_fits(
    view: device_view.View,
    card: facts.Card,
    here: list[tuple[requests.Ask, str]],
) -> bool:
    """Hold what one card must give at one time against what is left of it."""
    used = view.used.get(card.uuid, device_view.Usage())
    named = [part for _, part in here if part]
    if len(named) != len(set(named)):
        return False
    if any(
        view.used.get(part, device_view.Usage()) != device_view.Usage() or part in view.functions
        for part in named
    ):
        return False
    if card.mig:
        return used == device_view.Usage()
    if card.replicas > 1:
        return replicas_in_use(card, used) + len(here) <= card.replicas
    if card.type != "gpu":
        return part_fits(view, card, [ask for ask, _ in here])
    return share_fits(view, card, used, [ask for ask, _ in here])


def share_fits(
    view: device_view.View, card: facts.Card, used: device_view.Usage, here: list[requests.Ask]
) -> bool:
    """Add up shares and whole cards."""
    core, memory = used.core, used.memory
    if any(view.used.get(one.uuid, device_view.Usage()) != device_view.Usage() for one in card.instances):
        return False
    for ask in here:
        assert isinstance(ask, requests.Gpus)
        if ask.core == 100 and ask.ratio == 100:
            if used != device_view.Usage() or len(here) > 1:
                return False
            continue
        if (ask.memory or ask.ratio) and not card.memory:
            return False
        core += ask.core
        memory += -(-card.memory * ask.ratio // 100) if ask.ratio else ask.memory
    return core <= 100 and memory <= card.memory if here and not is_whole(here[0]) else True


def is_whole(ask: requests.Ask) -> bool:
    """Return whether a whole card is asked for."""
    return isinstance(ask, requests.Gpus) and ask.core == 100 and ask.ratio == 100


def replicas_in_use(card: facts.Card, used: device_view.Usage) -> int:
    """Find how many replicas the holds amount to, by counting up."""
    count = used.pods
    core, memory = 100 // card.replicas, card.memory // card.replicas
    while (core and count * core < used.core) or (memory and count * memory < used.memory):
        count += 1
    return count


def part_fits(view: device_view.View, card: facts.Card, here: list[requests.Ask]) -> bool:
    """Add up the percents of another device."""
    used = view.used.get(card.uuid, device_view.Usage())
    busy = used != device_view.Usage() or any(one.bus in view.functions for one in card.functions)
    shares = [ask.share for ask in here if isinstance(ask, requests.OtherDevices)]
    if 100 in shares and busy:
        return False
    return used.core + sum(shares) <= 100


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


def in_scope(view: device_view.View, request: requests.Request, way: Way) -> bool:
    """Return whether the cards sit as close as they must."""
    grouping, board = request.grouping, view.device.board
    if not grouping.required or grouping.scope in {None, Scope.NODE}:
        return True
    order = in_order(view)
    slots = {order.index(thing.card) for given in way for thing in given.things if thing.card.type == "gpu"}
    if not slots:
        return True
    mask = sum(1 << at for at in slots)
    if grouping.scope is not Scope.NVLINK:
        return any(mask & ~group == 0 for group in dict(board.groups).get(grouping.scope, ()))
    if max(slots) >= board.size:
        return False
    count = whole_count(request)
    if count in {part.size for part in board.partitions}:
        whole = sum(1 << at for at in whole_slots(view, way))
        if whole not in {part.mask for part in board.partitions}:
            return False
    return all(linked(board, a, b) for a in slots for b in slots if a < b)


def linked(board: node_topology.NodeTopology, a: int, b: int) -> bool:
    """Return whether two slots are joined by NVLink."""
    ring = any(part.mask >> a & part.mask >> b & 1 for part in board.partitions)
    return ring or board.worth[a][b] >= node_topology.NVLINK_WORTH


def whole_count(request: requests.Request) -> int:
    """Return how many whole cards are needed at the same time at most."""
    return max(
        sum(
            ask.count for at in phase for ask in request.containers[at].asks if is_whole(ask) for ask in [ask]
        )
        for phase in phases(request)
    )


def whole_slots(view: device_view.View, way: Way) -> frozenset[int]:
    """Name the slots that are taken whole."""
    order = in_order(view)
    return frozenset(
        order.index(thing.card) for given in way if is_whole(given.ask) for thing in given.things
    )


def in_order(view: device_view.View) -> list[facts.Card]:
    """List the cards by slot."""
    return sorted(view.device.cards, key=lambda card: (card.minor, card.uuid))


# ---------------------------------------------------------------- together


def leader(request: requests.Request) -> str:
    """Name the type that leads, if any does."""
    joint = request.grouping.joint
    asked = {
        ask.type if isinstance(ask, requests.OtherDevices) else "gpu"
        for container in request.containers
        for ask in container.asks
        if not (isinstance(ask, requests.OtherDevices) and ask.every)
    }
    first = "gpu" if "gpu" in joint else next(iter(joint), "")
    return first if len(asked & set(joint)) > 1 and first in asked else ""


def follows(request: requests.Request, ask: requests.Ask) -> bool:
    """Return whether an ask must sit beside what leads."""
    head = leader(request)
    return (
        isinstance(ask, requests.OtherDevices)
        and bool(head)
        and ask.type != head
        and ask.type in request.grouping.joint
        and not ask.every
    )


is_follower = follows


def roots_to_follow(request: requests.Request, owner: int, way: Way) -> set[str | None]:
    """Name the roots of a container's leading devices, or of all of them where it has none."""
    head = leader(request)
    led = [
        given
        for given in way
        if (given.ask.type if isinstance(given.ask, requests.OtherDevices) else "gpu") == head
        and not (isinstance(given.ask, requests.OtherDevices) and given.ask.every)
    ]
    own = [given for given in led if given.owner == owner]
    return {thing.card.root for given in own or led for thing in given.things}


def is_joint(request: requests.Request, way: Way) -> bool:
    """Return whether what follows covers exactly the roots of what leads."""
    for given in way:
        if follows(request, given.ask):
            roots = roots_to_follow(request, given.owner, way)
            if {thing.card.root for thing in given.things} != roots or None in roots:
                return False
    return True
