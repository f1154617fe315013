"""The smallest set of changes that lets a pod in: one change where one does, else two.

A change of the pod is put to all nodes, because it is worth more the more of them it opens.
A change of a node is tried on the nearest nodes; for each kind the first that helps is enough
to know what would. Only where no single change helps are two tried together.
"""

import bisect
import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from berth_operator.scheduling.changes import Change, Option, Situation
from berth_operator.scheduling.constraints import registry
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.what_if import budget, evictions, trials
from berth_operator.scheduling.what_if.node_survey import NodeSurvey

Shortfalls = Mapping[int, allocator.Shortfall]  # What a search on some nodes showed, by row.
# Reasons that a repair of the node alone can lift, so that a node of each is tried.
REPAIRABLE = (Reason.SILENT, Reason.SOURCE_FAILED, Reason.UNSCHEDULABLE)


@dataclasses.dataclass(frozen=True, slots=True)
class Advice:
    """Changes that together let the pod in, and what it asks after them.

    So many nodes would take it then, or more where that is not `exact`; `example` is the first
    of them by name.
    """

    changes: tuple[Change, ...]
    request: requests.Request
    demand: facts.Demand
    example: str
    nodes: int = 1
    exact: bool = False

    @property
    def size(self) -> float:
        """How much is changed, for comparison with other advice."""
        return sum(change.size for change in self.changes)

    @property
    def of_pod(self) -> bool:
        """Whether only the pod changes."""
        return not any(change.node for change in self.changes)


def in_order(advice: Iterable[Advice]) -> tuple[Advice, ...]:
    """Return advice in order, the smallest first.

    2 of 8 GiB are smaller than 1 of 2 cards. A whole node that comes back and a whole
    condition that goes are as large as all of it; a preference that leaves the pod all it asks
    for comes before the loss of more than half. What is equal keeps the order in which it was
    found.
    """
    ranks = {one: [change.rank for change in one.changes] for one in advice}
    return tuple(sorted(ranks, key=lambda one: (round(one.size, 6), len(one.changes), ranks[one])))


def single(survey: NodeSurvey, shortfalls: Shortfalls) -> tuple[Advice, ...]:
    """Return all single changes that let the pod in: of each kind one of a node, and all of the pod."""
    return in_order([*_of_nodes(survey, shortfalls), *_of_the_pod(survey, shortfalls)])


def _of_the_pod(survey: NodeSurvey, shortfalls: Shortfalls) -> Iterator[Advice]:
    for option in registry.relaxations(survey.request, survey.query, tuple(shortfalls.values())):
        advice = _put_to_all_nodes(survey, option)
        if advice is not None:
            yield advice


def _put_to_all_nodes(survey: NodeSurvey, option: Option) -> Advice | None:
    """Return the smallest size of a change of the pod that opens a node, and how many it opens."""
    pod = Situation(survey.request, survey.demand)
    answer = functools.cache(lambda change: survey.feasibility.nodes(change.apply(pod)))
    change = smallest(option, lambda change: bool(answer(change).rows))
    if change is None:
        return None
    found, after = answer(change), change.apply(pod)
    example = survey.row(found.rows[0]).name
    return Advice((change,), after.request, after.demand, example, len(found.rows), found.exact)


def _of_nodes(survey: NodeSurvey, shortfalls: Shortfalls) -> Iterator[Advice]:
    tried: collections.Counter[object] = collections.Counter()
    near = [survey.nearest(survey.saying(frozenset({reason})))[: budget.NODES_TRIED] for reason in REPAIRABLE]
    rows = dict.fromkeys([*survey.nearest()[: budget.NODES_DIAGNOSED], *itertools.chain(*near)])
    for row in rows:
        before = trials.situation(survey, row)
        options = [*registry.remedies(before, shortfalls.get(row)), *evictions.remedies(before)]
        for option in [one for one in options if one.required] or options:
            kind = option.sizes[0].kind
            if tried[kind] < budget.NODES_TRIED:
                tried[kind] += 1
                advice = _tried(survey, row, before, [option])
                if advice is not None:
                    tried[kind] = budget.NODES_TRIED
                    yield advice


def several(survey: NodeSurvey, rows: Iterable[int], shortfalls: Shortfalls) -> tuple[Advice, ...]:
    """Return the smallest two changes, or the smallest one, that let the pod in on one of these nodes."""
    for row in itertools.islice(rows, budget.NODES_TRIED_TWICE):
        found = next(filter(None, (_sets(survey, row, shortfalls, size) for size in (1, 2))), ())
        if found and not survey.budget.exhausted:
            return (min(found, key=lambda one: round(one.size, 6)),)
    return ()


def _sets(survey: NodeSurvey, row: int, shortfalls: Shortfalls, size: int) -> list[Advice]:
    """Return all sets of so many changes that let the pod in on one node."""
    before, known = trials.situation(survey, row), shortfalls.get(row)
    query = Query(survey.inventory, np.array([row]), survey.query.question)
    options = [
        *registry.remedies(before, known),
        *registry.relaxations(survey.request, query, [known] if known else []),
        *evictions.remedies(before),
    ]
    required = [one for one in options if one.required]
    others = [one for one in options if not one.required]
    more = itertools.combinations(others, size - len(required)) if len(required) <= size else ()
    found = (_tried(survey, row, before, [*required, *some]) for some in more)
    return [one for one in found if one is not None]


def _tried(survey: NodeSurvey, row: int, before: Situation, options: Sequence[Option]) -> Advice | None:
    """Return the smallest sizes of some changes that together let the pod in on one node, if they do."""

    def helps(changes: Iterable[Change]) -> bool:
        return trials.fits(survey, _after(before, changes))

    chosen = [option.sizes[-1] for option in options]
    if not helps(chosen):
        return None
    for number, option in enumerate(options):
        chosen[number] = smallest(option, _beside(chosen, number, helps)) or chosen[number]
    if len(chosen) == 1 and isinstance(chosen[0], evictions.EndPods):
        chosen = [evictions.with_devices(survey, row, chosen[0])]
    if survey.budget.exhausted:
        return None  # Where it was spent meanwhile, more might be proposed than is needed.
    after = _after(before, chosen)
    return Advice(tuple(chosen), after.request, after.demand, before.node.name)


def _beside(
    chosen: Sequence[Change], number: int, helps: Callable[[Iterable[Change]], bool]
) -> Callable[[Change], bool]:
    """Return whether a change helps in the place of one of those that are chosen."""
    return lambda change: helps([*chosen[:number], change, *chosen[number + 1 :]])


def _after(before: Situation, changes: Iterable[Change]) -> Situation:
    return functools.reduce(lambda situation, change: change.apply(situation), changes, before)


def smallest(option: Option, helps: Callable[[Change], bool]) -> Change | None:
    """Return the smallest size of a change that helps, without the parts that are not needed."""
    sizes = option.sizes
    if not option.nested:
        return next(filter(helps, sizes), None)
    if not helps(sizes[-1]):
        return None
    change = sizes[bisect.bisect_left(sizes, x=True, hi=len(sizes) - 1, key=helps)]
    for part in change.parts[:-1]:
        fewer = change.only([one for one in change.parts if one is not part])
        if helps(fewer):
            change = fewer
    return change
