"""The order in which the dry runs of a namespace are sent.

No card is kept for a dry run, so the order need not be that of the backlog. If a server refuses the
binds of hundreds of pods, the few that it would accept should be found soon, wherever they are in the
backlog. Pods with the same request and priority are likely to get the same answer: so the kinds take
turns, and of each kind the first and the last take turns.
"""

import collections
import dataclasses

from berth_operator.scheduling import decisions, queued_pods

Kind = tuple[object, int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class DryRun:
    """A pod, and where the server is asked to bind it."""

    candidate: queued_pods.Candidate
    placement: decisions.Placement


@dataclasses.dataclass(slots=True)
class _KindQueue:
    """The dry runs of one kind of pods."""

    dry_runs: collections.deque[DryRun] = dataclasses.field(default_factory=collections.deque)
    take_last: bool = False  # Whether the last one comes next.

    def pop(self) -> DryRun:
        found = self.dry_runs.pop() if self.take_last else self.dry_runs.popleft()
        self.take_last = not self.take_last
        return found


class DryRunQueue:
    """The dry runs of one namespace that are not sent yet."""

    def __init__(self) -> None:
        self._kinds: dict[Kind, _KindQueue] = {}  # The kind that comes next is the first.

    def __bool__(self) -> bool:
        """Whether any dry run waits."""
        return bool(self._kinds)

    def push(self, dry_run: DryRun) -> None:
        """Add a dry run."""
        candidate = dry_run.candidate
        self._kinds.setdefault(
            (candidate.asks, candidate.priority, candidate.label), _KindQueue()
        ).dry_runs.append(dry_run)

    def pop(self) -> DryRun:
        """Remove the next dry run, and return it."""
        kind = next(iter(self._kinds))
        queue = self._kinds.pop(kind)
        found = queue.pop()
        if queue.dry_runs:
            self._kinds[kind] = queue
        return found
