"""Records of decisions: metrics, and the last decisions for the debug pages.

The inputs of each decision are shown as a digest: two decisions with the same version of the
inventory, the same workload model and the same request had the same inputs. The values behind it are
frozen, so keeping them costs a reference, and the digest itself is only computed when it is read.
"""

import collections
import dataclasses
import datetime as dt
import functools
import hashlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, assert_never

from berth_operator import metrics
from berth_operator.engine import ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions, queued_pods, workload_model

# One decision of a round, and the version of the inventory that it depends on.
RoundDecision = tuple[decisions.Decision, int]

MOST_KEPT: Final = 1000
MOST_TERMS: Final = 1 << 16  # That the kept requests name, together.
MOST_DIGESTS: Final = 128
DIGITS: Final = 12


@dataclasses.dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One decision, when it was made, and its inputs; `version` is that of the inventory."""

    moment: dt.datetime
    pod_info: queued_pods.PodInfo
    decision: decisions.Decision
    version: int
    model: workload_model.WorkloadModel

    @property
    def inputs(self) -> dict[str, Any]:
        """The inputs of the decision, as digests."""
        return {
            "inventory": self.version,
            "workload_model": digest(self.model),
            "request": digest((self.pod_info.request, self.pod_info.demand)),
        }


@functools.lru_cache(maxsize=MOST_DIGESTS)
def digest(value: Hashable) -> str:
    """Return a short digest of a frozen value, the same for equal values in every process."""
    return hashlib.sha256(repr(_plain(value)).encode()).hexdigest()[:DIGITS]


def _plain(value: Any) -> Any:
    """Return a value with its sets in order."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inside = [(one.name, _plain(getattr(value, one.name))) for one in dataclasses.fields(value)]
        return (type(value).__name__, *inside)
    if isinstance(value, set | frozenset):
        return sorted(repr(_plain(one)) for one in value)
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else value


class DecisionRecords:
    """Records rounds and the outcomes of binds."""

    def __init__(self, counts: metrics.Scheduling, *, wall: Callable[[], dt.datetime]) -> None:
        self._metrics = counts
        self._wall = wall
        self.decisions: collections.deque[DecisionRecord] = collections.deque()
        self._terms = 0

    def record_round(
        self, ledger: Ledger, made: Sequence[RoundDecision], *, started: float, ended: float
    ) -> None:
        """Record a round once its binds are assumed, and before other pods are requeued."""
        if not made:
            return
        self._metrics.round_made(len(made), ended - started)
        moment, model = self._wall(), ledger.inventory.workload_model()
        for decision, version in made:
            if (unbound := ledger.unbound(decision.uid)) is not None:
                pod_info, attempts = unbound
                self._keep(DecisionRecord(moment, pod_info, decision, version, model))
                self._count(ledger, decision, attempts, ended)

    def _keep(self, record: DecisionRecord) -> None:
        """Keep a decision, and the last ones before it: fewer of them where requests are long."""
        self.decisions.append(record)
        self._terms += _size(record.pod_info)
        while len(self.decisions) > MOST_KEPT or (self._terms > MOST_TERMS and len(self.decisions) > 1):
            self._terms -= _size(self.decisions.popleft().pod_info)

    def _count(self, ledger: Ledger, decision: decisions.Decision, attempts: int, now: float) -> None:
        if (since := ledger.waiting_since.get(decision.uid)) is not None and not attempts:
            self._metrics.wait.observe(now - since)
        if not isinstance(decision, decisions.Bind):
            self._metrics.requeue(decision)

    def bind_ended(self, outcome: ports.Outcome, *, since: float | None, sent: float, now: float) -> None:
        """Record the outcome of a bind."""
        match outcome:
            case ports.Bound():
                self._metrics.bound(bind=now - sent, whole=now - since if since is not None else None)
            case ports.Gone():
                self._metrics.ended(metrics.Result.GONE)
            case ports.Unsent():
                self._metrics.ended(metrics.Result.STALE)
            case ports.Refused() | ports.Throttled():
                self._metrics.ended(metrics.Result.ERROR)
            case ports.Unknown():
                raise AssertionError("a bind is followed until its outcome is clear")
            case _:
                assert_never(outcome)

    def bind_failed(self) -> None:
        """Count a bind that the server would refuse, or that ended with an exception, which is a bug."""
        self._metrics.ended(metrics.Result.ERROR)


def _size(pod_info: queued_pods.PodInfo) -> int:
    return pod_info.request.size + pod_info.demand.size
