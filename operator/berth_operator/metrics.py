"""The metrics for Prometheus: names, help and buckets, in a registry of our own.

Nothing here is global: `app` makes one Metrics and passes its parts on. Every possible series is made at the
start, so that counting is one lookup in a dict, zeros are shown before the first event, and no label grows
without limit. State (waiting pods, free cards) is collected only when the metrics are read
(`engine.inventory_metrics`). Pods are never labels; `/debug` has the fate of single pods.
"""

import enum
from typing import Final, TypeVar

import prometheus_client as prometheus
from prometheus_client import registry

from berth_operator.scheduling import decisions

T = TypeVar("T", bound=enum.StrEnum)

PREFIX: Final = "berth"
CONTENT_TYPE: Final = prometheus.CONTENT_TYPE_LATEST

# From ten microseconds for one pod to a round as long as a renewal deadline.
DECISION_BUCKETS: Final = (1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.1, 1.0)
ROUND_BUCKETS: Final = (1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 4.0)
BIND_BUCKETS: Final = (1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# A pod may be placed at once, or wait for days until a card is free.
WAIT_BUCKETS: Final = (
    *(1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    *(30.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0),
)
VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Result(enum.StrEnum):
    """How an attempt to place a pod ended."""

    BOUND = "bound"
    UNSCHEDULABLE = "unschedulable"
    REJECTED = "rejected"
    ERROR = "error"
    GONE = "gone"
    STALE = "stale"


class KopfEnd(enum.StrEnum):
    """Why a run of Kopf ended."""

    ENDED = "ended"
    LIFELESS = "no-life"
    RESTORED = "restored"


class SideTask(enum.StrEnum):
    """What the leader does beside binding pods, and begins again if it fails."""

    SUMMARIES = "summaries"
    NODE_CAPACITY = "node-capacity"
    GPUPODS = "gpupods"
    REJECTIONS = "rejections"
    TAINTS = "taints"
    EVICTIONS = "evictions"
    BIND_LOG = "bind-log"
    LOADS = "loads"


class PollResult(enum.StrEnum):
    """How a look at Prometheus ended."""

    ANSWERED = "answered"
    FAILED = "failed"


class TaintChange(enum.StrEnum):
    """What became of the taint of a silent agent."""

    ADDED = "added"
    REMOVED = "removed"


class Removal(enum.StrEnum):
    """Why a GpuPod was removed."""

    OTHER_NODE = "other-node"
    NO_SUCH_POD = "no-such-pod"


class Scheduling:
    """The metrics of the scheduling loop."""

    def __init__(self, into: registry.CollectorRegistry) -> None:
        self._attempts = _counters(
            "scheduling_attempts",
            "Attempts to place a pod: bound, unschedulable (no node fits now), rejected (only an edit of the "
            "pod can help), error (the bind was refused or failed), gone (the pod was deleted meanwhile), "
            "stale (what was decided on changed before the bind was sent; decided anew).",
            ("result", Result),
            into=into,
        )
        self._refusals = _counters(
            "refusals",
            "Refusals by reason; a refused attempt counts once for each reason that any node gave.",
            ("reason", decisions.Reason),
            into=into,
        )
        self._round = _seconds(
            "decision_round", "Time one round of decisions took.", ROUND_BUCKETS, into=into
        )
        self._pod = _seconds(
            "decision", "Time of a round for each pod decided in it.", DECISION_BUCKETS, into=into
        )
        self.wait = _seconds(
            "queue_wait", "Time from first seeing a pod to its first decision.", WAIT_BUCKETS, into=into
        )
        self._bind = _seconds(
            "bind", "Time from sending a Binding until it was sure to be accepted.", BIND_BUCKETS, into=into
        )
        self._placement = _seconds(
            "placement", "Time from first seeing a pod until it was bound.", WAIT_BUCKETS, into=into
        )

    def round_made(self, pods: int, seconds: float) -> None:
        """Record a round that decided for so many pods."""
        self._round.observe(seconds)
        for _ in range(pods):
            self._pod.observe(seconds / pods)

    def requeue(self, answer: decisions.Wait | decisions.Reject) -> None:
        """Count an attempt that did not place its pod, and the reasons."""
        if isinstance(answer, decisions.Wait):
            self.ended(Result.UNSCHEDULABLE)
            reasons = {count.reason for count in answer.counts}
        else:
            self.ended(Result.REJECTED)
            reasons = {refusal.reason for refusal in answer.refusals}
        for reason in reasons:
            self._refusals[reason].inc()

    def bound(self, *, bind: float, whole: float | None) -> None:
        """Count a bound pod, the time of its bind, and the time since it was first seen, if known."""
        self.ended(Result.BOUND)
        self._bind.observe(bind)
        if whole is not None:
            self._placement.observe(whole)

    def ended(self, result: Result) -> None:
        """Count an attempt by its result."""
        self._attempts[result].inc()


class Writes:
    """Counts writes to the API server; safe for several threads, for the counters lock."""

    def __init__(self, into: registry.CollectorRegistry) -> None:
        self._counter = prometheus.Counter(
            f"{PREFIX}_api_writes",
            "Writes to the API server by verb, resource and class of the answer's code; "
            "`none` where no answer came.",
            ["verb", "resource", "code"],
            registry=into,
        )

    def __call__(self, method: str, path: str, status: int) -> None:
        """Count a response, if the request was a write."""
        if verb := VERBS.get(method):
            code = f"{status // 100}xx" if status else "none"
            self._counter.labels(verb, resource_of(path), code).inc()


class Kopf:
    """The metrics of Kopf, which delivers objects of our own kinds; set from another thread."""

    def __init__(self, into: registry.CollectorRegistry) -> None:
        self.ends = _counters(
            "kopf_ends",
            "Runs of Kopf that were over and followed by another: ended (by itself), no-life (it did not "
            "deliver what the informers know), restored (the API server's data were).",
            ("reason", KopfEnd),
            into=into,
        )
        self.behind = prometheus.Gauge(
            f"{PREFIX}_kopf_behind_objects",
            "Devices, GpuPods and policies that Kopf has not delivered, at the last look of the leader.",
            registry=into,
        )


class Consequences:
    """The metrics of what follows from silent agents and sick cards."""

    def __init__(self, into: registry.CollectorRegistry) -> None:
        self._taints = _counters(
            "node_taints",
            "Nodes that got the taint of a silent agent (added), and that lost it again (removed).",
            ("change", TaintChange),
            into=into,
        )
        self._evictions = _counters(
            "evictions",
            "Pods that were evicted: of nodes with a silent agent, and from cards that are sick or cordoned.",
            ("cause", decisions.EvictionCause),
            into=into,
        )
        self.evictions_refused = prometheus.Counter(
            f"{PREFIX}_evictions_refused",
            "Evictions that the API server refused, mostly for a PodDisruptionBudget; each is tried again.",
            registry=into,
        )
        self.breaker_open = prometheus.Gauge(
            f"{PREFIX}_eviction_breaker_open",
            "1 while pods of so many nodes would be evicted at once that none is, else 0.",
            registry=into,
        )

    def tainted(self, tainted: bool) -> None:  # noqa: FBT001  the value is the message
        """Count a Node that got the taint of a silent agent, or that lost it."""
        self._taints[TaintChange.ADDED if tainted else TaintChange.REMOVED].inc()

    def evicted(self, cause: decisions.EvictionCause) -> None:
        """Count a pod that was evicted."""
        self._evictions[cause].inc()


class LoadPolls:
    """The looks at Prometheus for the loads of cards."""

    def __init__(self, into: registry.CollectorRegistry) -> None:
        self._counters = _counters(
            "load_polls",
            "Looks of the leader at Prometheus for loads of cards: answered, or failed (the log says why).",
            ("result", PollResult),
            into=into,
        )

    def count(self, result: PollResult) -> None:
        """Count a look by its result."""
        self._counters[result].inc()


class Metrics:
    """All metrics, and their registry."""

    def __init__(self) -> None:
        self.registry = registry.CollectorRegistry()
        prometheus.ProcessCollector(registry=self.registry)
        prometheus.PlatformCollector(registry=self.registry)
        self.scheduling = Scheduling(self.registry)
        self.writes = Writes(self.registry)
        self.kopf = Kopf(self.registry)
        self.consequences = Consequences(self.registry)
        self.load_polls = LoadPolls(self.registry)
        self.leader = prometheus.Gauge(
            f"{PREFIX}_leader", "1 while this process leads and decides, else 0.", registry=self.registry
        )
        self.leader_transitions = prometheus.Gauge(
            f"{PREFIX}_leader_transitions",
            "The leaseTransitions of the last term this process led; 0 before the first.",
            registry=self.registry,
        )
        self.events_dropped = prometheus.Counter(
            f"{PREFIX}_events_dropped",
            "Events that were never posted, because too many waited for it.",
            registry=self.registry,
        )
        self._audits = prometheus.Counter(
            f"{PREFIX}_ledger_audits",
            "Comparisons of the ledger with one that was rebuilt from the API.",
            registry=self.registry,
        )
        self._drift = prometheus.Gauge(
            f"{PREFIX}_ledger_drift",
            "Nodes, Devices, and pods (waiting, holding, or as placement learns of them) of which the ledger "
            "knows something else than one that was rebuilt from the API, and binds that nobody has "
            "concluded for a minute: always 0.",
            registry=self.registry,
        )
        self.gpupods_removed = _counters(
            "gpupods_removed",
            "GpuPods that were removed: other-node (written for a node that the pod of this uid is not on), "
            "no-such-pod (no pod of this name has this uid, and nobody else had removed it).",
            ("reason", Removal),
            into=self.registry,
        )
        self.task_failures = _counters(
            "task_failures",
            "Failures of what the leader does beside binding pods, each with a traceback in the log: faults "
            "of Berth itself.",
            ("task", SideTask),
            into=self.registry,
        )

    def audited(self, differences: int) -> None:
        """Count an audit, and record how many differences it found."""
        self._audits.inc()
        self._drift.set(differences)

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return prometheus.generate_latest(self.registry)


def resource_of(path: str) -> str:
    """Return the resource of an API path as RBAC names it, with its subresource."""
    group, *parts = path.strip("/").split("/")
    parts = parts[1:] if group == "api" else parts[2:]
    if parts[0] == "namespaces" and len(parts) > 2:  # noqa: PLR2004  a Namespace itself has two
        parts = parts[2:]
    return "/".join((parts[0], *parts[2:]))


def _counters(
    name: str, text: str, label: tuple[str, type[T]], *, into: registry.CollectorRegistry
) -> dict[T, prometheus.Counter]:
    """Return the counters of all values of a label, which is a name with its values."""
    counter = prometheus.Counter(f"{PREFIX}_{name}", text, [label[0]], registry=into)
    return {value: counter.labels(value) for value in label[1]}


def _seconds(
    name: str, text: str, buckets: tuple[float, ...], *, into: registry.CollectorRegistry
) -> prometheus.Histogram:
    full = f"{PREFIX}_{name}_seconds" if name == "queue_wait" else f"{PREFIX}_{name}_duration_seconds"
    return prometheus.Histogram(full, text, buckets=buckets, registry=into)
