"""What if: one node as it would be after a change, and whether the pod then fits there.

The node alone is copied, changed and asked by a search of its own, so a trial can neither
damage the inventory nor be confused by what is remembered of it, and what it shows is what
the real search would do. Trials are counted, because each costs as much as placing a pod.
"""

import dataclasses
from collections.abc import Iterable
from typing import Final

from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.scheduling.devices import facts as devices
from berth_operator.scheduling.explain import findings, node_survey
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.search import Search

# A copy of a node costs as much to make as so many steps of a search on it, and one more for each pod.
STEPS_TO_TRY: Final = 20
NAMED_IN_A_STEP: Final = 16  # Labels, values and tolerations of the pod.


def copied(survey: node_survey.NodeSurvey, at: int) -> Inventory:
    """Make an inventory of one node, equal to the node."""
    info = survey.row(at)
    return built(survey, info.node, info.owned, info.holds.values(), silent=info.silent)


def built(
    survey: node_survey.NodeSurvey,
    node: facts.Node | None,
    device: devices.Device | None,
    holds: Iterable[Hold],
    *,
    silent: bool,
) -> Inventory:
    """Make an inventory of one node."""
    copy = Inventory(one_pod_a_card=survey.inventory.one_pod_a_card)
    if node is not None:
        copy.put_node(node)
    if device is not None:
        copy.put_device(device)
        copy.set_silent(device.node, silent)
    charged = 0
    for hold in holds:
        copy.charge(hold)
        charged += 1
    survey.effort.spend(charged)
    return copy


def fits(survey: node_survey.NodeSurvey, copy: Inventory) -> bool:
    """Return whether the pod finds a place on what is there; no, if there is no effort left to try it."""
    return place(survey, copy, survey.request, survey.demand) is not None


def place(
    survey: node_survey.NodeSurvey, copy: Inventory, request: requests.Request, demand: facts.Demand
) -> decisions.Placement | None:
    """Try a request on what is there, and count what that costs."""
    if survey.exhausted:
        return None
    survey.effort.spend(STEPS_TO_TRY + demand.where.size // NAMED_IN_A_STEP)
    return Search(copy).place(request, demand, policy=survey.policy, effort=survey.effort)


def shares(survey: node_survey.NodeSurvey, copy: Inventory) -> set[str]:
    """Return the devices that the pod would get on what is there."""
    found = place(survey, copy, survey.request, survey.demand)
    return {share.uuid for share in allocator.held(found.grants)} if found is not None else set()


def changed_node(survey: node_survey.NodeSurvey, at: int, node: facts.Node) -> Inventory:
    """Copy a node with another state of it."""
    copy = copied(survey, at)
    copy.put_node(node)
    return copy


def changed_device(survey: node_survey.NodeSurvey, at: int, device: devices.Device) -> Inventory:
    """Copy a node with other devices, and an agent that reports."""
    copy = copied(survey, at)
    copy.put_device(device)
    copy.set_silent(device.node, silent=False)
    return copy


def changed_holds(survey: node_survey.NodeSurvey, at: int, holds: Iterable[Hold]) -> Inventory:
    """Copy a node on which some pods hold something else."""
    copy = copied(survey, at)
    for hold in holds:
        copy.release(hold.uid)
        copy.charge(hold)
    return copy


# ---------------------------------------------------------------- less held


def with_room(holds: Iterable[Hold], rooms: Iterable[findings.Room]) -> list[Hold]:
    """Remove room from whoever holds it, in their order; return the holds that change."""
    left = {room.device: [room.core, room.memory] for room in rooms}
    changed = []
    for hold in holds:
        shares = tuple(_less(share, left) for share in hold.shares)
        if shares != hold.shares:
            changed.append(dataclasses.replace(hold, shares=shares))
    return changed


def _less(share: decisions.Share, left: dict[str, list[int]]) -> decisions.Share:
    room = left.get(share.uuid)
    if room is None:
        return share
    core, memory = min(share.core, room[0]), min(share.memory, room[1])
    room[0], room[1] = room[0] - core, room[1] - memory
    return dataclasses.replace(share, core=share.core - core, memory=share.memory - memory)


def with_resource(holds: Iterable[Hold], name: str, amount: int) -> list[Hold]:
    """Remove an amount of a resource from whoever holds it; return the holds that change."""
    changed = []
    for hold in holds:
        held = dict(hold.amounts)
        taken = min(held.get(name, 0), amount)
        if taken > 0:
            amount -= taken
            amounts = tuple((one, had - taken if one == name else had) for one, had in hold.amounts)
            changed.append(dataclasses.replace(hold, amounts=amounts))
    return changed
