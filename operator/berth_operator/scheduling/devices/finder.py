"""The search for the devices of one pod on one node.

An answer is found whenever there is one. What a pod takes whole is chosen as a set, and
the sets are tried in the order of their worth; around each, shares, instances, replicas
and jointly asked devices are placed by the exact search. So the best set of cards wins
for which the rest of the pod still fits. Types of device that have nothing to do with
the cards are placed by themselves.

Where init containers could not borrow all they need, the search is repeated with fewer
and fewer cards allowed, because a pod keeps every card for as long as it lives.
"""

import dataclasses
from collections.abc import Iterator
from typing import Final

from berth_crds.vocabulary import Scope
from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import (
    boards,
    facts,
    grants,
    orders,
    packing,
    puzzles,
    requests,
    scopes,
    simple,
    views,
)

# A puzzle costs about as much to pose as so many steps of solving it.
STEPS_TO_POSE: Final = 20
NOWHERE: Final = scopes.Choice(0, 0)
# Holding a card less is worth a look, not a long search.
STEPS_TO_SAVE: Final = 5_000


def find(
    view: views.View,
    request: requests.Request,
    effort: packing.Effort,
    *,
    prefer: orders.Prefer = orders.Prefer.PACK,
    first: int | None = None,
) -> tuple[decisions.Grant, ...] | None:
    """Find devices for all containers of a pod, or None; `effort` tells whether a None was cut short."""
    if not view.open:
        return None
    ask = simple.ask_of(request)
    if ask is not None:
        return simple.find(view, request, ask, prefer=prefer, first=first)
    return search(view, request, effort, prefer=prefer)


def search(
    view: views.View, request: requests.Request, effort: packing.Effort, *, prefer: orders.Prefer
) -> tuple[decisions.Grant, ...] | None:
    """Find devices by the exact search, whether or not there is a shorter way."""
    desk = puzzles.read_desk(view, request, prefer)
    solved = []
    for types in desk.parties:
        found = _solve(desk, types, effort)
        if found is None:
            return None
        solved.append(found)
    return grants.deal(desk, solved)


def _solve(desk: puzzles.Desk, types: frozenset[str], effort: packing.Effort) -> grants.Solved | None:
    """Place everything of some types that belong together."""
    if any(len(item.needs) < item.count for item in desk.items if desk.type_of(item) in types):
        return None
    choices = _choices(desk, types) if facts.GPU in types else iter((NOWHERE,))
    for choice in choices:
        puzzle = desk.pose(types, choice)
        effort.left -= STEPS_TO_POSE
        state = packing.solve(puzzle, effort)
        if state is not None:
            return puzzle, _saving(desk, puzzle, state)
        if effort.spent:
            return None
    return None


def _choices(desk: puzzles.Desk, types: frozenset[str]) -> Iterator[scopes.Choice]:
    """Walk over the sets of whole cards and the groups to keep to, the best first."""
    field, count = desk.field, desk.request.need.whole
    if count and field.free.bit_count() - desk.view.withheld < count:
        return
    for scope in scopes.ladder(desk.request.manner):
        if not count:
            yield from (scopes.Choice(0, group) for group in _groups(desk, scope))
            continue
        yield from scopes.choices(field, scope, count)
        if _may_need_more(desk, types) and not scopes.bound_to_table(field.board, scope, count):
            yield from (scopes.Choice(field.pool & group, group) for group in _groups(desk, scope))


def _may_need_more(desk: puzzles.Desk, types: frozenset[str]) -> bool:
    """Tell whether a pod may have to take more whole cards than it ever needs at the same time.

    An init container can borrow the cards of those that run later, except where it must
    sit beside other devices than they do.
    """
    return len(types) > 1 and not all(container.runs for container in desk.request.containers)


def _groups(desk: puzzles.Desk, scope: Scope) -> list[int]:
    """Order the groups of a scope: the one with fewest unused cards first, or last when spreading."""
    around = scopes.groups(desk.field.board, scope, desk.field.everything)
    sign = -1 if desk.prefer is orders.Prefer.SPREAD else 1
    return sorted(around, key=lambda group: (sign * (group & desk.field.free).bit_count(), group))


def _saving(desk: puzzles.Desk, puzzle: packing.Puzzle, state: packing.State) -> packing.State:
    """Try to do with fewer cards, where init containers hold some that nobody else does."""
    cards = desk.field.everything
    if _spreads_replicas(desk.request):
        return state
    running = _held_by_running(desk, puzzle, state)
    for most in range((running & cards).bit_count(), (state.held & cards).bit_count()):
        limits = (*puzzle.limits, packing.Limit(cards, most))
        fewer = dataclasses.replace(puzzle, limits=limits)
        found = packing.solve(fewer, packing.Effort(STEPS_TO_SAVE))
        if found is not None:
            return found
    return state


def _held_by_running(desk: puzzles.Desk, puzzle: packing.Puzzle, state: packing.State) -> int:
    done = zip(puzzle.items, state.chosen, strict=True)
    running = (chosen for item, chosen in done if desk.request.containers[item.owner].runs)
    return boards.mask_of(puzzle.spots[at].device for chosen in running for at in chosen)


def _spreads_replicas(request: requests.Request) -> bool:
    """Tell whether some init container prefers many cards to few."""
    asks = (ask for container in request.containers if not container.runs for ask in container.asks)
    return request.manner.spread_replicas and any(isinstance(ask, requests.Replicas) for ask in asks)
