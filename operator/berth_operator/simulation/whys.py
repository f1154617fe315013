"""Why a pod does not fit, as the core explains it, in the words that are printed.

Pods that ask for the same share one explanation until something is placed: in a full
cluster that is most of them. What is said of every single node is worked out only when it
is to be printed. Usual pods take milliseconds; one that takes longer than it may is told of
as far as that went, and so is each further one once all together have taken too long.
"""

import dataclasses
import itertools
from typing import Final

from berth_operator.scheduling import decisions, explain, queued_pods
from berth_operator.scheduling.devices import allocator
from berth_operator.scheduling.explain import clauses
from berth_operator.simulation import cluster

# Up to how many nodes every card of each is looked at, and not only those of the nearest.
NONE: Final = 0  # Where only the nearest is told.
FEW: Final = 128  # Where all are told: of more nodes it would be more than anybody reads.
ALL: Final = 1 << 30
# How long finding out may take: for one pod, for all of one run, and for one more when that is over.
EACH_SECONDS: Final = 1.0
ALL_SECONDS: Final = 10.0
LEAST_SECONDS: Final = 0.05
UNFINISHED: Final = "what would help was not found out in the time there is for one pod"


@dataclasses.dataclass(frozen=True, slots=True)
class Why:
    """Why one pod was refused; without an explanation its request itself is at fault.

    `late` tells that the explanation was cut short by time.
    """

    candidate: queued_pods.Candidate
    faults: tuple[decisions.Refusal, ...] = ()
    told: explain.Explanation | None = None
    late: bool = False

    @property
    def rejected(self) -> bool:
        """Whether only an edit of the pod can help."""
        return self.told is None

    @property
    def sentence(self) -> str:
        """Return in a sentence why."""
        if self.told is None:
            return explain.sentence(decisions.Reject(self.candidate.uid, self.faults), self.candidate)
        return explain.brief(self.told.counts, self.candidate, self.told.models)

    @property
    def refusals(self) -> tuple[decisions.Refusal, ...]:
        """List what each node says, and then each of its cards that is in the way."""
        if self.told is None:
            return self.faults
        spoken = tuple(itertools.chain.from_iterable(map(_node_first, self.told.nodes)))
        return explain.refusals(dataclasses.replace(self.told, nodes=spoken), self.candidate)

    @property
    def nearest(self) -> str:
        """Return what comes nearest, if anything does."""
        return explain.nearest(self.told.nearest) if self.told and self.told.nearest else ""

    @property
    def change(self) -> str:
        """Return the smallest change that would help, if any would, or that there was no time for it."""
        if self.told and self.told.changes:
            return changed(self.told.changes[0])
        return UNFINISHED if self.late else ""

    @property
    def help(self) -> str:
        """Return both, if there is anything to say."""
        return "; ".join(said for said in (self.nearest, self.change) if said)

    @property
    def table(self) -> str:
        """Lay out what each card says."""
        return explain.table(self.told) if self.told else ""


def _node_first(found: explain.Finding) -> tuple[explain.Finding, ...]:
    """Let a node give its own reason before its cards give theirs, unless that is the same."""
    against = found.shortfall.against if found.shortfall else ()
    if not against or found.reason in {verdict.reason for verdict in against}:
        return (found,)
    return dataclasses.replace(found, shortfall=None), found


def changed(change: explain.Change) -> str:
    """Return what would help."""
    nodes = clauses.reach(change)
    return f"would fit{f' on {nodes}' if nodes else ''} if {clauses.clause(change)}"


class Explainer:
    """Explains refusals; where there are at most `whole` nodes it looks at every card of each."""

    def __init__(self, paper: cluster.Cluster, *, whole: int) -> None:
        self._paper = paper
        self._whole = whole
        self._known: dict[object, tuple[explain.Explanation, bool]] = {}
        self._version = 0
        self._used = 0.0  # Seconds, by all explanations.

    def why(self, candidate: queued_pods.Candidate, answer: decisions.Wait | decisions.Reject) -> Why:
        """Explain a refusal on the picture as it is now."""
        if isinstance(answer, decisions.Reject):
            return Why(candidate, answer.refusals)
        version = self._paper.inventory.table.version
        if version != self._version:
            self._known, self._version = {}, version
        asked = candidate.request, candidate.demand, self._paper.ledger.policy
        if asked not in self._known:
            self._known[asked] = self._explain(candidate)
        told, late = self._known[asked]
        return Why(candidate, told=told, late=late)

    def _explain(self, candidate: queued_pods.Candidate) -> tuple[explain.Explanation, bool]:
        """Explain, and tell whether time has cut it short."""
        paper, clock = self._paper, self._paper.clock
        whole = len(paper.inventory.index) <= self._whole
        began = clock()
        seconds = max(LEAST_SECONDS, min(EACH_SECONDS, ALL_SECONDS - self._used))
        effort = explain.work(whole=whole, expired=allocator.stopwatch(clock, seconds))
        told = explain.explain(
            paper.search, candidate, policy=paper.ledger.policy, whole=whole, effort=effort
        )
        self._used += clock() - began
        return told, effort.late
