"""A small cluster with volumes, and where a pod may go there."""

from typing import Any, Final

import numpy as np

from berth_operator.scheduling import explain, queued_pods, signatures
from berth_operator.scheduling.constraints import registry
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.search import Search
from scheduling.placements import RULES
from support import builders
from support import volumes as make

OLD_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
HOST: Final = "kubernetes.io/hostname"
NODES: Final = {
    "n1": {make.ZONE: "a", HOST: "n1"},
    "n2": {make.ZONE: "b", HOST: "n2"},
    "n3": {HOST: "n3"},
    "n4": {OLD_ZONE: "a", HOST: "n4"},
}
ALL: Final = tuple(NODES)
OWNER: Final = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
OWNED: Final = {"ownerReferences": [OWNER]}
DELETED: Final = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
IN_A: Final = {"matchLabels": {make.ZONE: "a"}}
ONLY_A: Final = [{"matchLabelExpressions": [{"key": make.ZONE, "values": ["a"]}]}]
LATE, LOCAL = make.storage_class(), make.storage_class(make.LOCAL, provisioner="kubernetes.io/no-provisioner")
SOON: Final = make.storage_class("soon", waits=False)
EPHEMERAL: Final[dict[str, Any]] = {"owned_by": "uid-p"}
HERE: Final = "0/4 nodes are available: "


def cluster(*objects: make.Object | str) -> Inventory:
    """Return four nodes with cards, and what is known of volumes."""
    devices = (builders.device(name) for name in NODES)
    inventory = builders.inventory(
        *(builders.node(name, labels=labels) for name, labels in NODES.items()), *devices
    )
    make.put(inventory.volumes, *objects)
    return inventory


def feasible(inventory: Inventory, pod_info: queued_pods.PodInfo) -> tuple[str, ...]:
    """Return the nodes that pass all filters."""
    signature = signatures.of(pod_info.request, pod_info.demand)
    mask = registry.feasible(Query.for_all_nodes(inventory, signature))
    found = (inventory.infos[row] for row in np.flatnonzero(mask).tolist())
    return tuple(sorted(info.name for info in found if info is not None))


def told(inventory: Inventory, pod_info: queued_pods.PodInfo) -> str:
    """Return what a pod is told that waits."""
    found = explain.explain(Search(inventory), pod_info, policy=RULES)
    return explain.sentence(found, pod_info)
