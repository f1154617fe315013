"""The search for the devices of one pod on one node.

An answer is found whenever there is one and the effort suffices. What a pod takes whole is chosen as a set,
and the sets are tried in the order of their worth; around each, shares, instances, replicas and jointly
asked devices are placed by the exact search. So the best set of cards wins for which the rest of the pod
still fits. When the first set fails, the search asks once whether any cards at all would do: if not, no
other set is tried, and if so, that answer is kept for the case that the sets are too many to try. Types of
device that have nothing to do with the cards are placed by themselves.

Where init containers could not borrow all they need, the search is repeated with fewer
and fewer cards allowed, because a pod keeps every card for as long as it lives.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Final

from berth_crds.vocabulary import Scope
from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import (
    device_facts,
    device_view,
    grants,
    packing,
    packing_problems,
    preferences,
    requests,
    scopes,
    search_effort,
    simple,
)
from berth_operator.scheduling.devices.search_effort import Effort

# A packing problem costs about as much to build as so many steps of solving it.
STEPS_TO_BUILD: Final = 20
ASKED_PER_STEP: Final = 4
# Holding a card less is worth a look, not a long search.
STEPS_TO_SAVE: Final = 2_000
# Replicas and instances are placed one by one; a pod that asks for more of them is not searched for.
MOST_PIECES: Final = 400
NOWHERE: Final = scopes.Choice(0, 0)


def find(
    view: device_view.View, request: requests.DeviceRequest, effort: Effort, *, first_slot: int | None = None
) -> tuple[decisions.Grant, ...] | None:
    """Find devices for all containers of a pod, or None; `effort` tells whether a None was cut short."""
    if not view.in_service and request.need.any_device:
        return None
    if (ask := simple.ask_of(request)) is not None:
        return simple.find(view, request, ask, effort=effort, first_slot=first_slot)
    return search(view, request, effort)


def search(
    view: device_view.View, request: requests.DeviceRequest, effort: Effort
) -> tuple[decisions.Grant, ...] | None:
    """Find devices by the exact search, whether or not there is a shorter way."""
    if _pieces(request) > MOST_PIECES or effort.cut_short:
        effort.left = search_effort.SPENT
        return None
    problem = packing_problems.NodeProblem(view, request)
    effort.spend(steps_to_read(view, request))
    if not problem.is_read(effort):
        return None
    solved = []
    for types in problem.types_together:
        if (found := _solve(problem, types, effort)) is None:
            return None
        if device_facts.GPU in types and _borrows(request):
            found = _save_cards(problem, types, found, effort)
        solved.append(found)
    return grants.grants_of(problem, solved)


def steps_to_read(view: device_view.View, request: requests.DeviceRequest) -> int:
    """Return how many steps it costs to ask each device of a node for each thing that is asked."""
    asks = sum(len(container.asks) for container in request.containers)
    return asks * len((*view.device.cards, *view.device.others)) // ASKED_PER_STEP


def _pieces(request: requests.DeviceRequest) -> int:
    asks = (ask for container in request.containers for ask in container.asks)
    return sum(ask.count for ask in asks if isinstance(ask, requests.Replicas | requests.Instances))


def _solve(
    problem: packing_problems.NodeProblem, types: frozenset[str], effort: Effort
) -> grants.Solved | None:
    """Place everything of some types that belong together."""
    if any(len(item.needs) < item.count for item in problem.items if problem.type_of(item) in types):
        return None
    table = _Table(problem, types, effort)
    if device_facts.GPU not in types:
        return table.attempt(NOWHERE, Scope.NODE)
    for scope in scopes.tried(problem.selectable, problem.request.grouping):
        if (found := table.within(scope)) is not None or effort.cut_short:
            return found
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class _Table:
    """What stays the same while one set of cards after the other is tried."""

    problem: packing_problems.NodeProblem
    types: frozenset[str]
    effort: Effort
    limits: tuple[packing.Limit, ...] = ()

    def attempt(self, choice: scopes.Choice, scope: Scope) -> grants.Solved | None:
        """Place everything with these cards."""
        self.effort.spend(STEPS_TO_BUILD + len(self.problem.items) // ASKED_PER_STEP)
        problem = self.problem.packing_problem(self.types, choice, self.limits)
        state = packing.solve(problem, self.effort)
        return None if state is None else grants.Solved(problem, state, scope)

    def within(self, scope: Scope) -> grants.Solved | None:
        """Try the sets of whole cards that a scope allows, the best first."""
        selectable, count = self.problem.selectable, self.problem.request.need.whole_cards
        # What any cards of a group would allow, asked when the first set of the group has failed.
        spare: dict[int, grants.Solved | None] = {}
        able = {
            group for group in _groups(self.problem, scope) if (group & selectable.pool).bit_count() >= count
        }
        for choice in _choices(self.problem, scope, self.effort):
            hopeless = choice.group in spare and spare[choice.group] is None
            found = None if hopeless else self.attempt(choice, scope)
            if found is not None:
                return found
            self.effort.spend(1)
            if choice.group not in spare:
                anywhere = choice._replace(whole=selectable.pool & choice.group)
                spare[choice.group] = self.attempt(anywhere, scope) if count else None
            if self.effort.cut_short or (able <= spare.keys() and not any(spare.values())):
                break
        if scopes.bound_to_table(selectable, scope, count) or self.problem.request.grouping.cards_first:
            return None
        return next((one for one in spare.values() if one is not None), None)


def _choices(problem: packing_problems.NodeProblem, scope: Scope, effort: Effort) -> Iterator[scopes.Choice]:
    """Yield the sets of whole cards and the groups to keep to, the best first."""
    selectable, count = problem.selectable, problem.request.need.whole_cards
    if not count:
        return (scopes.Choice(0, group) for group in _groups(problem, scope))
    if selectable.free.bit_count() - problem.view.withheld < count:
        return iter(())
    pools = preferences.pools(problem.view, problem.cards, selectable.pool, count)
    choices = itertools.chain.from_iterable(
        scopes.choices(selectable._replace(pool=pool), scope, count, effort) for pool in pools
    )
    return scopes.best_connected(selectable, choices) if problem.request.grouping.cards_first else choices


def _groups(problem: packing_problems.NodeProblem, scope: Scope) -> list[int]:
    """Order the groups of a scope: the one with fewest unused cards first."""
    around = scopes.groups(problem.selectable.topology, scope, problem.selectable.everything)
    return sorted(around, key=lambda group: ((group & problem.selectable.free).bit_count(), group))


# ---------------------------------------------------------------- holding no more than needed


def _borrows(request: requests.DeviceRequest) -> bool:
    """Return whether init containers should rather borrow than take more; spread replicas want many cards."""
    asks = [ask for container in request.containers if not container.runs for ask in container.asks]
    spread = request.grouping.spread_replicas and any(isinstance(ask, requests.Replicas) for ask in asks)
    return bool(asks) and not spread


def _save_cards(
    problem: packing_problems.NodeProblem, types: frozenset[str], found: grants.Solved, effort: Effort
) -> grants.Solved:
    """Try to do with as few cards as the running containers take alone, else with one more, and so on.

    Where the effort ends meanwhile, what was found holds: that is no reason to have found nothing.
    """
    most = min(STEPS_TO_SAVE, max(effort.left, 0))
    mine = Effort(most, effort.expired)
    fewer = _with_fewer(problem, types, found, mine)
    effort.left -= min(most - mine.left, effort.left)
    return found if fewer is None else fewer


def _with_fewer(
    problem: packing_problems.NodeProblem, types: frozenset[str], found: grants.Solved, effort: Effort
) -> grants.Solved | None:
    running = tuple(container for container in problem.request.containers if container.runs)
    alone = _cards_for(problem, dataclasses.replace(problem.request, containers=running), effort)
    tries = (
        _Table(problem, types, effort, (packing.Limit(problem.selectable.everything, most),)).within(
            found.scope
        )
        for most in range(max(alone, 1), _cards_in(problem, found))
        if not effort.cut_short
    )
    return next((fewer for fewer in tries if fewer is not None), None)


def _cards_for(problem: packing_problems.NodeProblem, request: requests.DeviceRequest, effort: Effort) -> int:
    """Count the cards that another request to the same node would take."""
    other = packing_problems.NodeProblem(problem.view, request)
    together = next((types for types in other.types_together if device_facts.GPU in types), None)
    found = _solve(other, together, effort) if together else None
    return _cards_in(problem, found) if found else 0


def _cards_in(problem: packing_problems.NodeProblem, solved: grants.Solved) -> int:
    return (solved.state.held & problem.selectable.everything).bit_count()
