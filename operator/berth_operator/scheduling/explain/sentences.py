"""Sentences: what condition and event say of a pod that waits.

One sentence for the counts, with what is nearest, and one for what would help most. They hold
only figures of the cards they name and numbers of nodes, so they stay the same while pods come
and go elsewhere. Conditions and events have a limit of 1,024 characters; where that is met, rare
reasons are left out before anything is cut.

The words of each reason are in the file of its constraint (`words`, `brief`).
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Final

from berth_crds import text
from berth_operator.scheduling import decisions, known_models, node_table, queued_pods, wording
from berth_operator.scheduling.constraints import registry
from berth_operator.scheduling.decisions import Count, Reason, Refusal
from berth_operator.scheduling.explain import findings, namespace_privacy, phrases
from berth_operator.scheduling.what_if.advice import Advice

Extras = dict[tuple[Reason, str], str]
Examples = dict[tuple[Reason, str], findings.Finding]

LONGEST: Final = 1024
REASONS_SHOWN: Final = (8, 4, 2, 1)
# Reasons that are about single cards, of which one is named.
REASONS_WITH_EXAMPLE: Final = frozenset(filter(None, node_table.TROUBLES))
# Of these, reasons whose words say what is missing: the card that is named is not an example of that.
MISSING: Final = frozenset({Reason.UNHEALTHY, Reason.CARD_CORDONED})


def sentence(explanation: findings.Explanation | decisions.Reject, pod_info: queued_pods.PodInfo) -> str:
    """Return why a pod waits and what would help, or what is wrong with its request."""
    if isinstance(explanation, decisions.Reject):
        return _truncated("; ".join(fault.detail for fault in explanation.refusals))
    return _sentence(explanation, pod_info, _examples(explanation), pod_info.namespace)


def by_namespace(explanation: findings.Explanation, pod_info: queued_pods.PodInfo) -> dict[str, str]:
    """Return the sentence for each namespace of which it names pods, and under "" the one for all others."""
    examples = _examples(explanation)
    holders = (one.withholding_pods for one in examples.values())
    named = namespace_privacy.namespaces(explanation.advice[:1], itertools.chain.from_iterable(holders))
    return {one: _sentence(explanation, pod_info, examples, one) for one in ("", *sorted(named))}


def _sentence(
    explanation: findings.Explanation, pod_info: queued_pods.PodInfo, examples: Examples, namespace: str
) -> str:
    extras = _extras(explanation, pod_info, examples, namespace)
    ending = _ending(explanation, pod_info, namespace)
    for shown in REASONS_SHOWN:
        text_ = f"{_counted(explanation.counts, pod_info, explanation.total, shown, extras)}{ending}"
        if len(text_) <= LONGEST:
            break
    return _truncated(text_)


def brief(
    counts: Sequence[Count],
    pod_info: queued_pods.PodInfo,
    known: known_models.Models = known_models.UNTOLD,
) -> str:
    """Return why a pod waits, from the counts and the models that there are alone."""
    total = sum(count.nodes for count in counts)
    extras = {key: f" ({there})" for key, there in _models_there(counts, known, pod_info).items()}
    return _truncated(_counted(counts, pod_info, total, REASONS_SHOWN[0], extras))


def nearest_sentence(found: findings.Nearest) -> str:
    """Return what comes closest."""
    if found.whys:
        obstacles = "this obstacle" if len(found.whys) == 1 else "these obstacles"
        listed = ", ".join(phrases.briefly(*why) for why in found.whys)
        return f"{wording.clipped(found.node)}, with {obstacles}: {listed}"
    of = f"{phrases.device(found.type, found.minor)} of " if found.device else ""
    return f"{of}{wording.clipped(found.node)} has {wording.shortage(found.deficits)}"


def would_fit(advice: Advice, namespace: str | None = None) -> str:
    """Return what would help, and on how many nodes where only the pod changes.

    With a namespace, pods of others are counted and not named.
    """
    clauses = " and ".join(namespace_privacy.clause(change, namespace) for change in advice.changes)
    nodes = "1 node" if advice.nodes == 1 else f"{advice.nodes} nodes"
    where = f" on {nodes if advice.exact else f'at least {nodes}'}" if advice.changes_pod_only else ""
    return f"would fit{where} if {clauses}"


def refusals(explanation: findings.Explanation, pod_info: queued_pods.PodInfo) -> tuple[Refusal, ...]:
    """List all refusals, of cards where there are verdicts and of nodes otherwise, each with a message."""
    if not explanation.total:
        return (Refusal(Reason.NO_NODES, detail=registry.WORDS[Reason.NO_NODES](0, pod_info, "")),)
    there = {one.reason: _there(one.reason, explanation.models, pod_info) for one in explanation.counts}

    @functools.cache  # Many nodes refuse for the same reason.
    def message_of(reason: Reason, detail: str) -> str:
        message = registry.WORDS[reason](1, pod_info, detail).removeprefix("1 ")
        return f"{message} ({there[reason]})" if there.get(reason) else message

    return tuple(refusal for finding in explanation.nodes for refusal in _refusals(finding, message_of))


def _refusals(finding: findings.Finding, message_of: Callable[[Reason, str], str]) -> list[Refusal]:
    against = finding.shortfall.verdicts if finding.shortfall else ()
    if not against:
        message = message_of(finding.reason, finding.detail or wording.listed(finding.withholding_pods))
        figures = wording.shortage(finding.deficits)
        return [Refusal(finding.reason, finding.node, detail=f"{message}: {figures}" if figures else message)]
    return [
        Refusal(verdict.reason, finding.node, verdict.device, phrases.of_verdict(verdict))
        for verdict in against
    ]


# ---------------------------------------------------------------- parts of it


def _counted(
    counts: Sequence[Count], pod_info: queued_pods.PodInfo, total: int, shown: int, extras: Extras
) -> str:
    if not total:
        return registry.WORDS[Reason.NO_NODES](0, pod_info, "")
    fits = total - sum(count.nodes for count in counts)
    unsure = any(count.reason is Reason.UNDECIDED for count in counts)
    head = (
        f"at least {fits}/{total} nodes are available"
        if fits and unsure
        else f"{fits}/{total} nodes are available"
    )
    parts = [
        registry.WORDS[count.reason](count.nodes, pod_info, count.detail)
        + extras.get((count.reason, count.detail), "")
        for count in counts[:shown]
    ]
    rest = sum(count.nodes for count in counts[shown:])
    if rest:
        parts.append(f"{rest} for other reasons")
    return f"{head}: {'; '.join(parts)}" if parts else head


def _examples(explanation: findings.Explanation) -> Examples:
    """Return for each reason the first node on which a card or pods can be named for it."""
    found: Examples = {}
    for finding in explanation.nodes:
        key = finding.reason, finding.detail
        if key not in found and (finding.withholding_pods or _card(finding)):
            found[key] = finding
    return found


def _extras(
    explanation: findings.Explanation, pod_info: queued_pods.PodInfo, examples: Examples, namespace: str
) -> Extras:
    """Return an example of what is in the way, the models that there are, and what is nearest."""
    extras = {key: _example(finding, namespace) for key, finding in examples.items()}
    for key, there in _models_there(explanation.counts, explanation.models, pod_info).items():
        extras[key] = "; ".join(filter(None, (extras.get(key), there)))
    if explanation.nearest is not None:
        key = explanation.nearest.reason, explanation.nearest.detail
        extras[key] = "; ".join(
            filter(None, (extras.get(key), f"nearest: {nearest_sentence(explanation.nearest)}"))
        )
    return {key: f" ({text})" for key, text in extras.items()}


def _models_there(
    counts: Sequence[Count], known: known_models.Models, pod_info: queued_pods.PodInfo
) -> Extras:
    """Return what there is instead of models, instances and cards, each beside the first that is lacking."""
    found: Extras = {}
    for kinds in ({Reason.MODEL_MISMATCH}, known_models.OF_INSTANCES, {Reason.NOT_INCLUDED}):
        lacking = ((one.reason, one.detail) for one in counts if one.reason in kinds)
        for key in itertools.islice(lacking, 1):
            found[key] = _there(key[0], known, pod_info)
    return {key: there for key, there in found.items() if there}


def _there(reason: Reason, known: known_models.Models, pod_info: queued_pods.PodInfo) -> str:
    """Return what there is instead of what a node lacks for this reason."""
    if reason is Reason.MODEL_MISMATCH:
        return phrases.there(known, pod_info)
    if reason is Reason.NOT_INCLUDED:
        return phrases.NOWHERE if known.nowhere else ""
    return phrases.instances_there(known, reason) if reason in known_models.OF_INSTANCES else ""


def _example(finding: findings.Finding, namespace: str) -> str:
    """Name the first card that has the node's reason, or the pods whose cards are not known by name."""
    node = wording.clipped(finding.node)
    if finding.withholding_pods:
        pods = namespace_privacy.pods(finding.withholding_pods, namespace)
        return f"such as {wording.listed(pods)} on {node}"
    if finding.reason in MISSING:
        return f"{_card(finding)} on {node} is {registry.BRIEF[finding.reason]}"
    return f"such as {_card(finding)} on {node}"


def _card(finding: findings.Finding) -> str:
    if finding.shortfall is None or finding.reason not in REASONS_WITH_EXAMPLE:
        return ""
    cards = (one.device for one in finding.shortfall.verdicts if one.reason is finding.reason)
    return wording.clipped(next(cards, ""))


BUDGET_EXHAUSTED: Final = "Berth ran out of time to find what would help."


def _ending(explanation: findings.Explanation, pod_info: queued_pods.PodInfo, namespace: str) -> str:
    where = "any node with a Device" if explanation.unpublished else "any node"
    lasting = _lasting(explanation, pod_info)
    never = (
        f" It would not fit on {where} even if all nodes were empty{lasting}."
        if explanation.never_fits
        else ""
    )
    limit = f" {text_}." if (text_ := core_limit(explanation)) else ""
    if not explanation.advice:
        cut = f" {BUDGET_EXHAUSTED}" if explanation.cut else ""
        return f".{limit}{never}{cut}" if limit or never or cut else ""
    best = would_fit(explanation.advice[0], namespace)
    return f".{limit}{never} {best[0].upper()}{best[1:]}."


def core_limit(explanation: findings.Explanation) -> str:
    """Return how much of a card's core may be promised with this pod, where a policy oversells it."""
    is_short = any(count.reason is Reason.FULL for count in explanation.counts)
    if not explanation.core_limit or not is_short:
        return ""
    limit = f"up to {explanation.core_limit} % of a card's core may be promised"
    return f"With this pod {limit}, by its PriorityClass and the policy (spec.oversale)"


def _lasting(explanation: findings.Explanation, pod_info: queued_pods.PodInfo) -> str:
    """Return why not even unused nodes could take the pod, if it is the same for all that were diagnosed."""
    reasons = {one.shortfall.lasting for one in explanation.nodes if one.shortfall and one.shortfall.lasting}
    reason = reasons.pop() if len(reasons) == 1 else None
    return f": {phrases.LASTING[reason](pod_info)}" if reason in phrases.LASTING else ""


def _truncated(sentence_: str) -> str:
    plain = text.line(sentence_, most=2 * LONGEST)
    return plain if len(plain) <= LONGEST else f"{plain[: LONGEST - 1]}…"
