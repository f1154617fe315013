"""The revisions in which pods were last seen: as the server writes them, and as numbers to compare."""

import dataclasses
import operator
from typing import Final

LATEST: Final = 1 << 64
NUMBER: Final = operator.attrgetter("number")


@dataclasses.dataclass(frozen=True, slots=True)
class Revision:
    """A revision of a pod, as the API writes it and as a number."""

    text: str
    number: int

    @classmethod
    def of(cls, text: str) -> "Revision":
        """Return the revision of a text; one that is no number counts as newer than all others."""
        return cls(text, int(text) if text.isascii() and text.isdecimal() else LATEST)


class PodRevisions(dict[str, Revision]):
    """The revisions of pods without a node, by uid, and which have changed since `take_newest`.

    Of a hundred thousand pods only a few change in a second, so it is cheap to examine these.
    """

    def __init__(self) -> None:
        super().__init__()
        self.changed: set[str] = set()

    def __setitem__(self, uid: str, revision: Revision, /) -> None:
        super().__setitem__(uid, revision)
        self.changed.add(uid)

    def see(self, uid: str, text: str) -> None:
        """Record the revision in which a pod without a node was read or written, if it is newer."""
        known, found = self.get(uid), Revision.of(text)
        if known is not None and found.number > known.number:
            self[uid] = found

    def remove(self, uid: str) -> None:
        """Forget a pod."""
        self.pop(uid, None)
        self.changed.discard(uid)

    def take_newest(self) -> int:
        """Return the number of the newest revision, 0 without any; none counts as changed from then on."""
        self.changed.clear()
        return max(map(NUMBER, self.values()), default=0)
