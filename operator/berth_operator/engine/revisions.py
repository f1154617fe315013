"""In which revision of the API a pod was last seen: as the server spells it, and as a number to compare."""

import dataclasses
from typing import Final

LATEST: Final = 1 << 64


@dataclasses.dataclass(frozen=True, slots=True)
class Revision:
    """In which revision a pod without a node was last seen, as the API spells it and as a number."""

    text: str
    number: int

    @classmethod
    def of(cls, text: str) -> "Revision":
        """Read a revision; one that is no number counts as newer than all others."""
        return cls(text, int(text) if text.isascii() and text.isdecimal() else LATEST)
