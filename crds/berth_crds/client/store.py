"""What an informer has passed to its sink: which objects there are, and in which revision.

Only identities are kept, not the objects: a sink that needs more of an object keeps that much
of it. A delete is reported with the identity alone. Objects that cannot be decoded are kept
beside the others: to forget a holder of cards would give its cards out twice.
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


class HasMetadata(Protocol):
    """Anything with metadata."""

    @property
    def metadata(self) -> wire.Meta: ...  # noqa: D102


B = TypeVar("B", bound=HasMetadata)
T_contra = TypeVar("T_contra", contravariant=True)


class Sink(Protocol[T_contra]):
    """Receives the changes of a collection."""

    def upserted(self, thing: T_contra, /) -> None:
        """Report that an object is new or changed."""

    def deleted(self, meta: wire.Meta, /) -> None:
        """Report that an object is gone, of which only name, namespace and uid are sure."""


@runtime_checkable
class UndecodableSink(Protocol):
    """A sink that is also told of objects that cannot be decoded, because they may matter."""

    def undecodable(self, thing: watch.Undecodable, /) -> None:
        """Report an object that cannot be decoded; what was reported of it before is out of date."""

    def undecodable_deleted(self, meta: wire.Meta, /) -> None:
        """Report that an object is gone that was never decoded."""


@runtime_checkable
class RestoreSink(Protocol):
    """A sink that compares revisions, and must not do so across a restore."""

    def restored(self) -> None:
        """Report that all revisions known so far mean nothing any more."""


@runtime_checkable
class ListSink(Protocol):
    """A sink that also knows objects of its own writes, which the watch may never have seen."""

    def listed(self, version: str, /) -> None:
        """Report that every object that there was at this revision has been passed on."""


@runtime_checkable
class LastSink(Protocol[T_contra]):
    """A sink for which the order of changes matters: a list has objects in the order of their names."""

    def counts_last(self, thing: T_contra, /) -> bool:
        """Whether an object of a list is to be passed on after all others of that list."""


@dataclasses.dataclass(slots=True)
class KnownObject:
    """The identity of an object, its last seen revision, and whether the sink ever received it decoded."""

    uid: str
    version: str
    delivered: bool


class Listing(Generic[B]):
    """A list that is being passed on."""

    def __init__(self) -> None:
        self.again = False  # Whether unchanged objects are passed on too.
        self.seen: set[Key] = set()
        self.last: list[B] = []  # What is passed on when all else was.


class Store(Generic[B]):
    """The objects of one collection, as one sink knows them."""

    def __init__(self, title: str, sink: Sink[B]) -> None:
        self._title = title
        self._sink = sink
        self._undecodable_sink = sink if isinstance(sink, UndecodableSink) else None
        self._last_sink = sink if isinstance(sink, LastSink) else None
        self._known: dict[Key, KnownObject] = {}
        self._has_nameless = False  # Whether there is one of which not even the name can be read.

    def __len__(self) -> int:
        return len(self._known)

    def revisions(self) -> dict[str, str]:
        """Return the last seen revision of each object by its name alone."""
        return {name: one.version for (_, name), one in self._known.items()}

    def revisions_of(self, names: AbstractSet[str]) -> dict[str, str]:
        """Return the last seen revisions of these objects, named by title or uid, as far as they exist."""
        keys = {one: one.rpartition("/")[::2] for one in names}
        titled = {one: self._known[key].version for one, key in keys.items() if key in self._known}
        uids = names - titled.keys()
        return titled | {
            one.uid: one.version for one in (self._known.values() if uids else ()) if one.uid in uids
        }

    def missing(self, uids: Iterable[str]) -> set[str]:
        """Return which of these uids the collection surely lacks; without a uid an object may have any."""
        there = {one.uid for one in self._known.values()}
        return set() if self._has_nameless or "" in there else set(uids) - there

    def restore_evidence(self, page: watch.Collection[B], last: str) -> str:
        """Return what proves that a list is of a restored history; empty where nothing does."""
        if history.is_earlier(page.version, last):
            return f"{self._title} are at revision {page.version}, after {last}"
        for meta in (thing.metadata for thing in page.items):
            known = self._known.get(key_of(meta))
            same = known is not None and known.uid == meta.uid
            if known is not None and same and history.is_earlier(meta.resource_version, known.version):
                now, before = meta.resource_version, known.version
                return f"{self._title} {_name(meta)} is at revision {now}, after {before}"
        return ""

    def restored(self) -> None:
        """Make the sink forget all revisions."""
        if isinstance(self._sink, RestoreSink):
            self._sink.restored()

    def listed(self, version: str) -> None:
        """Report to the sink that a list has been passed on whole."""
        if isinstance(self._sink, ListSink):
            self._sink.listed(version)

    # ------------------------------------------------------------ changes

    def upsert_page(self, items: Iterable[B | watch.Undecodable], listing: Listing[B]) -> Iterator[None]:
        """Upsert a part of a list, one object in each step, apart from those that count last."""
        for thing in items:
            listing.seen.add(key_of(thing.metadata))
            if not isinstance(thing, watch.Undecodable) and self._counts_last(thing):
                listing.last.append(thing)
            else:
                self.upsert(thing, again=listing.again)
            yield

    def _counts_last(self, thing: B) -> bool:
        return self._last_sink is not None and self._last_sink.counts_last(thing)

    def end_list(self, listing: Listing[B]) -> Iterator[None]:
        """Delete what a whole list lacks, and upsert what counts last; each step treats one object."""
        yield from self.delete_missing(listing.seen)
        for thing in listing.last:
            self.upsert(thing, again=listing.again)
            yield

    def delete_missing(self, seen: AbstractSet[Key]) -> Iterator[None]:
        """Delete the objects that a whole list lacks; each step checks one object."""
        # An object of which not even the name can be read may be any of those that seem to be gone.
        self._has_nameless = NAMELESS in seen
        for key in () if self._has_nameless else list(self._known):
            if key not in seen:
                self.delete(key)
            yield

    def upsert(self, thing: B | watch.Undecodable, *, again: bool = False) -> None:
        """Record an object that is new or changed."""
        meta = thing.metadata
        key = key_of(meta)
        if (old := self._known.get(key)) is not None and old.uid != meta.uid:
            self.delete(key)
            old = None
        if old is not None and old.version == meta.resource_version and not again:
            return
        if isinstance(thing, watch.Undecodable):
            self._keep_undecodable(key, old, thing)
        else:
            self._known[key] = KnownObject(meta.uid, meta.resource_version, delivered=True)
            self._sink.upserted(thing)

    def resend(self, thing: B | watch.Undecodable) -> None:
        """Pass on an object again in its known revision; the watch passes on any other."""
        meta = thing.metadata
        known = self._known.get(key_of(meta))
        if known is not None and (known.uid, known.version) == (meta.uid, meta.resource_version):
            self.upsert(thing, again=True)

    def delete(self, key: Key) -> None:
        """Record that an object is gone."""
        if (known := self._known.pop(key, None)) is None:
            return
        meta = wire.Meta(namespace=key[0], name=key[1], uid=known.uid, resource_version=known.version)
        if known.delivered:
            self._sink.deleted(meta)
        elif self._undecodable_sink is not None:
            self._undecodable_sink.undecodable_deleted(meta)

    def _keep_undecodable(self, key: Key, old: KnownObject | None, thing: watch.Undecodable) -> None:
        meta = thing.metadata
        log.error(
            "%s %s cannot be read: %s",
            self._title,
            _name(meta),
            thing.detail,
            extra=logs.about(f"{self._title} {_name(meta)}"),
        )
        if key == NAMELESS:
            self._has_nameless = True
            return
        self._known[key] = KnownObject(
            meta.uid, meta.resource_version, delivered=old is not None and old.delivered
        )
        if self._undecodable_sink is not None:
            self._undecodable_sink.undecodable(thing)


def key_of(meta: wire.Meta) -> Key:
    """Return the key of an object within its kind."""
    return meta.namespace, meta.name


def _name(meta: wire.Meta) -> str:
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
