"""What a pod asks of the nodes, as one value: pods with equal questions share remembered scores and reasons.

A Request is what is asked of the devices, a Need sums it up in numbers, a Demand is what is asked of the node
itself (cpu, memory, host ports, labels), and a Question is all of these together.
"""

import dataclasses
import functools

from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts


@dataclasses.dataclass(frozen=True)
class Question:
    """All of a pod that its placement depends on.

    Where the filters do not suffice, the whole request belongs to the question.
    """

    need: requests.Need
    conditions: requests.Conditions
    grouping: requests.Grouping
    demand: facts.Demand
    request: requests.Request | None
    named: int = dataclasses.field(default=0, compare=False)  # Labels, models, uuids.

    @property
    def size(self) -> int:
        """How many terms it has, which says how much memory it takes."""
        return self.named + self.demand.size

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.need, self.conditions, self.grouping, self.demand, self.request))

    def __hash__(self) -> int:
        """Return the hash, computed once: a question is looked up in several tables in each decision."""
        return self._hash


def of(request: requests.Request, demand: facts.Demand) -> Question:
    """Return the question of a pod with this request and demand."""
    need = request.need
    request_if_searched = None if need.filters_suffice else request
    return Question(need, request.conditions, request.grouping, demand, request_if_searched, request.size)
