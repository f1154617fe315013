"""How Kopf is configured: a reader that scans, posts and writes nothing.

What the operator writes it writes itself, from `statuses`. So Kopf needs no place to store
what it handled, no annotations and no finalizers.
"""

from typing import Any

import kopf


def settings() -> kopf.OperatorSettings:
    """Configure Kopf for a quiet reader: no scanning, no posting, no annotations, no finalizers."""
    chosen = kopf.OperatorSettings()
    chosen.scanning.disabled = True  # The CRDs exist before the operator starts; less RBAC, fewer watches.
    chosen.posting.enabled = False  # Events go through our own aggregator.
    chosen.peering.standalone = True  # Leadership is ours: Kopf's peering is no election.
    chosen.networking.request_timeout = 30
    chosen.networking.connect_timeout = 5
    chosen.watching.server_timeout = 600
    chosen.watching.client_timeout = 660  # For a server that does not end a watch as it was asked to.
    chosen.watching.chunk_size = 100  # A page of Devices as dicts is ten times as large as its bytes.
    chosen.queueing.exit_timeout = 2
    # Else ten minutes after each end of it that nobody asked for, Kopf kills the whole process.
    chosen.process.ultimate_exiting_timeout = None
    chosen.execution.max_workers = 2  # All handlers are asynchronous.
    chosen.persistence.progress_storage = NoProgress()
    chosen.persistence.diffbase_storage = NoDiffBase()
    return chosen


class NoProgress(kopf.ProgressStorage):
    """Progress is never stored: event handlers have none."""

    def fetch(self, **_: Any) -> None:
        """Find nothing."""

    def store(self, **_: Any) -> None:
        """Keep nothing."""

    def purge(self, **_: Any) -> None:
        """Remove nothing."""

    def touch(self, **_: Any) -> None:
        """Write nothing."""

    def clear(self, *, essence: Any) -> Any:
        """Return the object as it is, without the deep copy that would cost most of an event's time."""
        return essence


class NoDiffBase(kopf.DiffBaseStorage):
    """The last handled state is never stored: our handlers are level-based."""

    def build(self, **_: Any) -> Any:
        """Remember nothing of an object."""
        return {}

    def fetch(self, **_: Any) -> None:
        """Find nothing."""

    def store(self, **_: Any) -> None:
        """Keep nothing."""
