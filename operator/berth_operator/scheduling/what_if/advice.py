"""The changes that make a pod fit, the cheapest first: single ones where any helps, else two together.

A change of the pod is tried on all nodes by the filters, or by device search on a few, and the advice says
how many of them would take the pod then. A change of a node is tried on the nearest nodes, which are those
that need the least change, until one of its type helps: one example is enough. Only where no single change
helps are two tried together. A proposed change has variants, the cheapest first, such as to end one pod or
two; mostly they are cumulative, which means that each includes those before it. Which changes are proposed is
said by the constraints (`relaxations`, `remedies`), and by `victims`. The words of a change are its `clause`,
and `explain.sentences` puts them behind "Would fit if".
"""

import bisect
import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from berth_operator.scheduling import node_table
from berth_operator.scheduling.changes import Change, ProposedChange, RemovePods, Scenario
from berth_operator.scheduling.constraints import registry
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator
from berth_operator.scheduling.what_if import explanation_budget, trials, victims
from berth_operator.scheduling.what_if.node_survey import NodeSurvey

Shortfalls = Mapping[int, allocator.Shortfall]  # What is short on the nodes that were diagnosed, by row.
# Reasons that are lifted by repairing the node, whatever its pods: some nodes with each of them are tried.
# Its agent is silent, or the source of what the agent reads has failed, or its kubelet rejects the pods that
# it is given (quarantine), or people have cordoned it.
REPAIRABLE = (Reason.SILENT, Reason.SOURCE_FAILED, Reason.QUARANTINED, Reason.NODE_CORDONED)


@dataclasses.dataclass(frozen=True, slots=True)
class Advice:
    """Changes that together make the pod fit.

    `nodes` is how many nodes would take it then; there may be more where that is not `exact`.
    """

    changes: tuple[Change, ...]
    nodes: int = 1
    exact: bool = False

    @property
    def cost(self) -> float:
        """How much is given up, for comparison with other advice."""
        return sum(change.cost for change in self.changes)

    @property
    def changes_pod_only(self) -> bool:
        """Whether only the pod changes."""
        return all(change.of_pod for change in self.changes)


def cheapest_first(found: Iterable[Advice]) -> tuple[Advice, ...]:
    """Return advice by cost, then by the number of changes, then by their precedence.

    A cost is the fraction of the request that is given up: 2 of 8 GiB cost 0.25, 1 of 2 cards costs 0.5. To
    repair a node or to end pods costs 1. To free single devices costs their number, divided by the number
    of devices that the pod would get. A dropped condition costs 1; it costs 0.5 (`changes.CONDITION_COST`) if
    it only says how near devices must be or what to avoid, and less if a part of it stays. Advice of equal
    rank keeps its order; duplicates are dropped.
    """
    precedence = {advice: [change.precedence for change in advice.changes] for advice in found}

    def key(advice: Advice) -> tuple[object, ...]:
        return round(advice.cost, 6), len(advice.changes), precedence[advice]

    return tuple(sorted(precedence, key=key))


def single_changes(survey: NodeSurvey, shortfalls: Shortfalls) -> tuple[Advice, ...]:
    """Return the single changes that make the pod fit: all of the pod, and of nodes one of each type."""
    if survey.budget.exhausted:
        return ()  # No change could be tried, and to find out which there are takes time as well.
    return cheapest_first([*_node_changes(survey, shortfalls), *_pod_changes(survey, shortfalls)])


def _pod_changes(survey: NodeSurvey, shortfalls: Shortfalls) -> Iterator[Advice]:
    for proposal in registry.relaxations(survey.request, survey.query, tuple(shortfalls.values())):
        if survey.budget.exhausted:
            return  # A pod of many containers has hundreds of proposals, which take time even unchecked.
        if (advice := _try_on_all_nodes(survey, proposal)) is not None:
            yield advice


def _try_on_all_nodes(survey: NodeSurvey, proposal: ProposedChange) -> Advice | None:
    """Return the cheapest variant of a change of the pod that lets it in somewhere, and on how many nodes."""
    scenario = Scenario(survey.request, survey.demand)
    feasible = functools.cache(lambda change: survey.feasibility.feasible_nodes(change.apply(scenario)))
    change = cheapest_variant(proposal, lambda change: bool(feasible(change).rows))
    if change is None:
        return None
    found = feasible(change)
    return Advice((change,), len(found.rows), found.exact)


def _node_changes(survey: NodeSurvey, shortfalls: Shortfalls) -> Iterator[Advice]:
    trials_by_type: collections.Counter[Hashable] = collections.Counter()
    helped: set[Hashable] = set()
    for row in _rows_to_try(survey):
        before = trials.scenario_of(survey, row)
        survey.budget.spend_on_trial(before)  # Constraints read all pods of the node to propose something.
        if survey.budget.exhausted:
            return
        proposals = [*registry.remedies(before, shortfalls.get(row)), *victims.remedies(before)]
        # If some proposals are prerequisites, only they are tried: nothing else helps without them.
        prerequisites = [proposal for proposal in proposals if proposal.is_prerequisite]
        for proposal in prerequisites or proposals:
            change_type = proposal.variants[0].change_type
            if (
                change_type in helped
                or trials_by_type[change_type] == explanation_budget.MOST_NODES_PER_CHANGE
            ):
                continue
            trials_by_type[change_type] += 1
            if (advice := _try_on_node(survey, row, before, [proposal])) is not None:
                helped.add(change_type)
                yield advice


def _rows_to_try(survey: NodeSurvey) -> Iterable[int]:
    """Return the nearest nodes that one constraint alone blocks, the nearest of all, and a few to repair."""

    def nearest(most: int, among: node_table.Mask | None = None) -> Iterable[int]:
        found = (row for row in survey.nearest(among) if trials.can_be_tried(survey, row))
        return itertools.islice(found, most)

    near, to_repair = explanation_budget.MOST_NEAREST_NODES, explanation_budget.MOST_NODES_PER_CHANGE
    blocked_by_one = nearest(near, registry.blocked_by_one(survey.query))
    repairs = (nearest(to_repair, survey.nodes_with_reason(frozenset({one}))) for one in REPAIRABLE)
    return dict.fromkeys(itertools.chain(blocked_by_one, nearest(near), *repairs))


def cheapest_of_one_or_two_changes(
    survey: NodeSurvey, rows: Iterable[int], shortfalls: Shortfalls
) -> Advice | None:
    """Return the cheapest one or two changes that help, on the first of these nodes where they do.

    One change may help here that `single_changes` did not find, since that tries each type on few nodes only.
    """
    for row in itertools.islice(rows, explanation_budget.MOST_NODES_FOR_PAIRS):
        sets = (_helpful_combinations(survey, row, shortfalls, count) for count in (1, 2))
        found = next(filter(None, sets), ())
        if found and not survey.budget.exhausted:
            return cheapest_first(found)[0]
    return None


def _helpful_combinations(survey: NodeSurvey, row: int, shortfalls: Shortfalls, count: int) -> list[Advice]:
    """Return all sets of this many changes that make the pod fit on one node."""
    before, shortfall = trials.scenario_of(survey, row), shortfalls.get(row)
    query = Query(survey.inventory, np.array([row]), survey.query.signature)
    proposals = [
        *registry.remedies(before, shortfall),
        *registry.relaxations(survey.request, query, [shortfall] if shortfall else []),
        *victims.remedies(before),
    ]
    prerequisites = [proposal for proposal in proposals if proposal.is_prerequisite]
    others = [proposal for proposal in proposals if not proposal.is_prerequisite]
    more = itertools.combinations(others, count - len(prerequisites)) if len(prerequisites) <= count else ()
    found = (_try_on_node(survey, row, before, [*prerequisites, *some]) for some in more)
    return [advice for advice in found if advice is not None]


def _try_on_node(
    survey: NodeSurvey, row: int, before: Scenario, proposals: Sequence[ProposedChange]
) -> Advice | None:
    """Return the cheapest variants of some changes that together make the pod fit on one node, if they do."""

    def helps(changes: Iterable[Change]) -> bool:
        return trials.fits(survey, _with_changes(before, changes))

    # Start from the most far-reaching variant of each change. Where variants are not cumulative, this may
    # overlook that an earlier one helps.
    chosen = [proposal.variants[-1] for proposal in proposals]
    if not helps(chosen):
        return None
    for number, proposal in enumerate(proposals):
        found = cheapest_variant(proposal, _helps_as_replacement(chosen, number, helps), last_helps=True)
        chosen[number] = found or chosen[number]
    if len(chosen) == 1 and isinstance(chosen[0], RemovePods):
        chosen = [victims.freeing_devices_instead(survey, row, chosen[0])]
    if survey.budget.exhausted:
        return None  # The cheapest variants were perhaps not found.
    return Advice(tuple(chosen))


def _helps_as_replacement(
    chosen: Sequence[Change], number: int, helps: Callable[[Iterable[Change]], bool]
) -> Callable[[Change], bool]:
    """Return a function that tells whether a change helps in place of one of those that are chosen."""
    return lambda change: helps([*chosen[:number], change, *chosen[number + 1 :]])


def _with_changes(before: Scenario, changes: Iterable[Change]) -> Scenario:
    return functools.reduce(lambda scenario, change: change.apply(scenario), changes, before)


def cheapest_variant(
    proposal: ProposedChange, helps: Callable[[Change], bool], *, last_helps: bool = False
) -> Change | None:
    """Return the cheapest variant of a change that helps, without the parts that are not needed.

    The last one is not tried where it is known that it helps.
    """
    variants = proposal.variants
    if not proposal.cumulative:
        return next((one for one in variants if (last_helps and one is variants[-1]) or helps(one)), None)
    if not last_helps and not helps(variants[-1]):
        return None
    # Once a cumulative variant helps, all later ones do, so bisection finds the first.
    change = variants[bisect.bisect_left(variants, x=True, hi=len(variants) - 1, key=helps)]
    # Where variants have parts (`Change.parts`), each has one more than the variant before it. That one did
    # not help, so the last part is needed, at least until another one is dropped.
    return _minimized(change, change.parts[:-1], helps, needed=change.parts[-1:])


def _minimized(
    change: Change, untested: Sequence[Any], helps: Callable[[Change], bool], needed: Sequence[Any] = ()
) -> Change:
    """Drop these parts one after another, as long as the change still helps; others are known to be `needed`.

    Dropping one part can make another unnecessary that was needed before, so those that were needed before
    the last drop are tested once more. For example, an idle card may be withheld, because some pod with an
    invalid allocation may hold it (`withheld_cards`); one that is in use is not. If one of two pods on a card
    ends, there is room beside the other. If both end, that card is idle, and is withheld.
    """
    retest: Sequence[Any] = ()
    for part in untested:
        fewer = change.with_parts([one for one in change.parts if one is not part])
        if helps(fewer):
            change, retest = fewer, needed
        else:
            needed = (*needed, part)
    return _minimized(change, retest, helps) if retest else change
