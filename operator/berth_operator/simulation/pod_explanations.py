"""Why a pod does not fit, as the core explains it: when it is explained, and how long that may take.

The table that `place --explain` prints of it is made by `scheduling.explain.tables`.

Pods with equal requests share one explanation until something is placed: in a full cluster those
are most pods. The reasons of every single node are computed only if they are printed. Usual pods
take milliseconds; an explanation that exceeds its processor time is printed as far as it got, and so
is each further one once all together have exceeded theirs. What other programs do on the machine
changes nothing.
"""

import dataclasses
import itertools
from typing import Final

from berth_operator.scheduling import decisions, explain, queued_pods
from berth_operator.scheduling.devices import search_effort
from berth_operator.simulation.cluster import Cluster

# Up to how many nodes every card is explained, and not only the nearest.
NEAREST_ONLY: Final = 0  # For text output.
SMALL_CLUSTER: Final = 128  # For JSON: of more nodes it would be more than people read.
EVERY_CLUSTER: Final = 1 << 30
# How long explaining may take: one pod, all pods of a run, and each further pod after that.
POD_SECONDS: Final = 1.0
RUN_SECONDS: Final = 10.0
MIN_SECONDS: Final = 0.05
UNFINISHED: Final = "what would help was not found out in the time there is for one pod"


@dataclasses.dataclass(frozen=True, slots=True)
class PodExplanation:
    """Why one pod was not placed; without an explanation its request itself is invalid.

    `timed_out` says that the explanation stopped at its time limit.
    """

    pod_info: queued_pods.PodInfo
    faults: tuple[decisions.Refusal, ...] = ()
    explanation: explain.Explanation | None = None
    timed_out: bool = False

    @property
    def title(self) -> str:
        """The namespace and name of the pod."""
        return self.pod_info.title

    @property
    def rejected(self) -> bool:
        """Whether only an edit of the pod can help."""
        return self.explanation is None

    @property
    def word(self) -> str:
        """The outcome in a word."""
        return "refused" if self.rejected else "waiting"

    @property
    def sentence(self) -> str:
        """The reason in a sentence."""
        if self.explanation is None:
            return explain.sentence(decisions.Reject(self.pod_info.uid, self.faults), self.pod_info)
        return explain.brief(self.explanation.counts, self.pod_info, self.explanation.models)

    @property
    def refusals(self) -> tuple[decisions.Refusal, ...]:
        """The reason of each node, followed by those of each of its cards that refuses."""
        if self.explanation is None:
            return self.faults
        return explain.refusals(
            dataclasses.replace(
                self.explanation,
                nodes=tuple(itertools.chain.from_iterable(map(_node_first, self.explanation.nodes))),
            ),
            self.pod_info,
        )

    @property
    def nearest(self) -> str:
        """The nearest node, if there is one."""
        return (
            explain.nearest_sentence(self.explanation.nearest)
            if self.explanation and self.explanation.nearest
            else ""
        )

    @property
    def change(self) -> str:
        """The smallest change that would help, if there is one, or that time ran out."""
        if self.explanation and self.explanation.advice:
            return explain.would_fit(self.explanation.advice[0])
        return UNFINISHED if self.timed_out else ""

    @property
    def table(self) -> str:
        """The reason of each card as a table."""
        return explain.table(self.explanation) if self.explanation else ""


def _node_first(found: explain.Finding) -> tuple[explain.Finding, ...]:
    """Return a node's own reason before those of its cards, unless it is the same."""
    against = found.shortfall.verdicts if found.shortfall else ()
    if not against or found.reason in {verdict.reason for verdict in against}:
        return (found,)
    return dataclasses.replace(found, shortfall=None), found


class Explainer:
    """Explains why pods are not placed; by every card if there are at most `detailed_nodes` nodes."""

    def __init__(self, cluster: Cluster, *, detailed_nodes: int) -> None:
        self._cluster = cluster
        self._detailed_nodes = detailed_nodes
        self._cache: dict[object, PodExplanation] = {}
        self._version = 0
        self._used = 0.0  # Seconds, by all explanations.

    def explain_pod(
        self, pod_info: queued_pods.PodInfo, decision: decisions.Wait | decisions.Reject
    ) -> PodExplanation:
        """Return why a pod is not placed on the inventory as it is now."""
        if isinstance(decision, decisions.Reject):
            return PodExplanation(pod_info, decision.refusals)
        version = self._cluster.inventory.table.version
        if version != self._version:
            self._cache, self._version = {}, version
        key = pod_info.request, pod_info.demand, self._cluster.ledger.policy
        if key not in self._cache:
            self._cache[key] = self._explain(pod_info)
        return dataclasses.replace(self._cache[key], pod_info=pod_info)

    def _explain(self, pod_info: queued_pods.PodInfo) -> PodExplanation:
        cluster, clock = self._cluster, self._cluster.clock
        all_nodes = len(cluster.inventory.index) <= self._detailed_nodes
        began = clock()
        effort = explain.effort_outside_rounds(
            all_nodes=all_nodes,
            expired=search_effort.timer(clock, max(MIN_SECONDS, min(POD_SECONDS, RUN_SECONDS - self._used))),
        )
        explanation = explain.explain(
            cluster.ledger.search, pod_info, policy=cluster.ledger.policy, all_nodes=all_nodes, effort=effort
        )
        self._used += clock() - began
        return PodExplanation(pod_info, explanation=explanation, timed_out=effort.out_of_time)
