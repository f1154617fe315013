"""How much a round may do: how many pods it tries, for how long, and with how much effort for searches."""

import dataclasses
import math
from collections.abc import Callable
from typing import Final

from berth_operator.scheduling import queued_pods
from berth_operator.scheduling.devices import search_effort
from berth_operator.scheduling.devices.search_effort import Effort

# Steps of device searches (`Effort`), for all pods of a round together and for each pod. They make
# simulations end at the same place on every machine; in the loop the time of a round runs out first
# (`RoundDeadlines`; the seconds are in `engine.loop`).
STEPS_PER_ROUND: Final = 5_000
STEPS_PER_POD: Final = 2_000
# Pods out of order that a round passes over once there is too little effort for a search: further on there
# may be some that need none.
MOST_PASSED_OVER: Final = 32


@dataclasses.dataclass(frozen=True, slots=True)
class RoundDeadlines:
    """How long a round may decide: until `ends` by the clock, and `seconds_per_search` for one pod's search.

    The time of a search excludes filtering and scoring, which take longer the more nodes there are. From
    `out_of_order_from` on pods are tried out of order (`rotation`); what they leave of the round goes on in
    order. How long each pod's try took is told by `cpu_clock`, if there is one: on a busy machine much of the
    time that goes by is that of other programs.
    """

    clock: Callable[[], float]
    ends: float
    seconds_per_search: float
    out_of_order_from: float = math.inf
    cpu_clock: Callable[[], float] | None = None

    @property
    def over(self) -> bool:
        """Whether no further pod is tried."""
        return self.clock() >= self.ends

    @property
    def in_order_over(self) -> bool:
        """Whether the part of the round is over in which pods are tried in order."""
        return self.clock() >= self.out_of_order_from

    @property
    def has_second_part(self) -> bool:
        """Whether pods are tried out of order at all."""
        return self.out_of_order_from < self.ends

    @property
    def too_short_for_search(self) -> bool:
        """Whether less time is left than one search may take."""
        return self.clock() + self.seconds_per_search > self.ends

    def timer(self) -> Callable[[], bool]:
        """Return a function that tells whether the time of a search is over; it runs from the first call."""
        return search_effort.timer(self.clock, self.seconds_per_search)


@dataclasses.dataclass(frozen=True, slots=True)
class RoundLimits:
    """How many pods a round tries in order, and for how long; and whose pods must not be tried now."""

    pods_in_order: int = 256
    deadlines: RoundDeadlines | None = None
    is_suspended: Callable[[str], bool] = lambda _: False


DEFAULT_LIMITS: Final = RoundLimits()


def _clock_for_tries(deadlines: RoundDeadlines | None) -> Callable[[], float]:
    return (lambda: 0.0) if deadlines is None else deadlines.cpu_clock or deadlines.clock


class RoundBudget:
    """The effort that a round may spend on device searches, and the time that each pod takes."""

    def __init__(self, deadlines: RoundDeadlines | None) -> None:
        self._deadlines = deadlines
        self._left = STEPS_PER_ROUND
        self._searched_in_this_part = False
        self._out_of_order_begun = False
        self._passed_over = 0
        self._steps_given = 0
        self._clock = _clock_for_tries(deadlines)
        self._started = 0.0

    def effort_for(self, pod_info: queued_pods.PodInfo, *, out_of_order: bool) -> Effort | None:
        """Return the effort for a pod; None if it needs a search and too little is left.

        A round has two parts, in order and out of order, and the first search of each is never refused. The
        second part has enough for one pod in any case.
        """
        if out_of_order and not self._out_of_order_begun:
            self._out_of_order_begun, self._searched_in_this_part = True, False
            self._left = max(self._left, STEPS_PER_POD)
        if pod_info.needs_device_search:
            too_short = self._deadlines is not None and self._deadlines.too_short_for_search
            if self._searched_in_this_part and (self._left < STEPS_PER_POD or too_short):
                self._passed_over += out_of_order
                return None
            self._searched_in_this_part = True
        self._steps_given, self._started = min(STEPS_PER_POD, self._left), self._clock()
        return Effort(self._steps_given, self._deadlines.timer() if self._deadlines is not None else None)

    @property
    def is_used_up(self) -> bool:
        """Whether so many pods were passed over that the round had better end."""
        return self._passed_over >= MOST_PASSED_OVER

    def settle(self, effort: Effort) -> float:
        """Subtract what a pod has used, and return how many seconds it took; 0 where there is no clock."""
        self._left -= self._steps_given - effort.left
        return self._clock() - self._started
