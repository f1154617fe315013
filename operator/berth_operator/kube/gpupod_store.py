"""GpuPods as the cleaner of misplaced ones compares them: whose each is, and of which node.

Of each GpuPod only a few words are kept. The events of Kopf fill the store; a node that writes more GpuPods
than it can well have does not fill the memory.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Final, TypeVar

from berth_crds import schema_limits, wire
from berth_crds.client import resources
from berth_operator.engine import totals
from berth_operator.kube import call_queue

T = TypeVar("T")

MOST_OF_A_NODE: Final = 1024  # The limit of one node; it has many times fewer running pods.
POD: Final = resources.PODS.kind


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A GpuPod: its own uid, and the pod and node that it names.

    `pod` is the title of that pod; empty where it is the GpuPod's own title.
    """

    uid: str
    pod_uid: str
    node: str
    pod: str = ""


def record(thing: wire.GpuPod) -> Record:
    """Return the fields of a GpuPod that are compared here."""
    meta, spec = thing.metadata, thing.spec
    has_second_name = meta.name == f"{spec.pod_uid}.{spec.node}"
    pods = [one.name for one in meta.owner_references if one.kind == POD and one.uid == spec.pod_uid]
    # The API server accepts any name of an owner; one that no pod can have must not get into a path.
    valid = has_second_name and pods and schema_limits.DNS_SUBDOMAIN.matches(pods[0])
    return Record(meta.uid, spec.pod_uid, spec.node, f"{meta.namespace}/{pods[0]}" if valid else "")


class GpuPodStore:
    """All GpuPods by title, and those that are verified: they belong to the pod of their name.

    `records` has at most so many of each node. Titles that are to be checked soon because their
    node has more are in `crowded`, with their uids; those beyond the limit are only there.
    """

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.verified: dict[str, Record] = {}
        self.crowded: dict[str, str] = {}
        self.on_new: Callable[[str, Record], None] | None = None  # Called with each new GpuPod.
        self._counts = totals.Totals()  # Of the records, by node.

    def put(self, title: str, one: Record) -> None:
        """Record a GpuPod."""
        if self.records.get(title) != one:
            self.drop(title)
            if self._counts[one.node] < MOST_OF_A_NODE:
                self._counts.add(one.node, 1)
                self.records[title] = one
            else:
                self.crowded[title] = one.uid
            if self.on_new is not None:
                self.on_new(title, one)

    def verify(self, title: str, one: Record) -> None:
        """Record that a GpuPod belongs to its pod, if it still exists."""
        self.crowded.pop(title, None)
        if self.records.get(title) == one:
            self.verified[title] = one

    def postpone(self, title: str) -> None:
        """Move a GpuPod behind all others."""
        _move_to_end(self.records, title)
        _move_to_end(self.crowded, title)

    def drop(self, title: str) -> None:
        """Forget a GpuPod that is gone."""
        one = self.records.pop(title, None)
        self.verified.pop(title, None)
        self.crowded.pop(title, None)
        if one is not None:
            self._counts.add(one.node, -1)

    def drop_uid(self, title: str, uid: str) -> None:
        """Forget a GpuPod that is gone; one that was made again under its name stays."""
        if uid == self.uid(title):
            self.drop(title)

    def uid(self, title: str) -> str:
        """Return the uid of the GpuPod that is known by a title; empty if none is."""
        one = self.records.get(title)
        return one.uid if one is not None else self.crowded.get(title, "")


class StoreInbox:
    """Passes the events of GpuPods from Kopf's side to a store that another thread reads."""

    def __init__(self, store: GpuPodStore, queue: call_queue.CallQueue) -> None:
        self._store = store
        self._queue = queue

    def put(self, title: str, one: Record) -> None:
        """Record a GpuPod."""
        self._queue.send(functools.partial(self._store.put, title, one))

    def drop(self, title: str, uid: str) -> None:
        """Forget a GpuPod that is gone."""
        self._queue.send(functools.partial(self._store.drop_uid, title, uid))


def _move_to_end(things: dict[str, T], key: str) -> None:
    if key in things:
        things[key] = things.pop(key)
