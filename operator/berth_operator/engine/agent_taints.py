"""Which Nodes are to have the taint that says that their agent is silent.

The policy decides whether any has it. What is not known for sure changes nothing: a taint stays while it is
unknown whether the agent is back, and none is added then, so that neither a restart of the operator nor a
mass silence touches a Node.
"""

import enum

from berth_operator.scheduling import node_info
from berth_operator.scheduling.liveness import State
from berth_operator.scheduling.policy import Policy


class TaintReason(enum.Enum):
    """Whether a Node is to have the taint, and why."""

    UNKNOWN = "whether its agent is silent is not known"
    SILENT = "its agent is silent"
    READY = "its agent reports again"
    NOT_ASKED_FOR = "the policy does not ask for it"
    NO_DEVICE = "it has no Device any more"

    @property
    def tainted(self) -> bool:
        """Whether the Node is to have it."""
        return self is TaintReason.SILENT


def judge(info: node_info.NodeInfo, state: State, policy: Policy) -> TaintReason:
    """Return whether a node is to have the taint; `state` is what is known for sure of its agent."""
    if info.published is None:
        return TaintReason.NO_DEVICE
    if not policy.taint_silent:
        return TaintReason.NOT_ASKED_FOR
    match state:
        case State.READY:
            return TaintReason.READY
        case State.UNKNOWN:
            return TaintReason.UNKNOWN
        case State.SILENT:
            return TaintReason.SILENT


def change(info: node_info.NodeInfo, state: State, policy: Policy) -> TaintReason | None:
    """Return the reason of a node whose taints are to be changed; None for all others."""
    if info.node is None or (reason := judge(info, state, policy)) is TaintReason.UNKNOWN:
        return None
    return reason if reason.tainted is (info.node.silent_taint is None) else None
