"""Changes made true on a copy of the node that they are about, as the words of each say."""

import dataclasses
from collections.abc import Iterable
from typing import Final, assert_never

from berth_operator.scheduling import explain, queued_pods
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.explain import findings
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts as nodes
from scheduling.explain import clusters, spoken

EDITS: Final = findings.DropCondition | findings.AskLess | findings.AskReplicas


def helps(inventory: Inventory, pod: queued_pods.Candidate, change: findings.Change) -> bool:
    """Return whether the pod fits after a change."""
    match change:
        case findings.DropCondition() | findings.AskLess() | findings.AskReplicas():
            able = clusters.takers(inventory, edited(pod, change.edit))
            counted = len(able) == change.edit.nodes if change.edit.exact else len(able) >= change.edit.nodes
            return counted and change.edit.example in able
        case findings.MakeRoom():
            done = spoken.done(inventory, explain.would_fit(change))
            return clusters.takes(_with_room(inventory, change), pod) and clusters.takes(done, pod)
        case findings.EndPods():
            ended = clusters.takes(without(inventory, change.node, change.pods), pod)
            return ended and clusters.takes(spoken.done(inventory, explain.would_fit(change)), pod)
        case findings.FreeResource():
            done = spoken.done(inventory, explain.would_fit(change))
            return clusters.takes(_with_resource(inventory, change), pod) and clusters.takes(done, pod)
        case findings.Repair():
            return clusters.takes(_mended(inventory, change), pod)
        case findings.Pair():
            return _both(inventory, pod, change)
    assert_never(change)


def _both(inventory: Inventory, pod: queued_pods.Candidate, change: findings.Pair) -> bool:
    """Return whether the pod fits after both changes."""
    edits = [one.edit for one in change.changes if isinstance(one, EDITS)]
    assert len(set(map(id, edits))) <= 1
    done = clusters.alone(inventory, change.node)
    for one in change.changes:
        done = _done(done, one)
    return clusters.takes(done, edited(pod, edits[0]) if edits else pod)


def _done(inventory: Inventory, change: findings.Single) -> Inventory:
    match change:
        case findings.MakeRoom():
            return _with_room(inventory, change)
        case findings.EndPods():
            return without(inventory, change.node, change.pods)
        case findings.FreeResource():
            return _with_resource(inventory, change)
        case findings.Repair():
            return _mended(inventory, change)
        case findings.DropCondition() | findings.AskLess() | findings.AskReplicas():
            return inventory
    assert_never(change)


def edited(pod: queued_pods.Candidate, edit: findings.ChangedRequest) -> queued_pods.Candidate:
    """Return the pod as it would be."""
    return dataclasses.replace(pod, request=edit.request, demand=edit.demand)


def without(inventory: Inventory, node: str, pods: Iterable[str]) -> Inventory:
    """End pods."""
    made = clusters.alone(inventory, node)
    for uid in pods:
        made.release(uid)
    return made


def _put(made: Inventory, hold: Hold) -> None:
    made.release(hold.uid)
    made.charge(hold)


def _with_room(inventory: Inventory, change: findings.MakeRoom) -> Inventory:
    """Return the node with the room made: it is taken from its holders, one after the other."""
    made = clusters.alone(inventory, change.node)
    info = made.node(change.node)
    assert info is not None
    for room in change.rooms:
        core, memory = room.core, room.memory
        for hold in list(info.holds.values()):
            shares = []
            for share in hold.shares:
                if share.uuid == room.device:
                    assert hold.title in change.holders
                    less = min(core, share.core), min(memory, share.memory)
                    core, memory = core - less[0], memory - less[1]
                    shares.append(
                        dataclasses.replace(share, core=share.core - less[0], memory=share.memory - less[1])
                    )
                else:
                    shares.append(share)
            _put(made, dataclasses.replace(hold, shares=tuple(shares)))
        assert (core, memory) == (0, 0), "no more than is held"
    return made


def _with_resource(inventory: Inventory, change: findings.FreeResource) -> Inventory:
    made = clusters.alone(inventory, change.node)
    info = made.node(change.node)
    assert info is not None
    missing = change.measure.missing
    for hold in list(info.holds.values()):
        had = dict(hold.amounts).get(change.measure.name, 0)
        less = min(had, missing)
        missing -= less
        amounts = dict(hold.amounts) | {change.measure.name: had - less}
        _put(made, dataclasses.replace(hold, amounts=tuple(sorted(amounts.items()))))
    assert not missing, "no more than is held"
    return made


def _mended(inventory: Inventory, change: findings.Repair) -> Inventory:
    made = clusters.alone(inventory, change.node)
    info = made.node(change.node)
    assert info is not None
    if change.reason is Reason.SILENT:
        made.set_silent(change.node, silent=False)
    elif change.reason is Reason.UNSCHEDULABLE:
        assert info.node is not None
        taints = tuple(one for one in info.node.taints if one.key != nodes.UNSCHEDULABLE_TAINT)
        made.put_node(dataclasses.replace(info.node, unschedulable=False, taints=taints))
    else:
        assert info.device is not None
        well = {one.device for one in change.devices}
        ill = {one.uuid for one in (*info.device.cards, *info.device.others) if one.trouble is change.reason}
        assert well <= ill
        failed = "" if change.reason is Reason.SOURCE_FAILED else info.device.failed
        cards, others = (
            tuple(dataclasses.replace(one, trouble=None) if one.uuid in well else one for one in those)
            for those in (info.device.cards, info.device.others)
        )
        made.put_device(dataclasses.replace(info.device, cards=cards, others=others, failed=failed))
    return made
