"""What bound pods are charged whose own record cannot be read, or that their kubelet has not admitted.

There may be thousands of them on one node, so what they depend on is worked out once for all of them.
"""

import collections
from collections.abc import Collection, Iterable

from berth_operator.engine import unadmitted_pods, unreadable_pods
from berth_operator.scheduling import holds, inventory, node_info
from berth_operator.scheduling.devices import device_facts


def by_node(known: inventory.Inventory, uids: Iterable[str]) -> dict[str, list[holds.Hold]]:
    """Return what pods hold so far, by node."""
    found = collections.defaultdict[str, list[holds.Hold]](list)
    for uid in uids:
        if (hold := known.hold(uid)) is not None:
            found[hold.node].append(hold)
    return found


def concerned(
    info: node_info.NodeInfo,
    unadmitted: unadmitted_pods.UnadmittedPods,
    unreadable: unreadable_pods.UnreadablePods,
) -> list[str]:
    """Return the pods of a node for which it matters which devices it has: not those that hold nothing."""
    return [uid for uid in info.holds if uid in unreadable and not unadmitted.is_excluded(uid)]


def plugged_as_before(info: node_info.NodeInfo | None, device: device_facts.Device) -> Collection[str] | None:
    """Return of which resources a plugin gives cards, if a Device differs from the last in health alone."""
    if info is None or info.published is None:
        return None
    same = device_facts.without_health(info.published) == device_facts.without_health(device)
    return info.plugged if same else None


def of_node(
    info: node_info.NodeInfo | None,
    known: Iterable[holds.Hold],
    unadmitted: unadmitted_pods.UnadmittedPods,
    unreadable: unreadable_pods.UnreadablePods,
    assumed: Collection[str],
) -> list[holds.Hold]:
    """Return what pods of a node are charged in place of what is known, given the node's present state.

    `assumed` are the pods whose bind is under way.
    """
    device, plugged = (info.device, info.plugged) if info is not None else (None, None)
    free = unadmitted.free(info, assumed)
    found = []
    for one in known:
        hold = unadmitted.full_hold(one)
        if hold.uid in unreadable:
            hold = unreadable.current_hold(hold.uid, device, plugged)
        found.append(unadmitted.charged_hold(hold, free))
    return found
