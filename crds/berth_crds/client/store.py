"""What an informer has told its sink: which objects there are, and in which revision.

Only identities are kept, not the objects: whoever needs more of an object keeps that much
of it. A delete is told with the identity alone. Objects that cannot be decoded are kept
beside the others: to forget a holder of cards would give them out twice.
"""

import dataclasses
import logging
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final, Generic, Protocol, TypeVar, runtime_checkable

from berth_crds import logs, wire
from berth_crds.client import history, watch

log = logging.getLogger(__name__)

Key = tuple[str, str]  # Namespace, empty for the whole cluster's, and name.
NAMELESS: Final = ("", "")


class Bearer(Protocol):
    """Anything with metadata."""

    @property
    def metadata(self) -> wire.Meta: ...  # noqa: D102


B = TypeVar("B", bound=Bearer)
T_contra = TypeVar("T_contra", contravariant=True)


class Sink(Protocol[T_contra]):
    """Who is told of changes."""

    def upserted(self, thing: T_contra, /) -> None:
        """Report that an object is new or changed."""

    def deleted(self, meta: wire.Meta, /) -> None:
        """Report that an object is gone, of which only name, namespace and uid are sure."""


@runtime_checkable
class Wary(Protocol):
    """A sink that wants to know of objects that cannot be read, because they may matter all the same."""

    def odd(self, thing: watch.Unreadable, /) -> None:
        """Report an object that cannot be read; what was told of it before is out of date."""

    def odd_gone(self, meta: wire.Meta, /) -> None:
        """Report that an object is gone of which nothing readable was ever told."""


@runtime_checkable
class Comparing(Protocol):
    """A sink that compares revisions, and must not do so across a restore."""

    def restored(self) -> None:
        """Report that all revisions known so far mean nothing any more."""


@dataclasses.dataclass(slots=True)
class Identity:
    """Which object it is, its last seen revision, and whether the sink was ever told what it says."""

    uid: str
    version: str
    told: bool


class Store(Generic[B]):
    """The objects of one collection, as they were told to one sink."""

    def __init__(self, title: str, sink: Sink[B]) -> None:
        self._title = title
        self._sink = sink
        self._wary = sink if isinstance(sink, Wary) else None
        self._known: dict[Key, Identity] = {}
        self._nameless = False  # Whether there is one of which not even the name can be read.

    def __len__(self) -> int:
        return len(self._known)

    def revisions(self) -> dict[str, str]:
        """Return the last seen revision of each object by its name alone."""
        return {name: one.version for (_, name), one in self._known.items()}

    def revisions_of(self, names: AbstractSet[str]) -> dict[str, str]:
        """Return the last seen revisions of those of these objects that there are, named by title or uid."""
        keys = {one: one.rpartition("/")[::2] for one in names}
        titled = {one: self._known[key].version for one, key in keys.items() if key in self._known}
        uids = names - titled.keys()
        return titled | {
            one.uid: one.version for one in (self._known.values() if uids else ()) if one.uid in uids
        }

    def missing(self, uids: Iterable[str]) -> set[str]:
        """Name those of these uids that the collection surely lacks: any may be of an unreadable object."""
        there = {one.uid for one in self._known.values()}
        return set() if self._nameless or "" in there else set(uids) - there

    def contradiction(self, page: watch.Collection[B], last: str) -> str:
        """Return what proves that a list is of a restored history; nothing where it goes on from the last."""
        if history.earlier(page.version, last):
            return f"{self._title} are at revision {page.version}, after {last}"
        for meta in (thing.metadata for thing in page.items):
            known = self._known.get(_key(meta))
            same = known is not None and known.uid == meta.uid
            if known is not None and same and history.earlier(meta.resource_version, known.version):
                now, before = meta.resource_version, known.version
                return f"{self._title} {_name(meta)} is at revision {now}, after {before}"
        return ""

    def restored(self) -> None:
        """Have the sink forget what it remembers of revisions."""
        if isinstance(self._sink, Comparing):
            self._sink.restored()

    # ------------------------------------------------------------ changes

    def take(self, items: Iterable[B | watch.Unreadable], seen: set[Key], *, again: bool) -> Iterator[None]:
        """Upsert a part of a list, one object in each step, and add their keys to `seen`.

        With `again` what seems unchanged is told as well.
        """
        for thing in items:
            seen.add(_key(thing.metadata))
            self.upsert(thing, again=again)
            yield

    def retain(self, seen: AbstractSet[Key]) -> Iterator[None]:
        """Forget the objects that a whole list has not shown; one is looked at in each step."""
        # An object of which not even the name can be read may be any of those that seem to be gone.
        self._nameless = NAMELESS in seen
        for key in () if self._nameless else list(self._known):
            if key not in seen:
                self._forget(key)
            yield

    def upsert(self, thing: B | watch.Unreadable, *, again: bool = False) -> None:
        """Record an object that is new or changed."""
        meta = thing.metadata
        key = _key(meta)
        old = self._known.get(key)
        if old is not None and old.uid != meta.uid:
            self._forget(key)
            old = None
        if old is not None and old.version == meta.resource_version and not again:
            return
        if isinstance(thing, watch.Unreadable):
            self._keep_unreadable(key, old, thing)
        else:
            self._known[key] = Identity(meta.uid, meta.resource_version, told=True)
            self._sink.upserted(thing)

    def repeat(self, thing: B | watch.Unreadable) -> None:
        """Pass on an object once more in the revision that is known; any other one the watch passes on."""
        meta = thing.metadata
        known = self._known.get(_key(meta))
        if known is not None and (known.uid, known.version) == (meta.uid, meta.resource_version):
            self.upsert(thing, again=True)

    def delete(self, thing: B | watch.Unreadable) -> None:
        """Record that an object is gone."""
        self._forget(_key(thing.metadata))

    def _keep_unreadable(self, key: Key, old: Identity | None, thing: watch.Unreadable) -> None:
        meta = thing.metadata
        about = logs.about(f"{self._title} {_name(meta)}")
        log.error("%s %s cannot be read: %s", self._title, _name(meta), thing.detail, extra=about)
        if key == NAMELESS:
            self._nameless = True
            return
        told = old is not None and old.told
        self._known[key] = Identity(meta.uid, meta.resource_version, told=told)
        if self._wary is not None:
            self._wary.odd(thing)

    def _forget(self, key: Key) -> None:
        known = self._known.pop(key, None)
        if known is None:
            return
        meta = wire.Meta(namespace=key[0], name=key[1], uid=known.uid, resource_version=known.version)
        if known.told:
            self._sink.deleted(meta)
        elif self._wary is not None:
            self._wary.odd_gone(meta)


def _key(meta: wire.Meta) -> Key:
    return meta.namespace, meta.name


def _name(meta: wire.Meta) -> str:
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
