"""What a search remembers of a signature: scores, why nodes refused, and which nodes are searched last.

How much memory that takes is counted roughly; without room the least recently used is forgotten.
"""

import collections
import contextlib
import dataclasses
from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Final

import numpy as np

from berth_operator.scheduling import node_scores, node_table, signatures
from berth_operator.scheduling.decisions import NodeReason, Reason
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.workload_model import WorkloadModel

REMEMBERED_BYTES: Final = 48 << 20
MOST_REMEMBERED: Final = 2048
BYTES_PER_TERM: Final = 128  # A label, a model, a uuid, a toleration that a signature names.
BYTES_PER_NODE: Final = 12  # A score and a slot.
BYTES_PER_FIGURE: Final = 8  # Of a node, for a preference.
BYTES_PER_REASON: Final = 160
BYTES_PER_DEVICE: Final = 160  # Of an equivalence class; likewise of an instance or a virtual function.
MOST_CLASSES: Final = 32
# For how many signatures nodes are remembered that are searched last, and how many nodes for each.
MOST_SIGNATURES: Final = 256
MOST_TO_SEARCH_LAST: Final = 64
# A node is searched last for all signatures once so many more of its searches have ended undecided than not.
# Those that it may be ahead are bounded, so that it comes back after a few answers.
SLOW_FROM: Final = 3
MOST_AHEAD: Final = 16
MOST_RETRIES: Final = 3  # Of a node whose search ends undecided, until it changes.

INFEASIBLE: Final = -1.0  # Below every score.
INFEASIBLE_FOR_NUMPY: Final = np.array(INFEASIBLE)  # For numpy, which takes longer with a number of Python.


class ReasonsByClass:
    """Why the nodes of an equivalence class refuse; of few classes, since each is large.

    The least recently used one makes room, so that a node which changes all the time drives out none
    of those that others share.
    """

    def __init__(self) -> None:
        self._found: collections.OrderedDict[Hashable, tuple[NodeReason, int]] = collections.OrderedDict()
        self.bytes = 0  # Roughly.

    def __len__(self) -> int:
        """Count the classes."""
        return len(self._found)

    def get(self, equivalence_class: Hashable) -> NodeReason | None:
        """Return why the nodes of a class refuse, if that is remembered."""
        if (found := self._found.get(equivalence_class)) is None:
            return None
        self._found.move_to_end(equivalence_class)
        return found[0]

    def remember(self, equivalence_class: Hashable, reason: NodeReason, devices: int) -> None:
        """Remember why the nodes of a class refuse, of which each has so many devices and parts of them."""
        if equivalence_class is None:
            return
        size = BYTES_PER_REASON + BYTES_PER_DEVICE * devices
        self._found[equivalence_class] = reason, size
        self.bytes += size
        if len(self._found) > MOST_CLASSES:
            self._forget(next(iter(self._found)))

    def forget_undecided(self) -> None:
        """Let one node of each class that is undecided be searched again."""
        for one in [one for one, (why, _) in self._found.items() if why[0] is Reason.UNDECIDED]:
            self._forget(one)

    def _forget(self, equivalence_class: Hashable) -> None:
        self.bytes -= self._found.pop(equivalence_class)[1]


@dataclasses.dataclass(slots=True)
class CachedScores:
    """The scores of all nodes for one signature, by position, as of a version of the node table.

    They are void under another policy or workload model. What single nodes answered is kept by row.
    """

    signature: signatures.Signature
    policy: Policy
    scorer: node_scores.Scorer
    workload: WorkloadModel
    score: node_table.Scores
    slot: node_table.Counts  # The first device to try on a node, where the strategy names one (`has_slots`).
    version: int
    score_epoch: int  # Of the inventory: when it has risen, these scores are void.
    # Where they depend on the measured load: as of which version of its log, else None.
    load_log_version: int | None = None
    volume_version: int = 0  # Of the volumes, where the pod has claims.
    has_slots: bool = False
    # The preferences that apply, by name, as of a version of the preference index.
    preferences: tuple[str, ...] = ()
    preference_version: int = -1
    # The figures of those that depend on each node alone, before they are weighed.
    raw_scores: dict[str, node_table.Scores] = dataclasses.field(default_factory=dict)
    feasible: node_table.Mask | None = None  # The nodes that pass the filters; only if a preference applies.
    reasons_by_row: dict[int, NodeReason] = dataclasses.field(
        default_factory=dict
    )  # Of nodes that were searched.
    reasons_by_class: ReasonsByClass = dataclasses.field(default_factory=ReasonsByClass)
    # How often the search of a node has ended undecided since the node changed.
    undecided_tries_by_row: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
    counted_bytes: int = 0  # Bytes, when the search last counted them.

    def rows_to_retry(self) -> list[int]:
        """Return the rows of nodes whose search has ended undecided `MOST_RETRIES` times at most."""
        return [row for row, tries in self.undecided_tries_by_row.items() if tries <= MOST_RETRIES]

    @property
    def passes_anywhere(self) -> bool:
        """Whether any node passes the filters, or its search has ended undecided."""
        return bool(self.undecided_tries_by_row) or bool((self.score != INFEASIBLE_FOR_NUMPY).any())

    def take_over_reasons(
        self, before: "CachedScores", changed: Collection[int], positions: node_table.Numbers
    ) -> None:
        """Let nodes refuse as they did when they were searched, except those of rows that have changed."""
        self.reasons_by_row = {row: why for row, why in before.reasons_by_row.items() if row not in changed}
        self.reasons_by_class = before.reasons_by_class
        self.score[positions[list(self.reasons_by_row)]] = INFEASIBLE
        for row in before.undecided_tries_by_row.keys() & self.reasons_by_row.keys():
            self.undecided_tries_by_row[row] = before.undecided_tries_by_row[row]

    def remember_reason(self, row: int, reason: NodeReason, *, is_retried: bool) -> None:
        """Record why a node refused: it is not searched again until it changes, unless it is retried.

        It is retried, by the third pass, where time may have left it undecided.
        """
        if is_retried:
            self.undecided_tries_by_row[row] += 1
        self.reasons_by_row[row] = reason

    @contextlib.contextmanager
    def hiding(self, positions: node_table.Numbers) -> Iterator[None]:
        """Hide some nodes from the search in the block."""
        if not positions.size:
            yield
            return
        scores = self.score[positions]
        self.score[positions] = INFEASIBLE
        try:
            yield
        finally:
            self.score[positions] = scores

    def made_under(self, policy: Policy, workload: WorkloadModel) -> bool:
        """Whether the scores were made under this policy and this workload model."""
        same_policy = self.policy is policy or self.policy == policy
        return same_policy and (self.workload is workload or self.workload == workload)

    @property
    def bytes(self) -> int:
        """Roughly how much memory the scores and their signature take."""
        reasons = BYTES_PER_REASON * len(self.reasons_by_row) + self.reasons_by_class.bytes
        per_node = BYTES_PER_NODE + BYTES_PER_FIGURE * len(self.raw_scores)
        return BYTES_PER_TERM * self.signature.size + per_node * len(self.score) + reasons


class ScoresBySignature:
    """The scores of those signatures that were asked for last, as many as their memory allows."""

    def __init__(self) -> None:
        self._cached: collections.OrderedDict[signatures.Signature, CachedScores] = collections.OrderedDict()
        self.bytes = 0  # Of all, roughly.

    def __len__(self) -> int:
        """Count the signatures."""
        return len(self._cached)

    def __iter__(self) -> Iterator[CachedScores]:
        """Return the scores, the least recently used first."""
        return iter(self._cached.values())

    def get(self, signature: signatures.Signature) -> CachedScores | None:
        """Return the scores of a signature, if there are any."""
        return self._cached.get(signature)

    def put(self, cached: CachedScores) -> None:
        """Remember scores in place of the signature's earlier ones; without room the oldest are forgotten."""
        self._forget(cached.signature)
        self._cached[cached.signature] = cached
        self.update_bytes(cached)
        while len(self._cached) > (1 if self.bytes > REMEMBERED_BYTES else MOST_REMEMBERED):
            self._forget(next(iter(self._cached)))

    def mark_used(self, cached: CachedScores) -> None:
        """Record that these scores are in use."""
        self._cached.move_to_end(cached.signature)

    def update_bytes(self, cached: CachedScores) -> None:
        """Count what is remembered of a signature as it is now."""
        self.bytes += cached.bytes - cached.counted_bytes
        cached.counted_bytes = cached.bytes

    def _forget(self, signature: signatures.Signature) -> None:
        if (cached := self._cached.pop(signature, None)) is not None:
            self.bytes -= cached.counted_bytes
            cached.counted_bytes = 0


class NodesToSearchLast:
    """Which nodes were undecided when they were last searched: the next time they are searched last.

    Unlike scores this outlasts changes of a node. Otherwise a node whose devices are hard to search
    and change all the time would take the time of a pod again and again, and no other would be searched.
    A node that is undecided again and again is slow: it would take that time from each new signature.
    """

    def __init__(self) -> None:
        self._names: collections.OrderedDict[signatures.Signature, dict[str, None]] = (
            collections.OrderedDict()
        )
        # For a node how many more of its searches have ended undecided than not, whatever the signature.
        self._ahead: dict[str, int] = {}

    def note(self, signature: signatures.Signature, name: str, *, undecided: bool) -> None:
        """Record whether the search of a node ended undecided."""
        if undecided or name in self._ahead:
            self._count(name, 1 if undecided else -1)
        if not undecided:
            if self._names:
                self._names.get(signature, {}).pop(name, None)
            return
        names = self._names.setdefault(signature, {})
        self._names.move_to_end(signature)
        names.pop(name, None)
        names[name] = None
        if len(names) > MOST_TO_SEARCH_LAST:
            del names[next(iter(names))]
        if len(self._names) > MOST_SIGNATURES:
            self._names.popitem(last=False)

    def _count(self, name: str, step: int) -> None:
        ahead = min(self._ahead.pop(name, 0) + step, MOST_AHEAD)
        if ahead > 0:
            self._ahead[name] = ahead
        if len(self._ahead) > MOST_TO_SEARCH_LAST:
            del self._ahead[next(iter(self._ahead))]

    def of_any(self, asked: Iterable[signatures.Signature]) -> Collection[str]:
        """Return the nodes that are searched last for any of these signatures."""
        return {name for one in asked for name in self._names.get(one, ())} if self._names else ()

    def slow(self) -> Collection[str]:
        """Return the nodes that are searched last for all signatures."""
        return [name for name, ahead in self._ahead.items() if ahead >= SLOW_FROM]


def index_of(rows: set[int]) -> node_table.Rows:
    """Return an index of some rows; of adjacent ones that is a slice, which copies nothing."""
    first, last = min(rows), max(rows)
    if last - first + 1 == len(rows):
        return slice(first, last + 1)
    return np.array(sorted(rows), dtype=np.int64)
