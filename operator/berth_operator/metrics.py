"""The metrics for Prometheus: names, help and buckets, in a registry of our own.

Nothing here is global: `app` makes one Metrics and passes its parts on. Every possible series is
made at the start, so that counting is one lookup in a dict, zeros are shown before the first
event, and no label grows without limit. State (waiting pods, free cards) is collected only when
the metrics are read. Pods are never labels; `/debug` has the fate of single pods.
"""

import enum
from typing import Final

import prometheus_client as prometheus
from prometheus_client import registry

from berth_operator.scheduling import decisions

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


class Removal(enum.StrEnum):
    """Why a GpuPod was removed."""

    OTHER_NODE = "other-node"
    NO_SUCH_POD = "no-such-pod"


class Scheduling:
    """The metrics of the scheduling loop."""

    def __init__(self, into: registry.CollectorRegistry) -> None:
        attempts = prometheus.Counter(
            f"{PREFIX}_scheduling_attempts",
            "Attempts to place a pod: bound, unschedulable (no node fits now), rejected (only an edit of the "
            "pod can help), error (the bind was refused or failed), gone (the pod was deleted meanwhile), "
            "stale (what was decided on changed before the bind was sent; decided anew).",
            ["result"],
            registry=into,
        )
        refusals = prometheus.Counter(
            f"{PREFIX}_refusals",
            "Refusals by reason; a refused attempt counts once for each reason that any node gave.",
            ["reason"],
            registry=into,
        )
        self._attempts = {result: attempts.labels(result) for result in Result}
        self._refusals = {reason: refusals.labels(reason) for reason in decisions.Reason}
        self._round = _seconds(
            "decision_round", "Time one round of decisions took.", ROUND_BUCKETS, into=into
        )
        self._pod = _seconds(
            "decision", "Time of a round for each pod decided in it.", DECISION_BUCKETS, into=into
        )
        self._wait = _seconds(
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

    def waited(self, seconds: float) -> None:
        """Record how long a pod waited for its first decision."""
        self._wait.observe(seconds)

    def put_off(self, answer: decisions.Wait | decisions.Reject) -> None:
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
        self._known: dict[tuple[str, str, int], prometheus.Counter] = {}

    def __call__(self, method: str, path: str, status: int) -> None:
        """Count a response, if the request was a write."""
        if method not in VERBS:
            return
        key = method, resource_of(path), status // 100
        child = self._known.get(key)
        if child is None:
            child = self._known[key] = self._counter.labels(
                VERBS[method], key[1], f"{key[2]}xx" if status else "none"
            )
        child.inc()


class Leadership:
    """Whether this process leads, and in which term."""

    def __init__(self, into: registry.CollectorRegistry) -> None:
        self._leader = prometheus.Gauge(
            f"{PREFIX}_leader", "1 while this process leads and decides, else 0.", registry=into
        )
        self._term = prometheus.Gauge(
            f"{PREFIX}_leader_transitions",
            "The leaseTransitions of the last term this process led; 0 before the first.",
            registry=into,
        )

    def won(self, transitions: int) -> None:
        """Record a term."""
        self._term.set(transitions)

    def leads(self, *, now: bool) -> None:
        """Record whether this process leads."""
        self._leader.set(now)


class Kopf:
    """The metrics of Kopf, which delivers Devices and policies; set from another thread."""

    def __init__(self, into: registry.CollectorRegistry) -> None:
        ends = prometheus.Counter(
            f"{PREFIX}_kopf_ends",
            "Runs of Kopf that were over and followed by another: ended (by itself), no-life (it did not "
            "deliver what the informers know), restored (the API server's data were).",
            ["reason"],
            registry=into,
        )
        self._ends = {why: ends.labels(why) for why in KopfEnd}
        self._behind = prometheus.Gauge(
            f"{PREFIX}_kopf_behind_objects",
            "Devices and policies that Kopf has not delivered as they are, at the last look of the leader.",
            registry=into,
        )

    def ended(self, why: KopfEnd) -> None:
        """Count a run that ended, or that was ended."""
        self._ends[why].inc()

    def behind(self, objects: int) -> None:
        """Record how many objects it has not delivered in their present revision."""
        self._behind.set(objects)


class Metrics:
    """All metrics, and their registry."""

    def __init__(self) -> None:
        self.registry = registry.CollectorRegistry()
        prometheus.ProcessCollector(registry=self.registry)
        prometheus.PlatformCollector(registry=self.registry)
        self.scheduling = Scheduling(self.registry)
        self.writes = Writes(self.registry)
        self.leadership = Leadership(self.registry)
        self.kopf = Kopf(self.registry)
        self._events_dropped = prometheus.Counter(
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

        removed = prometheus.Counter(
            f"{PREFIX}_gpupods_removed",
            "GpuPods that were removed: other-node (written for a node that the pod of this uid is not on), "
            "no-such-pod (no pod of this name has this uid, and nobody else had removed it).",
            ["reason"],
            registry=self.registry,
        )
        self._removed = {why: removed.labels(why) for why in Removal}

    def gpupod_removed(self, why: Removal) -> None:
        """Count a GpuPod that was removed because it did not belong to the pod of its name."""
        self._removed[why].inc()

    def event_dropped(self) -> None:
        """Count an Event that was never posted, because too many waited."""
        self._events_dropped.inc()

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


def _seconds(
    name: str, text: str, buckets: tuple[float, ...], *, into: registry.CollectorRegistry
) -> prometheus.Histogram:
    full = f"{PREFIX}_{name}_seconds" if name == "queue_wait" else f"{PREFIX}_{name}_duration_seconds"
    return prometheus.Histogram(full, text, buckets=buckets, registry=into)
