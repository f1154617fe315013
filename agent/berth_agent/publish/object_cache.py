"""The newest known version of each object of one kind.

Versions come from a watch and from the answers to our own writes, in any order; the cache keeps
the later one. So an agent that finds everything in place writes nothing, and one that has just
written does not write again because its watch is slow. But a deletion is never overlooked: the
Lease must not be renewed for a Device that is gone. One that was made and deleted while no watch
was open is missing from the next list. After the server's data were restored from an older copy,
the next version counts as newer, whatever its revision is.
"""

from collections.abc import Callable
from typing import Generic

from berth_crds import wire
from berth_crds.client import history
from berth_crds.client.store import B, Key, key_of


class ObjectCache(Generic[B]):
    """The known objects; `on_change` is called with the key of each object that a watch changes."""

    def __init__(self, on_change: Callable[[Key], None]) -> None:
        self._on_change = on_change
        self._objects: dict[Key, B] = {}
        self._void: set[Key] = set()  # Objects whose known revision means nothing after a restore.
        self._unseen: set[Key] = set()  # Objects whose known version no watch or list has shown yet.
        self.deletions = 0

    def get(self, key: Key) -> B | None:
        """Return one object, None if there is none."""
        return self._objects.get(key)

    def keys(self) -> list[Key]:
        """Return the keys of all objects."""
        return list(self._objects)

    def objects(self) -> list[B]:
        """Return all objects."""
        return list(self._objects.values())

    def upserted(self, item: B, /) -> None:
        """Apply a version from the watch."""
        if self._apply(item):
            self._unseen.discard(key_of(item.metadata))
            self._on_change(key_of(item.metadata))

    def listed(self, version: str, /) -> None:
        """Forget what was written before a list and is not in it."""
        for key in list(self._unseen):
            written = self._objects[key].metadata.resource_version
            if key in self._void or not history.is_earlier(version, written):
                self._lost(key)

    def restored(self) -> None:
        """Accept the next version of each object, whatever its revision is."""
        self._void = set(self._objects)

    def deleted(self, meta: wire.Meta, /) -> None:
        """Forget an object, unless another of its name has been made since."""
        self.deletions += 1
        key = key_of(meta)
        if (known := self._objects.get(key)) is not None and known.metadata.uid == meta.uid:
            self._lost(key)

    def write_answered(self, item: B, *, deletions: int) -> None:
        """Apply the answer to a write; `deletions` is the count from when it was sent.

        After a deletion in between, which may be of this very object, the answer is ignored: the
        watch or the next write shows the current version.
        """
        key, version = key_of(item.metadata), item.metadata.resource_version
        known = self._objects.get(key)
        shown = known is not None and known.metadata.resource_version == version
        if deletions == self.deletions and self._apply(item) and not shown:
            self._unseen.add(key)

    def forget(self, key: Key) -> None:
        """Remove an object."""
        self._objects.pop(key, None)
        self._void.discard(key)
        self._unseen.discard(key)

    def _lost(self, key: Key) -> None:
        self.forget(key)
        self._on_change(key)

    def _apply(self, item: B) -> bool:
        key = key_of(item.metadata)
        known = self._objects.get(key)
        # Where a server's revisions are not numbers, the version that comes later counts as newer.
        if known is not None and key not in self._void and _older(item.metadata, known.metadata):
            return False
        self._objects[key] = item
        self._void.discard(key)
        return True


def _older(first: wire.Meta, second: wire.Meta) -> bool:
    return history.is_earlier(first.resource_version, second.resource_version)
