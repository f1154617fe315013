"""What there is to see of the ledger, as plain values: who waits and why, who holds what, what was decided.

What there may be much of is told one by one, so that whoever asks can let others have their
turn in between: each piece is read between two awaits and copied, so that it may be written
out in another thread while the ledger goes on.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from berth_operator.engine import assumed_pods, decision_records
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions, explain, node_info, queued_pods, under_policy
from berth_operator.scheduling.devices import allocator, device_view, facts

# Up to so many nodes every card is looked at. No pod is bound meanwhile, so that there is an end to it,
# however hard a request is; a simple one is looked at on all of them, and nodes that a hard one does not
# reach say so. Of many nodes it takes as long again to ask all at once.
FEW_NODES: Final = 64
STEPS: Final = 5_000
SECONDS_IF_FEW: Final = 0.03
SECONDS: Final = 0.012
EDIT: Final = "an edit of the pod"
HELD: Final = "It is not tried as long as it has spec.schedulingGates. Without them: "

Fields = dict[str, Any]
Said = Callable[[queued_pods.Candidate], str]
Why = explain.Explanation | decisions.Reject


# ---------------------------------------------------------------- who waits


def waiting(ledger: Ledger, now: float, said: Said) -> Iterator[Fields]:
    """Yield for each pod that is not placed why, how often it was tried and what it waits for, in order."""
    tried = list(ledger.backlog.each())
    binding = sorted(ledger.assumed_pods.values(), key=lambda one: one.candidate.order())
    gated = sorted(ledger.gated.values(), key=lambda candidate: candidate.order())
    yield from (_tried(entry, now, said(entry.candidate)) for entry in tried)
    yield from (_binding(one, now, said(one.candidate)) for one in binding)
    yield from (_pod(one, queued_pods.Standing.GATED) for one in gated)


def _tried(entry: queued_pods.Entry, now: float, reason: str) -> Fields:
    wants = sorted(map(str, entry.wants or ()))
    if entry.wants is not None and not wants:
        wants = [EDIT]
    return _pod(entry.candidate, entry.standing(now)) | {
        "reason": reason or None,
        "attempts": entry.attempts,
        "notBeforeSeconds": round(max(0.0, entry.not_before - now), 3),
        "waitsFor": wants,
    }


def _binding(assumed: assumed_pods.AssumedPod, now: float, reason: str) -> Fields:
    return _pod(assumed.candidate, queued_pods.Standing.BINDING) | {
        "reason": reason or None,
        "attempts": assumed.attempts,
        "node": assumed.placement.node,
        "sinceSeconds": round(now - assumed.since, 3),
    }


def _pod(candidate: queued_pods.Candidate, standing: queued_pods.Standing) -> Fields:
    return {
        "pod": candidate.title,
        "uid": candidate.uid,
        "priority": candidate.priority,
        "label": candidate.label,
        "created": candidate.created,
        "state": str(standing),
    }


def find(ledger: Ledger, title: str) -> queued_pods.Candidate | None:
    """Look a pod up that is not placed."""
    everybody = (*(entry.candidate for entry in ledger.backlog.each()), *ledger.gated.values())
    return next((one for one in everybody if one.title == title), None)


def whereabouts(ledger: Ledger, title: str) -> str:
    """Return where a pod is that does not wait, as far as that is known."""
    for assumed in ledger.assumed_pods.values():
        if assumed.candidate.title == title:
            return f"Pod {title} does not wait: its bind to {assumed.placement.node} is under way."
    for info in ledger.inventory.each():
        if any(hold.title == title for hold in info.holds.values()):
            return f"Pod {title} does not wait: it has its place on {info.name}."
    return f"There is no pod {title} that waits for this scheduler."


# ---------------------------------------------------------------- who holds what


def nodes(ledger: Ledger) -> Iterator[Fields]:
    """Return what each node has and who holds it."""
    yield from (node(ledger, info) for info in list(ledger.inventory.each()))


def node(ledger: Ledger, info: node_info.Row) -> Fields:
    """Return what a node has and who holds it."""
    view, published = info.view(), info.device is not None
    return {
        "node": info.name,
        "known": info.node is not None,
        "published": published,
        "open": info.open,
        "silent": info.silent,
        "failed": view.device.failed or None,
        "withheld": info.withheld,
        "devices": [_device(view, card) for card in (*view.device.cards, *view.device.others)],
        "holds": [
            {"state": ledger.state(hold.uid).value, **_plain(hold)}
            for hold in sorted(info.holds.values(), key=lambda hold: hold.title)
        ],
    }


def _device(view: device_view.View, card: facts.Card) -> Fields:
    return {
        "uuid": card.uuid,
        "type": card.type,
        "minor": card.minor,
        "model": card.model,
        "memory": card.memory,
        "trouble": card.trouble,
        "used": view.usage(card.uuid)._asdict(),
        "instances": [one.uuid for one in card.instances],
        "replicas": card.replicas,
    }


# ---------------------------------------------------------------- what was decided


def decided(records: decision_records.DecisionRecords) -> Iterator[Fields]:
    """Yield the last decisions, the newest first."""
    for one in list(records.decisions)[::-1]:
        yield {
            "time": one.moment.isoformat(timespec="milliseconds"),
            "pod": one.candidate.title,
            "uid": one.candidate.uid,
            "answer": answer(one.decision, one.candidate),
            "inputs": one.inputs,
        }


def answer(given: decisions.Decision, candidate: queued_pods.Candidate) -> Fields:
    """Return what was decided for a pod."""
    match given:
        case decisions.Bind(_, placement):
            return {"kind": "Bind", **_plain(placement)}
        case decisions.Wait(_, counts):
            reason = explain.brief(counts, candidate)
            return {"kind": "Wait", "reason": reason, "counts": _plain(counts)}
        case decisions.Reject():
            return {"kind": "Reject", "reason": explain.sentence(given, candidate)}


# ---------------------------------------------------------------- why not


def why(ledger: Ledger, candidate: queued_pods.Candidate, clock: Callable[[], float]) -> Why:
    """Explain on the picture as it is now why a pod does not fit, if it does not."""
    if faults := under_policy.under(ledger.policy, candidate).faults:
        return decisions.Reject(candidate.uid, faults)
    few = len(ledger.inventory.index) <= FEW_NODES
    effort = allocator.Effort(STEPS, allocator.stopwatch(clock, SECONDS_IF_FEW if few else SECONDS))
    return explain.explain(ledger.search, candidate, policy=ledger.policy, whole=few, effort=effort)


def why_in_text(told: Why, candidate: queued_pods.Candidate, *, gated: bool = False) -> str:
    """Lay an explanation out for people."""
    said = f"{candidate.title}: {HELD if gated else ''}{explain.sentence(told, candidate)}\n"
    return said if isinstance(told, decisions.Reject) else f"{said}\n{explain.table(told)}"


def why_in_fields(told: Why, candidate: queued_pods.Candidate, *, gated: bool = False) -> Fields:
    """Return an explanation for programs."""
    sentence = f"{HELD if gated else ''}{explain.sentence(told, candidate)}"
    said: Fields = {"pod": candidate.title, "sentence": sentence}
    if isinstance(told, decisions.Reject):
        return said | {"faults": _plain(told.refusals)}
    return said | {
        "total": told.total,
        "fits": told.fits,
        "counts": _plain(told.counts),
        "refusals": _plain(explain.refusals(told, candidate)),
        "nearest": explain.nearest(told.nearest) if told.nearest else None,
        "changes": [explain.would_fit(change) for change in told.changes],
        "nodes": _plain(told.nodes),
    }


def _plain(value: object) -> Any:
    """Turn frozen values into what JSON and YAML have; sets get an order."""
    return msgspec.to_builtins(value, order="deterministic")
