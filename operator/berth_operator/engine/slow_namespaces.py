"""Namespaces whose binds take long or are throttled, so that no more of them may be under way.

The API server takes long to answer these binds, perhaps because of a webhook, or asks for a pause. The pods
of such a namespace are not decided for meanwhile, so that no card is kept for them, and other namespaces go
on. When a bind of the namespace has ended, or its pause, its first pod in order is decided for. Pods that
wait for long are reported.
"""

from collections.abc import Callable
from typing import Final

from berth_operator.engine import bind_sender
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import queued_pods

REPORTED_SECONDS: Final = 5.0  # Most delays are over before.
MOST_REPORTED: Final = 256  # Pods of one namespace, the first in order.
MESSAGE: Final = (
    "the API server is slow to answer other binds in this namespace; an admission webhook may be slow"
)
THROTTLED: Final = "the API server throttles binds in this namespace"


class SlowNamespaces:
    """Holds pods of slow namespaces up; `on_long_wait` is called for pods that wait for long."""

    def __init__(
        self,
        ledger: Ledger,
        sender: bind_sender.BindSender,
        on_long_wait: Callable[[queued_pods.PodInfo, str], None],
    ) -> None:
        self._backlog = ledger.backlog
        self._bind_sender = sender
        self._on_long_wait = on_long_wait
        # By namespace: since when it is suspended or when its pods were last reported, and their uids.
        self._since: dict[str, float] = {}
        self._reported: dict[str, frozenset[str]] = {}

    def is_suspended(self, namespace: str) -> bool:
        """Whether the pods of a namespace must wait for binds of it."""
        return self._bind_sender.room(namespace) <= 0

    def resume(self, now: float) -> None:
        """Release the namespaces of which more binds may be decided now, and report long waits."""
        self._bind_sender.pauses.forget_over(now)
        suspended = self._backlog.suspended
        self._since = {namespace: self._since.get(namespace, now) for namespace in suspended}
        self._reported = {
            namespace: uids for namespace, uids in self._reported.items() if namespace in suspended
        }
        for namespace, since in self._since.items():
            if since + REPORTED_SECONDS <= now:
                self._since[namespace] = now
                self._report_first(namespace)
            if not self.is_suspended(namespace):
                self._backlog.resume(namespace)

    def _report_first(self, namespace: str) -> None:
        """Report the first pods in order, each of them once."""
        first = self._backlog.first_in_line_of(namespace, MOST_REPORTED)
        reported = self._reported.get(namespace, frozenset())
        message = THROTTLED if self._bind_sender.pauses.seconds_left(namespace) else MESSAGE
        self._reported[namespace] = frozenset(one.uid for one in first)
        for pod_info in first:
            if pod_info.uid not in reported:
                self._on_long_wait(pod_info, message)

    def next_due(self) -> float | None:
        """Return when pods are to be reported, or a pause ends."""
        report = min(self._since.values()) + REPORTED_SECONDS if self._since else None
        moments = report, self._bind_sender.pauses.next_end()
        return min((moment for moment in moments if moment is not None), default=None)
