"""Some of NVIDIA's error numbers (XIDs), as people choose them in flags and policies."""

from dataclasses import dataclass
from typing import Final

from berth_crds.text import quoted

EVERYTHING: Final = frozenset({"all", "xids"})
LARGEST: Final = 4294967295


@dataclass(frozen=True, slots=True)
class XidChoice:
    """Some XIDs, or all of them."""

    numbers: frozenset[int] = frozenset()
    everything: bool = False

    def __or__(self, other: "XidChoice") -> "XidChoice":
        """Return a choice of what either of the two chooses."""
        return XidChoice(self.numbers | other.numbers, self.everything or other.everything)


NO_XIDS: Final = XidChoice()


def parse(text: str) -> XidChoice:
    """Return the choice in a text: numbers separated by commas, or `all`; otherwise raise a ValueError."""
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    numbers = [word for word in words if word not in EVERYTHING]
    for word in numbers:
        if not (word.isascii() and word.isdecimal()) or int(word) > LARGEST:
            raise ValueError(f"{quoted(word)} is neither the number of an XID nor the word all")
    return XidChoice(frozenset(map(int, numbers)), len(numbers) < len(words))
