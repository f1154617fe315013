"""How much time of the rounds the pods of each namespace have taken lately.

A try can take a hundred times as long as another: a pod may have dozens of terms about pods that have
hundreds. So a namespace that has had more than its share comes after the others with pods that were
tried before. With pods that are new it does so only if long tries have taken the time: else a
namespace that fills a cluster with usual pods would be held up. Where no other has anything to try, that
costs it nothing.
"""

import math
from typing import Final, NamedTuple

HALVED_SECONDS: Final = 1.0  # After which what was taken counts half.
SHARE_SECONDS: Final = 0.1  # Reached at once, or by whoever takes 7 % of the time all along.
LONG_TRY_SECONDS: Final = 0.002  # A usual one takes a tenth of that.
MOST_NAMESPACES: Final = 1024  # Until those are forgotten that have taken nearly nothing.
NEARLY_NOTHING: Final = 0.001


class Taken(NamedTuple):
    """The seconds that a namespace has taken, in all and in long tries, as of a moment."""

    seconds: float = 0.0
    in_long_tries: float = 0.0
    since: float = 0.0

    def at(self, now: float) -> "Taken":
        """Return what counts of it now."""
        if self.since == now:
            return self
        rest = math.exp2((self.since - now) / HALVED_SECONDS)
        return Taken(self.seconds * rest, self.in_long_tries * rest, now)


NOTHING: Final = Taken()


class TimeShares:
    """The seconds that each namespace has taken; they count less as time goes by."""

    def __init__(self) -> None:
        self._taken: dict[str, Taken] = {}
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
        before = self._taken.get(namespace, NOTHING).at(now)
        in_long_tries = before.in_long_tries + (seconds if seconds >= LONG_TRY_SECONDS else 0.0)
        self._taken[namespace] = Taken(before.seconds + seconds, in_long_tries, now)

    def _forget(self, now: float) -> None:
        """Forget the namespaces that have taken nearly nothing lately."""
        current = {namespace: taken.at(now) for namespace, taken in self._taken.items()}
        self._taken = {one: taken for one, taken in current.items() if taken.seconds > NEARLY_NOTHING}
        self._most = max(MOST_NAMESPACES, 2 * len(self._taken))

    def exceeded(self, namespace: str, now: float, *, by_long_tries: bool = False) -> bool:
        """Whether a namespace has had more than its share, perhaps by long tries alone."""
        taken = self._taken.get(namespace, NOTHING).at(now)
        return (taken.in_long_tries if by_long_tries else taken.seconds) > SHARE_SECONDS
