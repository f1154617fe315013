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
    found = _solve_with(desk, types, effort, ())
    if found is None or facts.GPU not in types or not _borrows(desk.request):
        return found
    return _save_cards(desk, types, found)


def _solve_with(
    desk: puzzles.Desk, types: frozenset[str], effort: packing.Effort, limits: tuple[packing.Limit, ...]
) -> grants.Solved | None:
    if any(len(item.needs) < item.count for item in desk.items if desk.type_of(item) in types):
        return None
    choices = _choices(desk, types) if facts.GPU in types else iter((NOWHERE,))
    for choice in choices:
        effort.left -= STEPS_TO_POSE
        puzzle = desk.pose(types, choice, limits)
        state = packing.solve(puzzle, effort)
        if state is not None:
            return puzzle, state
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


def _borrows(request: requests.Request) -> bool:
    """Tell whether init containers should rather borrow than take more; spread replicas want many cards."""
    asks = [ask for container in request.containers if not container.runs for ask in container.asks]
    spread = request.manner.spread_replicas and any(isinstance(ask, requests.Replicas) for ask in asks)
    return bool(asks) and not spread


def _save_cards(desk: puzzles.Desk, types: frozenset[str], found: grants.Solved) -> grants.Solved:
    """Try to do with as few cards as the running containers take alone, else with one more, and so on."""
    everything = desk.field.everything
    running = tuple(container for container in desk.request.containers if container.runs)
    alone = _cards_for(desk, dataclasses.replace(desk.request, containers=running))
    effort = packing.Effort(STEPS_TO_SAVE)
    for most in range(max(alone, 1), (found[1].held & everything).bit_count()):
        fewer = _solve_with(desk, types, effort, (packing.Limit(everything, most),))
        if fewer is not None:
            return fewer
    return found


def _cards_for(desk: puzzles.Desk, request: requests.Request) -> int:
    """Count the cards that another request to the same node would take."""
    other = puzzles.read_desk(desk.view, request, desk.prefer)
    party = next((types for types in other.parties if facts.GPU in types), None)
    found = _solve(other, party, packing.Effort(STEPS_TO_SAVE)) if party else None
    return (found[1].held & desk.field.everything).bit_count() if found else 0
