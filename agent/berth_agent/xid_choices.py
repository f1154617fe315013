"""Some of NVIDIA's error numbers (XIDs), as people choose them in flags and policies."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class XidChoice:
    """Some XIDs, or all of them."""

    numbers: frozenset[int] = frozenset()
    everything: bool = False

    def __or__(self, other: "XidChoice") -> "XidChoice":
        """Return a choice of what either of the two chooses."""
        return XidChoice(self.numbers | other.numbers, self.everything or other.everything)


NO_XIDS: Final = XidChoice()
