"""How many comparisons changes may cost: kinds of waiting pods with nodes, or selectors with pods.

Each takes some microseconds, and pods come and go all the time. So what is left of an account is paid in
as time goes by; where it is used up, nothing is compared, and all who wait for such a change are woken.
"""

from typing import Final

MOST: Final = 2048  # At once.
PER_SECOND: Final = 16384


class Comparisons:
    """The comparisons that may be made now."""

    def __init__(self) -> None:
        self.left = MOST
        self._paid_at = 0.0

    def take(self, count: int) -> bool:
        """Use some up, and return whether there were so many."""
        self.left = max(-1, self.left - count)
        return self.left >= 0

    def pay_in(self, now: float) -> None:
        """Allow as many more as the time since the last call is worth."""
        self.left = min(MOST, self.left + int((now - self._paid_at) * PER_SECOND))
        self._paid_at = now
