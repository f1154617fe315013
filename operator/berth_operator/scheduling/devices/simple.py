"""The short way for what most pods ask: whole cards, or a share of one card, for one container.

The answer is the one that the exact search would give; it only gets there without
building a packing problem. Which slot a share starts on may have been decided already, when all
nodes were compared; such a slot is checked and used.
"""

import itertools
from collections.abc import Iterator

from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import (
    device_view,
    node_topology,
    packing_problems,
    preferences,
    requests,
    scopes,
    verdicts,
)
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.devices.search_effort import Effort


def ask_of(request: requests.DeviceRequest) -> requests.Gpus | None:
    """Return the only ask of a request that needs no search; of whole cards, sets are compared."""
    ask = requests.only_ask([one.asks for one in request.containers])
    return ask if ask is not None and (ask.is_whole or not request.grouping.restricts_sets) else None


def find(
    view: device_view.View,
    request: requests.DeviceRequest,
    ask: requests.Gpus,
    *,
    effort: Effort,
    first_slot: int | None,
) -> tuple[decisions.Grant, ...] | None:
    """Find cards for a simple request; `effort` tells whether a None was cut short."""
    cards = packing_problems.in_order(view.device.cards)
    if ask.is_whole:
        chosen = _whole_cards(view, cards, request, ask.count, effort)
    else:
        chosen = _card_for_share(view, cards, request, ask, first_slot)
    if chosen is None:
        return None
    container = request.containers[0]
    shares = tuple(_share(view, cards[slot], ask) for slot in node_topology.slots(chosen))
    return (decisions.Grant(container.name, shares, container.runs),)


def _share(view: device_view.View, card: PhysicalDevice, ask: requests.Gpus) -> decisions.Share:
    memory = min(ask.bytes_of(card.memory), view.free_memory(card))
    limit = view.recorded_limit(ask.core, whole=ask.is_whole)
    return decisions.Share(card.uuid, card.minor, ask.core, memory, card_memory=card.memory, core_limit=limit)


def _whole_cards(
    view: device_view.View,
    cards: tuple[PhysicalDevice, ...],
    request: requests.DeviceRequest,
    count: int,
    effort: Effort,
) -> int | None:
    selectable = packing_problems.selectable_cards_of(view, cards, request)
    if selectable.free.bit_count() - view.withheld < count:
        return None
    choices_of_cards = [selectable]
    if view.loads_by_uuid:
        pools = preferences.pools(view, cards, selectable.pool, count)
        choices_of_cards = [selectable._replace(pool=pool) for pool in pools]
    for scope in scopes.tried(selectable, request.grouping):
        for one in choices_of_cards:
            if (chosen := scopes.best(one, scope, count, effort)) is not None:
                return chosen
    return None


def _card_for_share(
    view: device_view.View,
    cards: tuple[PhysicalDevice, ...],
    request: requests.DeviceRequest,
    ask: requests.Gpus,
    first_slot: int | None,
) -> int | None:
    """Judge the cards in the order of preference and take the first that will do."""
    may_start = not view.withheld or _unused(view, cards) > view.withheld
    given = () if first_slot is None or first_slot >= len(cards) else (first_slot,)
    for slot in itertools.chain(given, _by_preference(view, cards, ask)):
        card = cards[slot]
        if verdicts.reason_against(view, card, ask, request.conditions) is None and (
            may_start or not view.unused(card)
        ):
            return 1 << slot
    return None


def _by_preference(
    view: device_view.View, cards: tuple[PhysicalDevice, ...], ask: requests.Gpus
) -> Iterator[int]:
    """Yield the slots whose card has room, the preferred first; they are ranked once the first is asked for.

    The last entry of a rank is the slot, so that no two are equal.
    """
    ranks: list[tuple[int, int, int, int]] = []
    for slot, card in enumerate(cards):
        used = view.used.get(card.uuid, device_view.UNUSED)
        # More may be held than there is. A share that asks for none of that still fits.
        core, memory = max(0, view.core_limit - used.core), max(0, card.memory - used.memory)
        need = ask.least_of(card.memory)
        if core < ask.core or memory < need:
            continue
        after = preferences.left_over((core, memory), (ask.core, need), card.memory)
        ranks.append((view.load_of(card.uuid), view.unused(card), after, slot))
    yield from (slot for *_, slot in sorted(ranks))


def _unused(view: device_view.View, cards: tuple[PhysicalDevice, ...]) -> int:
    return packing_problems.read_selectable_cards(view, cards, requests.ANY_CARD).free.bit_count()
