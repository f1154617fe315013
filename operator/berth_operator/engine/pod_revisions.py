"""In which revision of the API a pod was last seen: as the server spells it, and as a number to compare."""

import dataclasses
import operator
from typing import Final

LATEST: Final = 1 << 64
NUMBER: Final = operator.attrgetter("number")


@dataclasses.dataclass(frozen=True, slots=True)
class Revision:
    """In which revision a pod without a node was last seen, as the API spells it and as a number."""

    text: str
    number: int

    @classmethod
    def of(cls, text: str) -> "Revision":
        """Read a revision; one that is no number counts as newer than all others."""
        return cls(text, int(text) if text.isascii() and text.isdecimal() else LATEST)


class PodRevisions(dict[str, Revision]):
    """The revisions of some pods, by uid, and which of them were told since somebody last took them all.

    Of a hundred thousand pods only a few are told of in a second, so it costs little to look at those.
    """

    def __init__(self) -> None:
        super().__init__()
        self.changed: set[str] = set()

    def __setitem__(self, uid: str, revision: Revision, /) -> None:
        super().__setitem__(uid, revision)
        self.changed.add(uid)

    def remove(self, uid: str) -> None:
        """Drop a pod."""
        self.pop(uid, None)
        self.changed.discard(uid)

    def take_newest(self) -> int:
        """Return the number of the newest revision, 0 without any; none is fresh from then on."""
        self.changed.clear()
        return max(map(NUMBER, self.values()), default=0)
