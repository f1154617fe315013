"""The short way for what most pods ask: whole cards, or a share of one card, for one container.

The answer is the one that the exact search would give; it only gets there without
building a puzzle. Which slot a share starts on may have been decided already, when all
nodes were compared; such a slot is checked and used.
"""

import dataclasses

from berth_crds.vocabulary import Scope
from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import (
    boards,
    facts,
    orders,
    puzzles,
    requests,
    scopes,
    verdicts,
    views,
)


def ask_of(request: requests.Request) -> requests.Gpus | None:
    """Give the only ask of a simple request, or None where the search is needed."""
    if len(request.containers) != 1 or len(request.containers[0].asks) != 1:
        return None
    ask = request.containers[0].asks[0]
    if not isinstance(ask, requests.Gpus) or ask.count < 1:
        return None
    free = not request.manner.required or request.manner.scope in {None, Scope.NODE}
    return ask if ask.whole or (ask.count == 1 and free) else None


def find(
    view: views.View,
    request: requests.Request,
    ask: requests.Gpus,
    *,
    prefer: orders.Prefer,
    first: int | None,
) -> tuple[decisions.Grant, ...] | None:
    """Find cards for a simple request."""
    cards = puzzles.in_order(view.device.cards)
    if ask.whole:
        chosen = _whole_cards(view, cards, request, ask.count)
    else:
        chosen = _card_for_share(view, cards, request, ask, prefer=prefer, first=first)
    if chosen is None:
        return None
    container = request.containers[0]
    shares = tuple(_share(cards[slot], ask) for slot in boards.slots(chosen))
    return (decisions.Grant(container.name, shares, container.runs),)


def _share(card: facts.Card, ask: requests.Gpus) -> decisions.Share:
    return decisions.Share(card.uuid, card.minor, ask.core, ask.bytes_of(card.memory))


def _whole_cards(
    view: views.View, cards: tuple[facts.Card, ...], request: requests.Request, count: int
) -> int | None:
    field = puzzles.read_field(view, cards, request.conditions)
    if field.free.bit_count() - view.withheld < count:
        return None
    found = (scopes.best(field, scope, count) for scope in scopes.ladder(request.manner))
    return next((chosen for chosen in found if chosen is not None), None)


def _card_for_share(
    view: views.View,
    cards: tuple[facts.Card, ...],
    request: requests.Request,
    ask: requests.Gpus,
    *,
    prefer: orders.Prefer,
    first: int | None,
) -> int | None:
    may_start = not view.withheld or _unused(view, cards) > view.withheld
    if first is not None and first < len(cards):
        given = _judged(view, cards[first], request, ask, may_start=may_start)
        if given is not None:
            return 1 << first
    # The last entry is the slot, so no two are equal and the lowest minor wins.
    able = [
        (*_rank(room, prefer), slot)
        for slot, card in enumerate(cards)
        if (room := _judged(view, card, request, ask, may_start=may_start)) is not None
    ]
    return 1 << min(able)[-1] if able else None


def _unused(view: views.View, cards: tuple[facts.Card, ...]) -> int:
    return puzzles.read_field(view, cards, requests.ANY_CARD).free.bit_count()


@dataclasses.dataclass(slots=True)
class _Room:
    """How empty a card is before and after, and whether nobody has started it."""

    before: int
    after: int
    new: bool


def _rank(room: _Room, prefer: orders.Prefer) -> tuple[int, ...]:
    return (-room.before,) if prefer is orders.Prefer.SPREAD else (room.new, room.after)


def _judged(
    view: views.View,
    card: facts.Card,
    request: requests.Request,
    ask: requests.Gpus,
    *,
    may_start: bool,
) -> _Room | None:
    """Say how well a share fits on a card, or None where it does not."""
    if verdicts.judge(view, card, ask, request.conditions) is not None:
        return None
    new = view.unused(card)
    if new and not may_start:
        return None
    room = view.free_core(card), view.free_memory(card)
    need = ask.core, ask.bytes_of(card.memory)
    before = orders.left_over(room, (0, 0), card.memory)
    return _Room(before, orders.left_over(room, need, card.memory), new)
