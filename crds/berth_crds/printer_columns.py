"""The columns of `kubectl get devices`, `gpupods` and `placementpolicies`.

After a change here `make crds` writes them into the CRDs.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`; with `wide`, only of `kubectl get -o wide`."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    wide: bool = False


def _condition(name: str) -> str:
    return f'.status.conditions[?(@.type=="{name}")].status'


_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date", "Time since the object was made.")

DEVICE: Final = (
    Column("Models", ".spec.summary.models", description="Models and how many of each."),
    Column("GPUs", ".spec.summary.gpus", "integer", "Cards of the node."),
    Column("Free", ".status.summary.free", "integer", "Cards of which no pod holds anything."),
    Column("In-Use", ".status.summary.inUse", description="Cards that pods hold, parts added up."),
    Column("Healthy", ".status.summary.healthy", "integer", "Cards that are healthy."),
    Column("Ready", _condition("Ready"), description="Whether its cards can be given out."),
    _AGE,
    Column("Driver", ".spec.driver.version", description="Version of the driver.", wide=True),
    Column("CUDA", ".spec.driver.cuda", description="Newest CUDA that it supports.", wide=True),
    Column("Sharing", ".spec.summary.sharing", description="How the cards are shared.", wide=True),
    Column("Reason", ".status.summary.reason", description="Why cards get no new pods.", wide=True),
)
GPU_POD: Final = (
    Column("Phase", ".status.phase", description="Phase of the pod."),
    Column("Node", ".spec.node", description="Node that the pod is bound to."),
    Column("Minors", ".status.minors", description="Minors of the GPUs that it was given."),
    Column("Share", ".status.share", description="How much of each, where that is not all of it."),
    Column("Verified", _condition("Verified"), description="Whether it holds what it was given."),
    _AGE,
)
PLACEMENT_POLICY: Final = (
    Column("Strategy", ".spec.strategy", description="How nodes are ranked."),
    Column("Accepted", _condition("Accepted"), description="Whether the rules are in force."),
    _AGE,
)
