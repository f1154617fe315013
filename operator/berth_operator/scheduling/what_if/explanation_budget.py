"""How much work may go into one explanation: one budget of steps for its searches and trials.

Prices and budget are in steps of a device search (`Effort`), so that equal inputs end at the
same place whatever the machine; where a scheduling round waits for the answer, time ends it as well.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Final

from berth_operator.scheduling import search
from berth_operator.scheduling.changes import Scenario
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.scheduling.holds import Hold

STEPS_FOR_ALL_NODES: Final = 40_000  # Where all nodes are to be diagnosed and nobody waits.
SURVEY_FRACTION: Final = 0.4  # For the survey: which nodes refuse, and why.
DIAGNOSIS_FRACTION: Final = 0.5  # Of the rest, for the diagnosis of single devices.

# What is tried at most, whatever steps are left.

# The nearest nodes that are diagnosed, or on which changes are tried. Up to as many more nodes are diagnosed,
# one for each reason that none of the nearest has (`explain.diagnosis`).
MOST_NEAREST_NODES: Final = 8
MOST_NODES_PER_CHANGE: Final = 4  # Nodes on which one type of change is tried, or the repair for one reason.
MOST_NODES_FOR_PAIRS: Final = 2  # Nodes on which two changes are tried together.
MOST_VICTIMS: Final = 16  # Pods of one node that are tried as victims.
MOST_PODS_ON_A_NODE: Final = 2048  # No change is tried where there are more: to read each takes 3 us.
MOST_SEARCHES: Final = 96  # Searches of nodes where the filters cannot tell whether a changed pod fits.
MOST_SEARCHES_PER_CHANGE: Final = 8  # The same for one changed pod.
NO_LIMIT: Final = 1 << 40
# Prices in steps.
_STEPS_PER_NODE_READ: Final = 20  # Reading a node before it is searched.
_STEPS_PER_TRIAL: Final = 20
_PARTS_PER_STEP: Final = 8  # A part is an amount, a port, a disk or a claim that a pod on the node holds.
_TERMS_PER_STEP: Final = 16  # A term here is a label, a value or a toleration that the pod names.
_STEPS_PER_FILTER: Final = 5
_NODES_PER_STEP: Final = 256


@dataclasses.dataclass(slots=True)
class ExplanationBudget:
    """The work that may still go into one explanation; `unlimited_nodes` lifts the limits on nodes."""

    effort: Effort
    unlimited_nodes: bool = False
    searches_left: int = MOST_SEARCHES

    @property
    def exhausted(self) -> bool:
        """Whether no steps are left; `effort.cut_short` is true only if something cost more than was left."""
        return self.effort.left <= 0

    @contextlib.contextmanager
    def fraction(self, part_of_steps: float) -> Iterator["ExplanationBudget"]:
        """Yield a budget of this fraction of the steps that are left; those that are used are subtracted.

        The number of its searches starts anew.
        """
        with self.effort.part(int(max(self.effort.left, 0) * part_of_steps)) as part:
            yield ExplanationBudget(part, unlimited_nodes=self.unlimited_nodes)

    @contextlib.contextmanager
    def device_search(self) -> Iterator[Effort]:
        """Yield the effort to search one node: as much as a search for a placement may use."""
        # Spent before the node is read: a time limit starts when steps are first spent, so it covers the
        # reading.
        self.effort.spend(_STEPS_PER_NODE_READ)
        with self.effort.part(search.STEPS_PER_NODE) as part:
            yield part

    def spend_on_trial(self, scenario: Scenario) -> None:
        """Subtract the price of copying a node and of placing a pod on it."""
        # Of the demand only selector, affinity and tolerations count.
        steps_for_terms = scenario.demand.node_selection.size // _TERMS_PER_STEP
        steps_for_holds = sum(1 + _parts(hold) // _PARTS_PER_STEP for hold in scenario.holds)
        self.effort.spend(_STEPS_PER_TRIAL + steps_for_holds + steps_for_terms)

    def spend_on_filters(self, scenario: Scenario, nodes: int) -> None:
        """Subtract the price of filtering all nodes."""
        steps_per_256_nodes = 1 + scenario.demand.size // _TERMS_PER_STEP
        self.effort.spend(_STEPS_PER_FILTER + nodes * steps_per_256_nodes // _NODES_PER_STEP)


def _parts(hold: Hold) -> int:
    """Count the parts of a hold that copying a node handles one by one.

    A disk counts once for each monitor, and a term about other pods once for each thing that it names.
    """
    disks = sum(max(1, len(one.monitors)) for one in hold.disks)
    terms = sum(one.size for one in (*hold.anti_affinity, *(one.term for one in hold.weighted_terms)))
    return len(hold.amounts) + len(hold.host_ports) + disks + len(hold.claims) + terms
