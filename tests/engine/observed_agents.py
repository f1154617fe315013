"""What a leader can know of agents by its own clock: worked out anew, beside the watchdog, to judge it by."""

import dataclasses

from berth_operator.scheduling.policy import Policy

GRACE, UNKNOWN = Policy().grace_seconds, Policy().unknown_seconds
LEAST_TOGETHER = 3  # Agents; fewer may well have died together.
STEP = 10  # Seconds from one renewal to the next.
NEVER = float("-inf")


@dataclasses.dataclass(slots=True)
class Observed:
    """What a leader can know of one agent by its own clock, and what has to follow from it."""

    renewed: float  # When it last saw a renewal; the first sight of a Lease is one, unless it is doubtful.
    silent_from: float  # From when the agent may be called silent, unless it renews.

    def ready(self, now: float) -> bool:
        """Whether the cards of the agent get pods."""
        return now - self.renewed <= GRACE

    def renew(self, now: float) -> None:
        """Record a renewal."""
        self.renewed, self.silent_from = now, now + GRACE + UNKNOWN
