"""Which pod of a namespace is asked about next.

Nothing is kept for a dry run, so the order need not be that in which cards are given. Where a
server refuses the binds of hundreds of pods, the few that it would accept should be found soon,
wherever they stand in line. Pods that ask the same and are as important as each other are likely
to get the same answer: so each kind has its turn, and of a kind the first and the last in turns.
"""

import collections
import dataclasses

from berth_operator.scheduling import decisions, queued_pods

Kind = tuple[object, int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class DryRun:
    """A pod and the place of which the server is asked whether it would bind it there."""

    candidate: queued_pods.Candidate
    placement: decisions.Placement


@dataclasses.dataclass(slots=True)
class _KindQueue:
    """The questions of one kind."""

    dry_runs: collections.deque[DryRun] = dataclasses.field(default_factory=collections.deque)
    take_last: bool = False  # Whether the last one comes next.

    def pop(self) -> DryRun:
        found = self.dry_runs.pop() if self.take_last else self.dry_runs.popleft()
        self.take_last = not self.take_last
        return found


class DryRunQueue:
    """The questions of one namespace that wait to be asked."""

    def __init__(self) -> None:
        self._kinds: dict[Kind, _KindQueue] = {}  # The kind that comes next is the first.

    def __bool__(self) -> bool:
        """Return whether any question waits."""
        return bool(self._kinds)

    def push(self, question: DryRun) -> None:
        """Add a question."""
        one = question.candidate
        self._kinds.setdefault((one.asks, one.priority, one.label), _KindQueue()).dry_runs.append(question)

    def pop(self) -> DryRun:
        """Remove the question that comes next, and return it."""
        kind = next(iter(self._kinds))
        line = self._kinds.pop(kind)
        found = line.pop()
        if line.dry_runs:
            self._kinds[kind] = line
        return found
