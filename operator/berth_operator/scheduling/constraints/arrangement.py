"""How the devices belong together: scope, NVLink partitions, joint and exclusive devices, labels.

Only a search on the node itself tells whether a fitting set of devices is free.
"""

import dataclasses
from collections.abc import Iterator
from typing import Final

from berth_crds import card_part, names
from berth_crds.vocabulary import PartitionChoice
from berth_operator.scheduling import changes, queued_pods
from berth_operator.scheduling.constraints.constraint import Constraint, FailedPlacement
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.deficits import CARDS
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.wording import have, listed, noun, of_devices

SCOPES = {
    "device": "card",
    "numa": "NUMA node",
    "pcie": "PCIe root",
    "nvlink": "NVLink group",
    "node": "node",
}


def within(pod: queued_pods.PodInfo) -> str:
    """Return within what the cards of a pod must be."""
    return f"within one {SCOPES.get(pod.request.grouping.scope or '', 'scope')}"


def joint(pod: queued_pods.PodInfo) -> str:
    """Return which devices of a pod must share a PCIe root."""
    return listed(pod.request.grouping.joint) or "devices"


STILL_PARTITION_COST: Final = changes.CONDITION_COST / 2  # It keeps a part of the condition.
ANY_SCORE: Final = (
    (
        "partition",
        STILL_PARTITION_COST,
        f"any partition would do ({names.PARTITION}: {PartitionChoice.BEST_EFFORT})",
    ),
)
SCOPE_DROPPED: Final = (
    ("scope", changes.CONDITION_COST, f"the required scope ({names.SCOPE}) were removed"),
)
DROPPED: Final = (
    ("partition", changes.CONDITION_COST, f"the condition on partitions ({names.PARTITION}) were removed"),
    ("ring_bandwidth", STILL_PARTITION_COST, f"{names.RING_BANDWIDTH} were removed"),
    ("joint", changes.CONDITION_COST, "the devices did not have to share a PCIe root"),
    (
        "exclusive",
        changes.CONDITION_COST,
        f"the condition on exclusive devices ({names.EXCLUSIVE}) were removed",
    ),
    ("labels", changes.WHOLE_COST, "the condition on labels were dropped"),
    ("function_labels", changes.WHOLE_COST, "the condition on labels of virtual functions were dropped"),
)


def relaxations(failed: FailedPlacement) -> Iterator[changes.ProposedChange]:
    """Yield what the pod could do without; a scope that is only preferred keeps it from no node."""
    grouping = failed.request.grouping
    fields = (*(SCOPE_DROPPED if grouping.required else ()), *DROPPED)
    yield from changes.dropped(grouping, requests.NO_GROUPING, "grouping", fields)
    if grouping.partition is PartitionChoice.RESTRICTED:
        any_score = dataclasses.replace(requests.NO_GROUPING, partition=PartitionChoice.BEST_EFFORT)
        yield from changes.dropped(grouping, any_score, "grouping", ANY_SCORE)


def partition(pod: queued_pods.PodInfo) -> str:
    """Return which partition a pod asks for."""
    grouping = pod.request.grouping
    best = " of the best score" if grouping.partition is PartitionChoice.RESTRICTED else ""
    wide = (
        f" with {card_part.memory_amount(grouping.ring_bandwidth, up=True)}/s"
        if grouping.ring_bandwidth
        else ""
    )
    count = pod.request.need.whole_cards
    return f"NVLink partition of {count} {noun(CARDS, count)}{best}{wide}"


CONSTRAINT = Constraint(
    only_device_pods_lift_it=True,
    applies_to=lambda signature: not signature.need.filters_suffice,
    relaxations=relaxations,
    words={
        Reason.SCOPE_MISMATCH: lambda nodes, pod, _: f"{have(nodes)} too few free cards {within(pod)}",
        Reason.NO_PARTITION: lambda nodes, pod, _: f"{have(nodes)} no free {partition(pod)}",
        Reason.NO_ROOT: lambda nodes, pod, _: (
            f"{have(nodes)} too few free {joint(pod)} on the same PCIe root"
        ),
        Reason.ROOT_IN_USE: of_devices("too few {} below PCIe roots that no other pod uses"),
        Reason.LABEL_MISMATCH: of_devices("too few {} with the labels asked for"),
    },
    brief={
        Reason.SCOPE_MISMATCH: "too few close together",
        Reason.NO_PARTITION: "no free partition",
        Reason.NO_ROOT: "not on the same PCIe root",
        Reason.ROOT_IN_USE: "another pod is below its PCIe root",
        Reason.LABEL_MISMATCH: "other labels",
    },
)
