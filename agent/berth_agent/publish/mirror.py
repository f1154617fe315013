"""The newest that is known of each object of one kind.

News comes from two sides, which race each other: a watch, and the answers to our own
writes. The mirror keeps whichever is later. So an agent that finds everything in place
writes nothing, and one that has just written does not write again because its watch is
slow; but a deletion is never overlooked, for a Device that is believed to stand while it
is gone would be vouched for by its Lease. After the server's data were restored from an
older copy, an earlier revision is the later news.
"""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from berth_crds import wire
from berth_crds.client import history

Key = tuple[str, str]  # namespace, empty for the whole cluster's, and name


class Kept(Protocol):
    """An object of ours: metadata, and a spec and a status with parts that are the agent's."""

    @property
    def metadata(self) -> wire.Meta: ...  # noqa: D102
    @property
    def spec(self) -> Any: ...  # noqa: D102
    @property
    def status(self) -> Any: ...  # noqa: D102


B = TypeVar("B", bound=Kept)


def key_of(meta: wire.Meta) -> Key:
    """Name an object within its kind."""
    return meta.namespace, meta.name


class Mirror(Generic[B]):
    """What is known; `on_change` is told the key of whatever a watch changes."""

    def __init__(self, on_change: Callable[[Key], None]) -> None:
        self._on_change = on_change
        self._things: dict[Key, B] = {}
        self._void: set[Key] = set()  # Objects whose known revision says nothing, because of a restore.
        self.deletions = 0

    def __repr__(self) -> str:
        """Show the state in words."""
        return f"<Mirror: {len(self._things)} known>"

    def get(self, key: Key) -> B | None:
        """Return what is known of one object."""
        return self._things.get(key)

    def keys(self) -> list[Key]:
        """Name all that are known."""
        return list(self._things)

    def things(self) -> list[B]:
        """Return all that are known."""
        return list(self._things.values())

    def upserted(self, thing: B, /) -> None:
        """Apply what a watch says."""
        if self._take(thing):
            self._on_change(key_of(thing.metadata))

    def restored(self) -> None:
        """Take whatever comes next of each object, in whatever revision."""
        self._void = set(self._things)

    def deleted(self, meta: wire.Meta, /) -> None:
        """Forget an object, unless another of its name has been made since."""
        self.deletions += 1
        key = key_of(meta)
        known = self._things.get(key)
        if known is not None and known.metadata.uid == meta.uid:
            self.forget(key)
            self._on_change(key)

    def answered(self, thing: B, *, deletions: int) -> None:
        """Take the answer to a write; `deletions` is what the count was when it was sent.

        When a deletion was told meanwhile, it may be that of this very object. Then the
        answer is left out, and the watch or the next write tells how things stand.
        """
        if deletions == self.deletions:
            self._take(thing)

    def forget(self, key: Key) -> None:
        """Take it that there is no such object."""
        self._things.pop(key, None)
        self._void.discard(key)

    def _take(self, thing: B) -> bool:
        key = key_of(thing.metadata)
        known = self._things.get(key)
        # Where a server's revisions are not numbers, what comes later counts as newer.
        if known is not None and key not in self._void and _older(thing.metadata, known.metadata):
            return False
        self._things[key] = thing
        self._void.discard(key)
        return True


def _older(one: wire.Meta, other: wire.Meta) -> bool:
    return history.earlier(one.resource_version, other.resource_version)
