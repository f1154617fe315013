"""Why a pod does not fit, gathered once and kept as values for text, tables and JSON."""

import dataclasses

from berth_operator.scheduling import backlog, decisions
from berth_operator.simulation import cluster


@dataclasses.dataclass(frozen=True, slots=True)
class Why:
    """A sentence, each node's refusals, the node that came nearest, the smallest change that would help."""

    sentence: str
    refusals: tuple[decisions.Refusal, ...]
    nearest: str = ""
    change: str = ""
    rejected: bool = False


def explain(
    _paper: cluster.Cluster, _candidate: backlog.Candidate, answer: decisions.Wait | decisions.Reject
) -> Why:
    """Explain one refusal."""
    rejected = isinstance(answer, decisions.Reject)
    return Why("; ".join(r.detail or r.reason for r in answer.refusals), (), rejected=rejected)
