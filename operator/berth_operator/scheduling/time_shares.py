"""How much time of the rounds the pods of each namespace have taken lately.

A try can take a hundred times as long as another: a pod may have dozens of terms about pods that have
hundreds. So a namespace that has had more than its share comes after the others with pods that were
tried before. Where no other has anything to try, that costs it nothing.
"""

import math
from typing import Final

HALVED_SECONDS: Final = 1.0  # After which what was taken counts half.
SHARE_SECONDS: Final = 0.1  # Reached at once, or by whoever takes 7 % of the time all along.
MOST_NAMESPACES: Final = 1024  # Until those are forgotten that have taken nearly nothing.
NEARLY_NOTHING: Final = 0.001


class TimeShares:
    """The seconds that each namespace has taken, as of a moment; they count less as time goes by."""

    def __init__(self) -> None:
        self._taken: dict[str, tuple[float, float]] = {}
        self._most = MOST_NAMESPACES

    def __len__(self) -> int:
        """Count the namespaces of which that is known."""
        return len(self._taken)

    def record(self, namespace: str, seconds: float, now: float) -> None:
        """Record that a try of a namespace's pod has taken so long."""
        if not seconds:
            return  # As wherever there is no clock.
        if len(self._taken) >= self._most:
            self._forget(now)
        self._taken[namespace] = self._seconds(namespace, now) + seconds, now

    def _forget(self, now: float) -> None:
        """Forget the namespaces that have taken nearly nothing lately."""
        seconds = {namespace: self._seconds(namespace, now) for namespace in self._taken}
        self._taken = {one: (taken, now) for one, taken in seconds.items() if taken > NEARLY_NOTHING}
        self._most = max(MOST_NAMESPACES, 2 * len(self._taken))

    def exceeded(self, namespace: str, now: float) -> bool:
        """Whether a namespace has had more than its share."""
        return self._seconds(namespace, now) > SHARE_SECONDS

    def _seconds(self, namespace: str, now: float) -> float:
        seconds, since = self._taken.get(namespace, (0.0, now))
        return seconds * math.exp2((since - now) / HALVED_SECONDS) if since != now else seconds
