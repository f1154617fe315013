"""How much work may go into one explanation: one budget for all its searches and trials.

Prices and budget are in steps of a search on a node, so that equal inputs end at the same place
whatever the machine; where a round waits for the answer, time ends it as well.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Final

from berth_operator.scheduling import search
from berth_operator.scheduling.changes import Situation
from berth_operator.scheduling.devices import allocator

STEPS_FOR_WHOLE: Final = 40_000
SURVEY_PART: Final = 0.4  # May go into finding out which nodes fit and why others do not.
DIAGNOSIS_PART: Final = 0.5  # Of what is left then, into the verdicts on single devices.
# What is tried, besides what steps allow.
NODES_DIAGNOSED: Final = 8  # The nearest ones, and as many examples of reasons.
NODES_TRIED: Final = 4  # For each kind of change.
NODES_TRIED_TWICE: Final = 2  # For two changes at once.
PODS_TRIED: Final = 16
SEARCHES: Final = 96  # Of nodes of which sums cannot tell whether a changed pod fits.
SEARCHES_EACH: Final = 8  # For one changed pod.
NO_LIMIT: Final = 1 << 40
# Prices.
_STEPS_TO_LOOK: Final = 20
_STEPS_TO_TRY: Final = 20
_NAMED_IN_A_STEP: Final = 16  # Labels, values and tolerations of the pod.
_STEPS_TO_ASK: Final = 5
_NODES_IN_A_STEP: Final = 256


@dataclasses.dataclass(slots=True)
class Budget:
    """What is left for one explanation; `whole` where all nodes are to be diagnosed."""

    effort: allocator.Effort
    whole: bool = False
    searches: int = SEARCHES

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left, so that whatever is tried now is given up."""
        return self.effort.left <= 0

    @contextlib.contextmanager
    def part(self, share: float) -> Iterator["Budget"]:
        """Set so much of what is left aside, and take off what was needed of it."""
        most = int(max(self.effort.left, 0) * share)
        mine = self.effort.part(most)
        yield Budget(mine, whole=self.whole)
        self.effort.use(most, mine)

    @contextlib.contextmanager
    def search(self) -> Iterator[allocator.Effort]:
        """Give the search of one node as much as the search for a place may take."""
        self.effort.spend(_STEPS_TO_LOOK)  # From the first of these on time counts, what is read included.
        mine = self.effort.part(search.STEPS_A_NODE)
        yield mine
        self.effort.use(search.STEPS_A_NODE, mine)

    def spend_on_trial(self, situation: Situation) -> None:
        """Subtract the price of copying a node and of placing a pod on it."""
        named = situation.demand.where.size // _NAMED_IN_A_STEP
        self.effort.spend(_STEPS_TO_TRY + len(situation.holds) + named)

    def spend_on_question(self, nodes: int) -> None:
        """Subtract the price of a question to all nodes."""
        self.effort.spend(_STEPS_TO_ASK + nodes // _NODES_IN_A_STEP)
