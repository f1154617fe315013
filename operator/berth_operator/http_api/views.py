"""The ledger as plain values: waiting pods and their reasons, devices and their holders, decisions.

Long lists are generators, so that the caller may let other tasks run in between: each item is read
between two awaits and copied, so that another thread may encode it while the ledger changes.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from berth_operator.engine import assumed_pods, decision_records
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import card_loads, decisions, explain, node_info, policy_rules, queued_pods
from berth_operator.scheduling.devices import device_view, search_effort
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.devices.search_effort import Effort

# Up to so many nodes every card is examined. No pod is bound meanwhile, so the effort is limited: a
# simple request is examined on all nodes, and those that a hard one does not reach are marked so.
FEW_NODES: Final = 64
STEPS: Final = 5_000
SECONDS_IF_FEW: Final = 0.03
SECONDS: Final = 0.008
EDIT: Final = "an edit of the pod"
GATED: Final = "It is not tried as long as it has spec.schedulingGates. Without them: "

Fields = dict[str, Any]
ReasonOf = Callable[[queued_pods.PodInfo], str]
Answer = explain.Explanation | decisions.Reject


# ---------------------------------------------------------------- waiting pods


def unplaced_pods(ledger: Ledger, now: float, reason_of: ReasonOf) -> Iterator[Fields]:
    """Yield the pods that are not placed: why, their attempts, and what they wait for, in order."""
    tried = list(ledger.backlog.in_order())
    binding = sorted(ledger.assumed_pods.values(), key=lambda one: one.pod_info.order())
    gated = sorted(ledger.gated.values(), key=lambda pod_info: pod_info.order())
    yield from (_tried(entry, now, reason_of(entry.pod_info)) for entry in tried)
    yield from (_binding(one, now, reason_of(one.pod_info)) for one in binding)
    yield from (_pod(one, queued_pods.Standing.GATED) for one in gated)


def _tried(entry: queued_pods.Entry, now: float, reason: str) -> Fields:
    awaited = sorted(map(str, entry.awaited or ()))
    if entry.awaited is not None and not awaited:
        awaited = [EDIT]
    return _pod(entry.pod_info, entry.standing(now)) | {
        "reason": reason or None,
        "attempts": entry.attempts,
        "notBeforeSeconds": round(max(0.0, entry.not_before - now), 3),
        "waitsFor": awaited,
    }


def _binding(assumed: assumed_pods.AssumedPod, now: float, reason: str) -> Fields:
    return _pod(assumed.pod_info, queued_pods.Standing.BINDING) | {
        "reason": reason or None,
        "attempts": assumed.attempts,
        "node": assumed.placement.node,
        "sinceSeconds": round(now - assumed.since, 3),
    }


def _pod(pod_info: queued_pods.PodInfo, standing: queued_pods.Standing) -> Fields:
    return {
        "pod": pod_info.title,
        "uid": pod_info.uid,
        "priority": pod_info.priority,
        "label": pod_info.label,
        "created": pod_info.created,
        "state": str(standing),
    }


def find(ledger: Ledger, title: str) -> queued_pods.PodInfo | None:
    """Return what is known of a pod that is not placed, if there is one."""
    unplaced = (*(entry.pod_info for entry in ledger.backlog.in_order()), *ledger.gated.values())
    return next((one for one in unplaced if one.title == title), None)


def whereabouts(ledger: Ledger, title: str) -> str:
    """Return a sentence about a pod that does not wait, as far as it is known."""
    for assumed in ledger.assumed_pods.values():
        if assumed.pod_info.title == title:
            return f"Pod {title} does not wait: its bind to {assumed.placement.node} is under way."
    for info in ledger.inventory.each():
        if any(hold.title == title for hold in info.holds.values()):
            return f"Pod {title} does not wait: it has its place on {info.name}."
    return f"There is no pod {title} that waits for this scheduler."


# ---------------------------------------------------------------- devices and holders


def nodes(ledger: Ledger) -> Iterator[Fields]:
    """Yield the devices of each node and their holders."""
    yield from (node(ledger, info) for info in list(ledger.inventory.each()))


def node(ledger: Ledger, info: node_info.NodeInfo) -> Fields:
    """Return the devices of a node and their holders."""
    view, published = info.view(), info.device is not None
    loads = ledger.loads.of(info.name)
    cards = (_device(view, card) | {"load": _load(loads, card)} for card in view.device.cards)
    others = (_device(view, other) for other in view.device.others)
    return {
        "node": info.name,
        "known": info.node is not None,
        "published": published,
        "open": info.in_service,
        "silent": info.agent_not_ready,
        "failed": view.device.failed or None,
        "withheld": info.withheld,
        "devices": [*cards, *others],
        "holds": [
            {"state": ledger.state(hold.uid).value, **_plain(hold)}
            for hold in sorted(info.holds.values(), key=lambda hold: hold.title)
        ],
    }


def _device(view: device_view.View, card: PhysicalDevice) -> Fields:
    return {
        "uuid": card.uuid,
        "type": card.type,
        "minor": card.minor,
        "model": card.model,
        "memory": card.memory,
        "trouble": card.trouble,
        "occupants": _plain(card.occupants),
        "used": {name: getattr(view.usage(card.uuid), name) for name in ("core", "memory", "pods")},
        "instances": [one.uuid for one in card.instances],
        "replicas": card.replicas,
    }


def _load(loads: card_loads.Loads, card: PhysicalDevice) -> Fields | None:
    """Return what was measured of a card; None where nothing counts now."""
    load = loads.get(card.minor)
    return {name: figure for name, figure in load._asdict().items() if figure >= 0} if load else None


# ---------------------------------------------------------------- decisions


def decisions_made(records: decision_records.DecisionRecords) -> Iterator[Fields]:
    """Yield the last decisions, the newest first."""
    for one in list(records.decisions)[::-1]:
        yield {
            "time": one.moment.isoformat(timespec="milliseconds"),
            "pod": one.pod_info.title,
            "uid": one.pod_info.uid,
            "answer": decision_fields(one.decision, one.pod_info),
            "inputs": one.inputs,
        }


def decision_fields(decision: decisions.Decision, pod_info: queued_pods.PodInfo) -> Fields:
    """Return the decision for a pod."""
    match decision:
        case decisions.Bind(_, placement):
            return {"kind": "Bind", **_plain(placement)}
        case decisions.Wait(_, counts):
            return {"kind": "Wait", "reason": explain.brief(counts, pod_info), "counts": _plain(counts)}
        case decisions.Reject():
            return {"kind": "Reject", "reason": explain.sentence(decision, pod_info)}


# ---------------------------------------------------------------- explanations


def explanation(ledger: Ledger, pod_info: queued_pods.PodInfo, clock: Callable[[], float]) -> Answer:
    """Return why a pod does not fit now, or where it would."""
    if faults := policy_rules.apply(ledger.policy, pod_info).faults:
        return decisions.Reject(pod_info.uid, faults)
    few = len(ledger.inventory.index) <= FEW_NODES
    return explain.explain(
        ledger.search,
        pod_info,
        policy=ledger.policy,
        all_nodes=few,
        effort=Effort(STEPS, search_effort.timer(clock, SECONDS_IF_FEW if few else SECONDS)),
    )


def explanation_text(explanation: Answer, pod_info: queued_pods.PodInfo, *, gated: bool = False) -> str:
    """Return an explanation as text for people."""
    text = f"{pod_info.title}: {GATED if gated else ''}{explain.sentence(explanation, pod_info)}\n"
    return text if isinstance(explanation, decisions.Reject) else f"{text}\n{explain.table(explanation)}"


def explanation_fields(explanation: Answer, pod_info: queued_pods.PodInfo, *, gated: bool = False) -> Fields:
    """Return an explanation as values for programs."""
    fields: Fields = {
        "pod": pod_info.title,
        "sentence": f"{GATED if gated else ''}{explain.sentence(explanation, pod_info)}",
    }
    if isinstance(explanation, decisions.Reject):
        return fields | {"faults": _plain(explanation.refusals)}
    return fields | {
        "total": explanation.total,
        "fits": explanation.fits,
        "counts": _plain(explanation.counts),
        "refusals": _plain(explain.refusals(explanation, pod_info)),
        "nearest": explain.nearest_sentence(explanation.nearest) if explanation.nearest else None,
        "changes": [explain.would_fit(one) for one in explanation.advice],
        "nodes": _plain(explanation.nodes),
    }


def _plain(value: object) -> Any:
    """Return frozen values as those of JSON and YAML; sets are sorted."""
    return msgspec.to_builtins(value, order="deterministic")
