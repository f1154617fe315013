"""Whether a server's history goes on, or was taken back to an earlier state.

The revisions of a cluster only grow, until somebody restores etcd from an older copy. What
was seen after that copy never happened then, and a watch that resumes at a revision of the
lost future is silent until the new history has passed it. A revision lower than one that
was seen of the same thing proves a restore. The informer that finds
one reports it here, and all informers of the same session list their collections anew.
"""

import logging
import weakref
from typing import Final, Protocol

log = logging.getLogger(__name__)

MOST_DIGITS: Final = 20  # Of a revision, which has 64 bits.


class LongOutage(Exception):
    """The server was away for so long that a watch must not simply be resumed."""


class RestoreDetected(Exception):
    """A list is of a restored history, and a part of it was already passed to the sink."""


class Follower(Protocol):
    """An informer, whose knowledge is void after a restore."""

    def relist(self) -> None:
        """Begin to read everything anew; what is known already proves nothing."""


def revision(text: str) -> int | None:
    """Return a resourceVersion as a number, or None where a server's are no numbers of 64 bits."""
    return int(text) if len(text) <= MOST_DIGITS and text.isascii() and text.isdecimal() else None


def is_earlier(one: str, other: str) -> bool:
    """Whether a resourceVersion is surely lower than another one of the same thing."""
    first, second = revision(one), revision(other)
    return first is not None and second is not None and first < second


class History:
    """The restores that one session has seen, and the informers that relist after each."""

    def __init__(self) -> None:
        self._followers: weakref.WeakSet[Follower] = weakref.WeakSet()
        self.restores = 0

    def join(self, follower: Follower) -> None:
        """Have a follower relist after each restore, for as long as it exists."""
        self._followers.add(follower)

    def restored(self, evidence: str, *, by: Follower | None = None) -> None:
        """Have all followers relist, except the one that found the restore and relists anyway."""
        self.restores += 1
        log.warning("the API server's data were restored from an older copy: %s; listing anew", evidence)
        for follower in list(self._followers):
            if follower is not by:
                follower.relist()
