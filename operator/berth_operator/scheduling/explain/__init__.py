"""Why a pod does not fit, node by node and card by card, and what would have to change.

The counts of `tally` say it cheaply for every failing decision, and `brief` makes a
sentence of them. `explain` looks closer, when somebody asks or when there is time: it
gives each node its reason, a few or all of them the verdict on each card, names what
comes nearest, and proposes single changes, every one of them tried before it is told.
It reads the inventory and never touches it.

The rooms behind: `node_survey` asks all nodes at once; `diagnosis` looks at some; `reach` tells
which nodes could take a changed request, and `obstacles` what is wrong with a node's
place; `easing` changes the pod, `mending` changes a node, in `trials` on a copy of it.
`pairing` looks at what takes two changes. `findings` are the values, `words` and
`sentences` say them, `tables` lays them out.
"""

import dataclasses
from collections.abc import Callable
from typing import Final

from berth_operator.scheduling import known_models, queued_pods, under_policy
from berth_operator.scheduling.devices import allocator
from berth_operator.scheduling.explain import (
    diagnosis,
    easing,
    findings,
    mending,
    node_survey,
    obstacles,
    pairing,
    reach,
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
    missed = pairing.misses(survey)
    if not missed or survey.exhausted:
        return told  # What is in the way was perhaps not found out for all of them.
    (at, whys), nearest = missed[0], told.nearest
    if len(whys) > 1 or (nearest is None and len(told.counts) > 1):
        nearest = pairing.miss(survey, at, whys)
    two = pairing.helpful(survey, [one for one, _ in missed])
    return dataclasses.replace(told, nearest=nearest, changes=tuple(two))


def _changes(
    survey: node_survey.NodeSurvey, found: tuple[findings.Finding, ...], *, whole: bool
) -> tuple[findings.Change, ...]:
    limit = reach.NO_LIMIT
    if whole:
        asking = reach.Inquiry(survey.inventory, each=limit, in_all=limit, effort=survey.effort)
    else:
        asking = reach.Inquiry(survey.inventory, effort=survey.effort)
    refused = obstacles.single(survey, whole=whole)
    eased = easing.edits(easing.Easing(survey, found, refused, asking))
    return findings.in_order([*mending.mends(survey, found, refused), *eased])
