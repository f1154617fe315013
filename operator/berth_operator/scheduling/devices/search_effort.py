"""How much work the search for devices may still do, in steps and, where somebody waits for it, in time."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Final

MOST_STEPS: Final = 20_000  # About a second of one core.
SPENT: Final = -1


@dataclasses.dataclass(slots=True)
class Effort:
    """How much work may still go into one answer; shared by all searches for it.

    Whatever grows with what a pod asks takes off steps in proportion to the time that it
    takes, so that equal inputs end at the same place whatever the machine. Where the event
    loop waits for the answer, time ends it as well: `expired` comes from a caller with a
    clock, and is asked whenever steps are taken off.
    """

    left: int = MOST_STEPS
    expired: Callable[[], bool] | None = None

    @property
    def cut_short(self) -> bool:
        """Whether a search was cut short for lack of steps or time, so that its no means nothing."""
        return self.left <= SPENT

    @property
    def has_time_limit(self) -> bool:
        """Whether time may end it, and not only steps."""
        return self.expired is not None

    @property
    def out_of_time(self) -> bool:
        """Whether the time is over, however many steps are left."""
        return self.expired is not None and self.expired()

    def is_left_to_next_round(self, failed_searches: int) -> bool:
        """Whether it ran out during the search of a node, which the next round searches again.

        Then nothing is remembered of the node. But it is undecided if only its own part ran out, or if it was
        searched first and took all the time: each round would begin with it, and search no other.
        """
        return self.cut_short and not (failed_searches == 1 and self.out_of_time)

    def spend(self, steps: int) -> None:
        """Use up steps, all of them once the time is over."""
        self.left -= steps
        if self.left > SPENT and self.out_of_time:
            self.left = SPENT

    @contextlib.contextmanager
    def part(self, most: int) -> Iterator["Effort"]:
        """Yield an effort of so many of the steps at most, for one of several requests."""
        steps = min(most, self.left)
        part = Effort(steps, self.expired)
        yield part
        self.spend(steps - part.left)


def timer(clock: Callable[[], float], seconds: float) -> Callable[[], bool]:
    """Return what tells whether so many seconds are over since it was first asked."""
    ends = math.inf

    def expired() -> bool:
        nonlocal ends
        now = clock()
        ends = min(ends, now + seconds)
        return now >= ends

    return expired
