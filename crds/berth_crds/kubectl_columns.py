"""The columns that `kubectl get devices`, `kubectl get gpupods` and `kubectl get placementpolicies` print.

A column can show a field as it is, and neither count nor join: what takes more than that is a summary
that the agent or the operator writes into the object.
"""

from typing import Any, Final

Column = dict[str, Any]


def _column(name: str, path: str, description: str, *, kind: str = "string", wide: bool = False) -> Column:
    """Return one column of `kubectl get`; with `wide`, only of `kubectl get -o wide`."""
    column = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return {**column, "priority": 1} if wide else column


def _condition(name: str) -> str:
    return f'.status.conditions[?(@.type=="{name}")].status'


_AGE: Final = _column("Age", ".metadata.creationTimestamp", "Age of the object.", kind="date")

DEVICE: Final = (
    _column("Models", ".spec.summary.models", "Models and how many of each."),
    _column("GPUs", ".spec.summary.gpus", "Number of GPUs on the node.", kind="integer"),
    _column("Free", ".status.summary.free", "GPUs of which no pod holds anything.", kind="integer"),
    _column("In-Use", ".status.summary.inUse", "GPUs that pods hold, with parts added up."),
    _column("Healthy", ".status.summary.healthy", "GPUs that are healthy.", kind="integer"),
    _column("Ready", _condition("Ready"), "Whether pods can be given cards of this node."),
    _AGE,
    _column("Driver", ".spec.driver.version", "Version of the driver.", wide=True),
    _column("CUDA", ".spec.driver.cuda", "Newest CUDA version that the driver supports.", wide=True),
    _column("Sharing", ".spec.summary.sharing", "How the cards are shared.", wide=True),
    _column("Reason", ".status.summary.reason", "Why cards are not given to new pods.", wide=True),
)
GPU_POD: Final = (
    _column("Phase", ".status.phase", "Phase of the pod."),
    _column("Node", ".spec.node", "Node that the pod is bound to."),
    _column("Minors", ".status.minors", "Minors of the GPUs that it was given."),
    _column("Share", ".status.share", "Share of each GPU, where that is not all of it."),
    _column("Verified", _condition("Verified"), "Whether it holds exactly the devices that it was given."),
    _AGE,
)
PLACEMENT_POLICY: Final = (
    _column("Strategy", ".spec.strategy", "How nodes are ranked."),
    _column("Accepted", _condition("Accepted"), "Whether the policy is in force."),
    _AGE,
)
