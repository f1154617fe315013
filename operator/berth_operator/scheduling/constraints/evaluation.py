"""Reasons of no constraint: the search ended early, there are no nodes, or the request is at fault."""

from berth_operator.scheduling.constraints.constraint import Constraint
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.wording import invariant, nodes_that

CONSTRAINT = Constraint(
    words={
        Reason.UNDECIDED: nodes_that(
            "was not fully evaluated (time limit)", "were not fully evaluated (time limit)"
        ),
        Reason.NO_NODES: lambda *_: "there are no nodes",
        Reason.INVALID_REQUEST: invariant("cannot serve an invalid request"),
        Reason.UNSUPPORTED_REQUEST: invariant("cannot serve this kind of request"),
        Reason.UNSUPPORTED_CONSTRAINT: invariant(
            "cannot be evaluated: the pod uses an unsupported constraint"
        ),
        Reason.TOO_MUCH_TOGETHER: nodes_that(
            "was not evaluated (too many long requests wait)",
            "were not evaluated (too many long requests wait)",
        ),
    },
    brief={
        Reason.UNDECIDED: "not fully evaluated",
        Reason.NO_NODES: "no nodes",
        Reason.INVALID_REQUEST: "invalid request",
        Reason.UNSUPPORTED_REQUEST: "request not supported",
        Reason.UNSUPPORTED_CONSTRAINT: "constraint not supported",
        Reason.TOO_MUCH_TOGETHER: "request not stored",
    },
)
