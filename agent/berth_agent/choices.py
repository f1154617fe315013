"""Choices that people make in the same words in several places."""

from dataclasses import dataclass
from typing import Final

from berth_crds.text import quoted

EVERYTHING: Final = frozenset({"all", "xids"})
LARGEST: Final = 4294967295


@dataclass(frozen=True, slots=True)
class Xids:
    """Some of NVIDIA's error numbers, or all of them."""

    numbers: frozenset[int] = frozenset()
    everything: bool = False

    def __or__(self, other: "Xids") -> "Xids":
        """Choose what either of them chooses."""
        return Xids(self.numbers | other.numbers, self.everything or other.everything)


NO_XIDS: Final = Xids()


def xids(text: str) -> Xids:
    """Read numbers separated by commas, or the word `all`; anything else is a ValueError that says so."""
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    numbers = [word for word in words if word not in EVERYTHING]
    for word in numbers:
        if not (word.isascii() and word.isdecimal()) or int(word) > LARGEST:
            raise ValueError(f"{quoted(word)} is neither the number of an XID nor the word all")
    return Xids(frozenset(map(int, numbers)), len(numbers) < len(words))
