"""What tests of placements share: a look for a place, on all nodes or on one, and what it gave."""

from typing import Any, Final

import hypothesis

from berth_operator.scheduling import decisions, queued_pods
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, device_view, requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from support import random_clusters, thorough

RULES: Final = Policy()
HALF: Final = requests.Gpus(1, core=50, ratio=50)
TENTH: Final = requests.Gpus(1, core=10, ratio=10)
THOROUGH: Final = hypothesis.settings(random_clusters.PROPERTY, max_examples=thorough.examples(100))


def place(
    inventory: Inventory, pod_info: queued_pods.PodInfo, policy: Policy = RULES
) -> decisions.Placement | None:
    """Look for a place."""
    return Search(inventory).place(pod_info.request, pod_info.demand, policy=policy)


def node_of(inventory: Inventory, pod_info: queued_pods.PodInfo) -> str | None:
    """Return the node on which a pod is placed."""
    found = place(inventory, pod_info)
    return found.node if found is not None else None


def minors(placement: decisions.Placement | None) -> list[int] | None:
    """List the minors of a placement."""
    return None if placement is None else [share.minor for share in random_clusters.given(placement)]


# ---------------------------------------------------------------- the devices of one node

Outcome = str | tuple[Reason, bool]


def outcome(view: device_view.View, request: requests.DeviceRequest, **how: Any) -> Outcome:
    """Return the devices that each container gets; or why none does, and whether that is for ever."""
    found = allocator.allocate_or_explain(view, request, **how)
    if isinstance(found, allocator.Shortfall):
        return found.reason, found.never_fits
    return " | ".join(" ".join(map(_written, grant.shares)) for grant in found)


def _written(share: decisions.Share) -> str:
    parts = share.uuid, share.function, "" if share.core == requests.WHOLE else f"{share.core}%"
    return "/".join(part for part in parts if part)


def granted(view: device_view.View, request: requests.DeviceRequest, **how: Any) -> list[decisions.Share]:
    """Return the shares that the containers get, one container after the other."""
    found = allocator.allocate_or_explain(view, request, **how)
    assert not isinstance(found, allocator.Shortfall), found
    return [share for grant in found for share in grant.shares]


def refused(view: device_view.View, request: requests.DeviceRequest, **how: Any) -> allocator.Shortfall:
    """Return why a pod gets nothing."""
    found = allocator.allocate_or_explain(view, request, **how)
    assert isinstance(found, allocator.Shortfall), found
    return found
