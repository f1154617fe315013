"""The words for changes: each a clause that follows "would fit if"."""

from collections.abc import Mapping, Sequence
from typing import Final, assert_never

from berth_crds import names
from berth_operator.scheduling import wording
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.deficits import CARDS, CORE, REPLICAS, Deficit, Unit
from berth_operator.scheduling.explain import diagnosis, findings
from berth_operator.scheduling.explain.findings import PodCondition
from berth_operator.scheduling.nodes import facts

DROPPED: Final[Mapping[PodCondition, str]] = {
    PodCondition.MODELS: "the condition on models were dropped",
    PodCondition.PATTERN: "the pattern for models were dropped",
    PodCondition.AVOID_MODELS: "no model were avoided",
    PodCondition.AVOID_PATTERN: "the pattern for models to avoid were dropped",
    PodCondition.UUIDS: "the list of wanted uuids were dropped",
    PodCondition.AVOID_UUIDS: "no uuid were avoided",
    PodCondition.MEMORY_AT_LEAST: "the condition on memory were dropped",
    PodCondition.SCOPE: "the condition on scope were dropped",
    PodCondition.JOINT: "the devices did not have to share a PCIe root",
    PodCondition.LABELS: "the condition on labels were dropped",
    PodCondition.FUNCTION_LABELS: "the condition on labels of virtual functions were dropped",
    PodCondition.SELECTOR: "the node selector {value} were dropped",
    PodCondition.AFFINITY: "the node affinity were dropped",
    PodCondition.TAINT: "the taint {value} were tolerated",
}
MENDED: Final[Mapping[Reason, str]] = {
    Reason.UNSCHEDULABLE: "{node} were uncordoned",
    Reason.SILENT: "the agent of {node} were back",
    Reason.SOURCE_FAILED: "the agent of {node} could read its cards",
    Reason.CORDONED: "{devices} were not cordoned",
    Reason.UNHEALTHY: "{devices} were healthy",
    Reason.OCCUPIED: "no other process used {devices}",
    Reason.DUPLICATE_UUID: "no other node published {devices}",
}
MINORS_LISTED: Final = 16
# What a part of each card is a part of.
PARTS: Final = {
    (CORE, Unit.PERCENT): " of the core of each card",
    ("", Unit.BYTES): " of each card",
    ("ratio", Unit.PERCENT): " of the memory of each card",
}


def clause(change: findings.Change) -> str:
    """Return what would have to happen."""
    match change:
        case findings.MakeRoom():
            return _room(change)
        case findings.EndPods():
            return _ended(change)
        case findings.FreeResource(node, measure):
            return _resource(measure, wording.short(node))
        case findings.AskLess() | findings.AskReplicas() | findings.DropCondition():
            return _edited(change)
        case findings.Repair(node, reason, devices):
            name = wording.short(node)
            return MENDED[reason].format(node=name, devices=_named(devices, name))
        case findings.Pair(_, changes):
            return " and ".join(map(clause, changes))
    assert_never(change)


def _edited(change: findings.AskLess | findings.AskReplicas | findings.DropCondition) -> str:
    match change:
        case findings.AskLess():
            return _less(change)
        case findings.AskReplicas():
            return _in_replicas(change)
        case findings.DropCondition(condition, value):
            return " ".join(DROPPED[condition].format(value=wording.short(value)).split())
    assert_never(change)


def reach(change: findings.Change) -> str:
    """Return how many nodes would then fit; nothing where it is about one node."""
    if isinstance(change, findings.Pair):
        # A node's own change says which node it is.
        return min(map(reach, change.changes))
    if not isinstance(change, findings.AskLess | findings.AskReplicas | findings.DropCondition):
        return ""
    nodes = "1 node" if change.edit.nodes == 1 else f"{change.edit.nodes} nodes"
    return nodes if change.edit.exact else f"at least {nodes}"


def _named(devices: Sequence[findings.Room], node: str) -> str:
    """Return devices of a node by their names: by uuid, or by minor where there are many."""
    if len(devices) <= wording.LISTED:
        return f"{wording.listed(one.device for one in devices)} of {node}"
    minors = wording.listed((str(one.minor) for one in devices), most=MINORS_LISTED)
    return f"{len(devices)} devices of {node} (minors {minors})"


def _room(change: findings.MakeRoom) -> str:
    node = wording.short(change.node)
    if len(change.rooms) == 1:
        (room,) = change.rooms
        return f"{_freed(room)} were freed on {wording.short(room.device)} of {node}"
    freed = wording.listed(f"{_freed(room)} on {wording.short(room.device)}" for room in change.rooms)
    return f"{freed} of {node} were freed"


def _freed(room: findings.Room) -> str:
    parts = []
    if room.core:
        parts.append(f"{room.core} % {diagnosis.core_of(room.type)}".strip())
    if room.memory:
        parts.append(wording.amount(Unit.BYTES, room.memory))
    return " and ".join(parts)


def _ended(change: findings.EndPods) -> str:
    node = wording.short(change.node)
    if change.devices:
        return f"{_named(change.devices, node)} were freed"
    return f"{wording.listed(change.titles)} ended on {node}"


def _resource(measure: Deficit, node: str) -> str:
    if measure.name == facts.PODS:
        return f"{measure.missing} {'pod' if measure.missing == 1 else 'pods'} ended on {node}"
    return (
        f"{wording.amount(measure.unit, measure.missing)} {wording.short(measure.name)} were freed on {node}"
    )


def _less(change: findings.AskLess) -> str:
    measure = change.measure
    now, was = (
        wording.amount(measure.unit, measure.free, up=False),
        wording.amount(measure.unit, measure.wanted),
    )
    if measure.unit is Unit.PIECES and measure.name:
        of = f" {wording.noun(measure.name, measure.wanted)}"
    else:
        of = PARTS.get((measure.name, measure.unit), f" {wording.short(measure.name)}")
    where = f" in container {change.container}" if len(change.edit.request.containers) > 1 else ""
    return f"it asked for {now} instead of {was}{of}{where if change.container else ''}"


def _in_replicas(change: findings.AskReplicas) -> str:
    now = f"{change.count} {wording.noun(REPLICAS, change.count)} ({names.NVIDIA_GPU_SHARED})"
    cards = wording.noun(CARDS, change.count)
    if change.whole:
        return f"it asked for {now} instead of {change.count} whole {cards}"
    was = "a part of a card" if change.count == 1 else f"parts of {change.count} cards"
    return f"it asked for {now} instead of {was}"
