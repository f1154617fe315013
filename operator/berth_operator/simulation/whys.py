"""Why a pod does not fit, as the core explains it, kept as words for tables, text and JSON.

Pods that ask for the same share one explanation until something is placed: in a full
cluster that is most of them.
"""

import dataclasses
from typing import Final

from berth_operator.scheduling import backlog, decisions, explain
from berth_operator.scheduling.explain import clauses
from berth_operator.simulation import cluster


@dataclasses.dataclass(frozen=True, slots=True)
class Why:
    """A sentence, each node's and card's refusals, what is nearest, the smallest changes that would help."""

    sentence: str
    refusals: tuple[decisions.Refusal, ...]
    nearest: str = ""
    changes: tuple[str, ...] = ()
    table: str = ""
    rejected: bool = False

    @property
    def help(self) -> str:
        """Say what comes nearest and what would help most, if anything does."""
        return "; ".join(filter(None, (self.nearest, *self.changes[:1])))


# In a larger cluster every card of every node would be more than anybody reads.
SMALL: Final = 128


class Explainer:
    """Explains refusals; with `whole`, or in a small cluster, it looks at every card of every node."""

    def __init__(self, paper: cluster.Cluster, *, whole: bool) -> None:
        self._paper = paper
        self._whole = whole
        self._known: dict[object, Why] = {}
        self._version = 0

    def why(self, candidate: backlog.Candidate, answer: decisions.Wait | decisions.Reject) -> Why:
        """Explain a refusal on the picture as it is now."""
        if isinstance(answer, decisions.Reject):
            return Why(explain.sentence(answer, candidate), answer.refusals, rejected=True)
        version = self._paper.picture.columns.version
        if version != self._version:
            self._known, self._version = {}, version
        asked = candidate.request, candidate.demand, self._paper.book.rules
        if asked not in self._known:
            self._known[asked] = self._waiting(candidate)
        return self._known[asked]

    def _waiting(self, candidate: backlog.Candidate) -> Why:
        rules = self._paper.book.rules
        whole = self._whole or len(self._paper.picture.index) <= SMALL
        told = explain.explain(self._paper.places, candidate, rules=rules, whole=whole)
        return Why(
            sentence=explain.brief(told.counts, candidate),
            refusals=explain.refusals(told, candidate),
            nearest=explain.nearest(told.nearest) if told.nearest else "",
            changes=tuple(map(changed, told.changes)),
            table=explain.table(told),
        )


def changed(change: explain.Change) -> str:
    """Say what would help."""
    nodes = clauses.reach(change)
    return f"would fit{f' on {nodes}' if nodes else ''} if {clauses.clause(change)}"


def brief(candidate: backlog.Candidate, answer: decisions.Wait | decisions.Reject) -> str:
    """Say in a sentence why a pod was refused, from what the decision itself says."""
    if isinstance(answer, decisions.Reject):
        return explain.sentence(answer, candidate)
    return explain.brief(answer.counts, candidate)
