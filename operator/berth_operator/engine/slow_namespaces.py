"""Pods whose turn it is, while as many binds of their namespace are under way as may be.

The API server takes long to answer these, perhaps because of a webhook, so no more are sent. Such a
pod is not decided for, so that no card is kept for it; it stands aside, and others go on. When a
bind of its namespace has come to its end, the first in order stands in line again. People are told
if it takes long.
"""

from collections.abc import Callable
from typing import Final

from berth_operator.engine import binds, ledger
from berth_operator.scheduling import backlog

TOLD_SECONDS: Final = 5.0  # Most slow spells are over before.
MOST_TOLD: Final = 256  # Pods of one namespace; they come first in order.
MESSAGE: Final = (
    "the bind waits for others in this namespace, which the API server takes long to answer; "
    "perhaps a webhook is slow"
)


class SlowNamespaces:
    """Sets pods of slow namespaces aside and has them go on; `tell` is told of those that wait for long."""

    def __init__(
        self, book: ledger.Ledger, sent: binds.Binds, tell: Callable[[backlog.Candidate, str], None]
    ) -> None:
        self._waiting = book.waiting
        self._binds = sent
        self._tell = tell
        self._since: dict[str, float] = {}  # By namespace: since when pods are held up, or were told of.

    def held_up(self, candidate: backlog.Candidate) -> bool:
        """Whether a pod must wait for binds of its namespace."""
        return self._binds.room(candidate.namespace) <= 0

    def go_on(self, now: float) -> None:
        """Have as many pods stand in line again as may be bound now."""
        self._since = {namespace: self._since.get(namespace, now) for namespace in self._waiting.held_up}
        for namespace, since in self._since.items():
            if since + TOLD_SECONDS <= now:
                self._since[namespace] = now
                for candidate in self._waiting.first_held_up(namespace, MOST_TOLD):
                    self._tell(candidate, MESSAGE)
            room = min(self._binds.room(namespace), self._binds.room_for_all)
            self._waiting.go_on(namespace, int(room))

    def next_word(self) -> float | None:
        """Return when somebody is to be told."""
        return min(self._since.values()) + TOLD_SECONDS if self._since else None
