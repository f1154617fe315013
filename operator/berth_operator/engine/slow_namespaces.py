"""Namespaces of which as many binds are under way as may be.

The API server takes long to answer these, perhaps because of a webhook, so no more are sent. The pods of
such a namespace are not decided for, so that no card is kept for them; they are passed over, and others
go on. When a bind of the namespace has come to its end, the first in order is decided for. People are
told if it takes long.
"""

from collections.abc import Callable
from typing import Final

from berth_operator.engine import bind_sender
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import queued_pods

REPORTED_SECONDS: Final = 5.0  # Most slow spells are over before.
MOST_REPORTED: Final = 256  # Pods of one namespace; they come first in order.
MESSAGE: Final = (
    "the bind waits for others in this namespace, which the API server takes long to answer; "
    "perhaps a webhook is slow"
)


class SlowNamespaces:
    """Holds slow namespaces up and has them go on; `tell` is told of pods that wait for long."""

    def __init__(
        self, ledger: Ledger, sent: bind_sender.BindSender, tell: Callable[[queued_pods.Candidate, str], None]
    ) -> None:
        self._backlog = ledger.backlog
        self._bind_sender = sent
        self._on_long_wait = tell
        self._since: dict[str, float] = {}  # By namespace: since when pods are held up, or were told of.
        self._reported: dict[str, frozenset[str]] = {}  # By namespace: the uids of these.

    def held_up(self, namespace: str) -> bool:
        """Whether the pods of a namespace must wait for binds of it."""
        return self._bind_sender.room(namespace) <= 0

    def resume(self, now: float) -> None:
        """Let namespaces go on of which more may be bound now."""
        held_up = self._backlog.held_up
        self._since = {namespace: self._since.get(namespace, now) for namespace in held_up}
        self._reported = {
            namespace: uids for namespace, uids in self._reported.items() if namespace in held_up
        }
        for namespace, since in self._since.items():
            if since + REPORTED_SECONDS <= now:
                self._since[namespace] = now
                self._report_first(namespace)
            if not self.held_up(namespace):
                self._backlog.go_on(namespace)

    def _report_first(self, namespace: str) -> None:
        """Report the first pods in order, and none a second time."""
        first = self._backlog.first_in_line_of(namespace, MOST_REPORTED)
        told = self._reported.get(namespace, frozenset())
        self._reported[namespace] = frozenset(one.uid for one in first)
        for candidate in first:
            if candidate.uid not in told:
                self._on_long_wait(candidate, MESSAGE)

    def next_due(self) -> float | None:
        """Return when somebody is to be told."""
        return min(self._since.values()) + REPORTED_SECONDS if self._since else None
