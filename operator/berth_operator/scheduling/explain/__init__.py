"""Why a pod does not fit, node by node and card by card, and what would have to change.

Every decision that finds no place has counts (`constraints.reason_counts`), of which `brief` makes
a sentence. `explain` finds out more, on request or when there is time: the reason of
each node, the verdict on each card of a few nodes or of all, which node comes nearest, and
which changes would make the pod fit. Each change was tried before it is proposed. The
inventory is read and never changed.

`what_if` surveys all nodes and finds the changes that help; `diagnosis` finds out what is wrong
on some of the nodes, and `nearest_nodes` which of them comes closest. `findings` are the values;
`phrases` and `sentences` put them into words, `tables` into a table.
"""

import dataclasses
from collections.abc import Callable

from berth_operator.scheduling import (
    existing_terms,
    known_models,
    namespace_quarantines,
    policy_rules,
    queued_pods,
)
from berth_operator.scheduling.devices import search_effort
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.scheduling.explain import diagnosis, findings, nearest_nodes, sentences, tables
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from berth_operator.scheduling.what_if import advice, explanation_budget, node_survey

Explanation = findings.Explanation
Finding = findings.Finding
Advice = advice.Advice

brief = sentences.brief
sentence = sentences.sentence
by_namespace = sentences.by_namespace
nearest_sentence = sentences.nearest_sentence
would_fit = sentences.would_fit
refusals = sentences.refusals
table = tables.table


def effort_outside_rounds(*, all_nodes: bool, expired: Callable[[], bool] | None = None) -> Effort:
    """Return the effort for an explanation that delays no round of decisions."""
    return Effort(explanation_budget.STEPS_FOR_ALL_NODES if all_nodes else search_effort.MOST_STEPS, expired)


def explain(
    search: Search,
    pod_info: queued_pods.PodInfo,
    *,
    policy: Policy,
    all_nodes: bool = False,
    effort: Effort | None = None,
) -> Explanation:
    """Explain why a pod finds no place, or on which nodes it finds none.

    `effort` bounds all searches and trials together: about a second without one, and twice
    that with `all_nodes`. Nodes that were not searched then are called undecided.
    1. Survey all nodes.  2. Diagnose some of them, or with `all_nodes` all.  3. Name the nearest.
    4. Try what would help: one change, else two.
    """
    budget = explanation_budget.ExplanationBudget(
        effort_outside_rounds(all_nodes=all_nodes) if effort is None else effort, unlimited_nodes=all_nodes
    )
    asking = existing_terms.with_terms_of_existing_pods(
        search.inventory.pods, policy_rules.apply(policy, pod_info)
    )
    asking = namespace_quarantines.with_quarantined_nodes(search.inventory.quarantines, asking)
    survey = node_survey.survey(search, asking, policy, budget)
    found = diagnosis.findings_of(survey)
    shortfalls = {survey.inventory.index[one.node]: one.shortfall for one in found if one.shortfall}
    total = int(survey.has_node.sum())
    explanation = Explanation(
        counts=survey.counts,
        nodes=found,
        total=total,
        nearest=nearest_nodes.find_nearest(found),
        advice=() if total > len(found) else advice.single_changes(survey, shortfalls),
        models=known_models.instead(survey.counts, survey.inventory, survey.request.conditions.uuids),
        core_limit=survey.request.grouping.core_limit
        if policy.oversale and survey.request.need.shares
        else 0,
    )
    if explanation.fits or explanation.advice or not found:
        return explanation
    return _without_single_change(survey, explanation, shortfalls)


def _without_single_change(
    survey: node_survey.NodeSurvey, explanation: Explanation, shortfalls: advice.Shortfalls
) -> Explanation:
    """Add all that is in the way of the nearest node, and two changes that help there."""
    near = nearest_nodes.with_obstacles(survey)
    if not near or survey.budget.exhausted:
        # What is in the way was perhaps not found out for all of them.
        return dataclasses.replace(explanation, cut=survey.budget.exhausted)
    (row, obstacles), nearest_ = near[0], explanation.nearest
    if len(obstacles) > 1 or (nearest_ is None and len(explanation.counts) > 1):
        nearest_ = findings.Nearest(survey.node(row).name, *survey.reason(row), (), whys=obstacles)
    one_or_two = advice.cheapest_of_one_or_two_changes(survey, [row for row, _ in near], shortfalls)
    found = () if one_or_two is None else (one_or_two,)
    return dataclasses.replace(
        explanation, nearest=nearest_, advice=found, cut=survey.budget.exhausted and not found
    )
