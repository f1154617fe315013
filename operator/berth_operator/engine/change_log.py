"""Which nodes have changed, for readers that follow the ledger each at its own pace.

Every change gets the next revision, and a reader remembers the revision that it has read up to. Only
the last change of a node is kept, so the log is at most as long as there are nodes; since nodes come
and go under ever new names, it is bounded besides. A reader that has missed changes which are no
longer kept must read everything, like one that has not read yet.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

MOST_NODES: Final = 1 << 14  # More than a cluster has, so that only deleted nodes are dropped.


class ChangeLog:
    """The last change of each node, in order."""

    def __init__(self, most: int = MOST_NODES) -> None:
        self._most = most
        self._revisions: OrderedDict[str, int] = OrderedDict()  # By node, the oldest first.
        self.revision = 0  # Of the last change.
        self._dropped = 0  # The newest revision that is not kept any more.

    def __repr__(self) -> str:
        """Return the state in words."""
        return f"<ChangeLog: {len(self._revisions)} nodes, revision {self.revision}>"

    def record(self, node: str) -> None:
        """Record that a node has changed, came or is gone."""
        self.revision += 1
        self._revisions[node] = self.revision
        self._revisions.move_to_end(node)
        if len(self._revisions) > self._most:
            _, self._dropped = self._revisions.popitem(last=False)

    def record_all(self, nodes: Iterable[str]) -> None:
        """Record that some nodes have changed."""
        for node in nodes:
            self.record(node)

    def reader(self) -> "ChangeReader":
        """Return a new reader, which has read nothing yet."""
        return ChangeReader(self)

    def since(self, revision: int) -> set[str] | None:
        """Return the nodes that changed after a revision; None where not all of these changes are kept."""
        if revision < self._dropped:
            return None
        changed: set[str] = set()
        for node, last in reversed(self._revisions.items()):
            if last <= revision:
                break
            changed.add(node)
        return changed


class ChangeReader:
    """One reader of a log, and how far it has read."""

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._revision: int | None = None

    def read(self) -> set[str] | None:
        """Return the nodes that changed since the last call; None where all nodes must be read instead."""
        revision, self._revision = self._revision, self._log.revision
        return None if revision is None else self._log.since(revision)
