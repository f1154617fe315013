"""The configuration of Kopf: a reader that scans, posts and writes nothing.

The operator writes statuses itself (`kind_statuses`). So Kopf needs no storage of its progress,
no annotations and no finalizers.
"""

from typing import Any, Final

import kopf

# What Kopf keeps of each object can be replaced, but has no public name.
from kopf._core.reactor import inventory

IDLE_SECONDS: Final = 0.2  # After its last event the queue of an object is kept for so long.


def settings() -> kopf.OperatorSettings:
    """Return settings without scanning, posting, annotations and finalizers."""
    settings_ = kopf.OperatorSettings()
    settings_.scanning.disabled = True  # The CRDs exist before the operator starts; less RBAC, fewer watches.
    settings_.posting.enabled = False  # Events go through our own recorder.
    settings_.peering.standalone = True  # Leadership is ours: Kopf's peering is no election.
    settings_.networking.request_timeout = 30
    settings_.networking.connect_timeout = 5
    settings_.watching.server_timeout = 600
    settings_.watching.client_timeout = 660  # For a server that does not end a watch in time.
    settings_.watching.chunk_size = 100  # A page of Devices takes ten times its bytes as dicts.
    settings_.queueing.exit_timeout = 2
    settings_.queueing.idle_timeout = IDLE_SECONDS
    # Else Kopf kills the whole process ten minutes after it has ended by itself.
    settings_.process.ultimate_exiting_timeout = None
    settings_.execution.max_workers = 2  # All handlers are asynchronous.
    settings_.persistence.progress_storage = NoProgress()
    settings_.persistence.diffbase_storage = NoDiffBase()
    return settings_


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


class NoMemories(inventory.ResourceMemories):
    """Nothing is kept of an object between its events: only timers, daemons and retried handlers need that.

    Kopf keeps it until it sees the object deleted, and a delete goes unseen while a watch is renewed.
    """

    async def recall(self, raw_body: Any, **options: Any) -> inventory.ResourceMemory:
        """Return a new memory each time."""
        return await super().recall(raw_body, **options | {"ephemeral": True})
