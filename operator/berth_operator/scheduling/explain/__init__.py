"""Why a pod does not fit, node by node and card by card, and what would have to change.

Every decision that finds no place has counts (`constraints.reasons`), of which `brief` makes
a sentence. `explain` finds out more, when somebody asks or when there is time: the reason of
each node, the verdict on each card of a few nodes or of all, which node comes nearest, and
which changes would let the pod in. Each change was tried before it is proposed. The
inventory is read and never changed.

`node_survey` puts the question to all nodes, `diagnosis` searches some of them.
`pod_changes` and `node_changes` look for one change that helps, `change_pairs` for two;
`feasibility` tells which nodes could take a changed request, `obstacles` what keeps a pod
from a node, and `node_trials` try a change on a copy of one node. `findings` are the values;
`phrases`, `clauses` and `sentences` put them into words, `tables` into a table.
"""

import dataclasses
from collections.abc import Callable
from typing import Final

from berth_operator.scheduling import known_models, queued_pods, under_policy
from berth_operator.scheduling.devices import allocator
from berth_operator.scheduling.explain import (
    change_pairs,
    diagnosis,
    feasibility,
    findings,
    node_changes,
    node_survey,
    obstacles,
    pod_changes,
    sentences,
    tables,
)
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search

Explanation = findings.Explanation
Finding = findings.Finding
Nearest = findings.Nearest
Change = findings.Change

STEPS_FOR_WHOLE: Final = 40_000

brief = sentences.brief
sentence = sentences.sentence
by_namespace = sentences.by_namespace
nearest = sentences.nearest
would_fit = sentences.would_fit
refusals = sentences.refusals
table = tables.table


def work(*, whole: bool, expired: Callable[[], bool] | None = None) -> allocator.Effort:
    """Return how much work may go into an explanation where nobody waits for it but who asked."""
    return allocator.Effort(STEPS_FOR_WHOLE if whole else allocator.MOST_STEPS, expired)


def explain(
    search: Search,
    candidate: queued_pods.Candidate,
    *,
    policy: Policy,
    whole: bool = False,
    effort: allocator.Effort | None = None,
) -> Explanation:
    """Explain why a pod finds no place, or on which nodes it finds none.

    `effort` bounds all searches and trials together: about a second without one, and twice
    that with `whole`. Nodes that were not looked at then are said to be undecided.
    1. Ask all nodes.  2. Look at some closely, or with `whole` at all.  3. Name the
    nearest.  4. Try what would help: one change, else two.
    """
    effort = work(whole=whole) if effort is None else effort
    survey = node_survey.take(search, under_policy.under(policy, candidate), policy, effort)
    found = diagnosis.findings_of(survey, whole=whole)
    fits = int(survey.known.sum()) - len(found)
    told = Explanation(
        counts=survey.counts,
        nodes=found,
        total=int(survey.known.sum()),
        nearest=diagnosis.nearest(found),
        changes=() if fits else _changes(survey, found, whole=whole),
        whole=all(one.looked for one in found),
        models=known_models.instead(survey.counts, survey.inventory, survey.request.conditions.uuids),
    )
    told = told if fits or told.changes or not found else _missed(survey, told)
    return dataclasses.replace(told, cut=survey.exhausted and not fits and not told.changes)


def _missed(survey: node_survey.NodeSurvey, told: Explanation) -> Explanation:
    """Add what no single change could help: all that is in the way of the nearest node, and two changes."""
    missed = change_pairs.nearest_with_obstacles(survey)
    if not missed or survey.exhausted:
        return told  # What is in the way was perhaps not found out for all of them.
    (at, whys), nearest = missed[0], told.nearest
    if len(whys) > 1 or (nearest is None and len(told.counts) > 1):
        nearest = change_pairs.nearest(survey, at, whys)
    two = change_pairs.find_pairs(survey, [one for one, _ in missed])
    return dataclasses.replace(told, nearest=nearest, changes=tuple(two))


def _changes(
    survey: node_survey.NodeSurvey, found: tuple[findings.Finding, ...], *, whole: bool
) -> tuple[findings.Change, ...]:
    limit = feasibility.NO_LIMIT
    if whole:
        asking = feasibility.Feasibility(survey.inventory, each=limit, in_all=limit, effort=survey.effort)
    else:
        asking = feasibility.Feasibility(survey.inventory, effort=survey.effort)
    refused = obstacles.single(survey, whole=whole)
    eased = pod_changes.find_changes(pod_changes.PodChanges(survey, found, refused, asking))
    return findings.in_order([*node_changes.find_changes(survey, found, refused), *eased])
