"""What a pod asks of the nodes, as one value: pods with equal questions share remembered scores and reasons.

A Request is what is asked of the devices, a Need sums it up in numbers, a Demand is what is asked of the node
itself (cpu, memory, host ports, labels), and a Question is all of these together.
"""

import dataclasses

from berth_operator.scheduling import values
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts


@values.quickly_made
@dataclasses.dataclass(frozen=True)
class Question:
    """All of a pod that its placement depends on.

    Where the filters do not suffice, the whole request belongs to the question (`searched`). With a `unit` it
    is put only to nodes on which nvidia.com/gpu asks for that (`gpu_units`).
    """

    need: requests.Need
    conditions: requests.Conditions
    grouping: requests.Grouping
    demand: facts.Demand
    searched: requests.Request | None
    request: requests.Request = dataclasses.field(compare=False)  # Of the first pod that asked.
    unit: str = ""
    named: int = dataclasses.field(default=0, compare=False)  # Labels, models, uuids.

    @property
    def size(self) -> int:
        """How many terms it has, which says how much memory it takes."""
        return self.named + self.demand.size

    def __hash__(self) -> int:
        """Return the hash, computed once: a question is looked up in several tables in each decision."""
        # Not a cached property, which takes a lock.
        if (found := self.__dict__.get("_hash")) is None:
            parts = self.need, self.conditions, self.grouping, self.demand, self.searched, self.unit
            found = self.__dict__["_hash"] = hash(parts)
        return int(found)


def of(request: requests.Request, demand: facts.Demand, *, unit: str = "") -> Question:
    """Return the question of a pod with this request and demand, to all nodes or to those of a unit."""
    need = request.need
    searched = None if need.filters_suffice else request
    return Question(need, request.conditions, request.grouping, demand, searched, request, unit, request.size)


def needs_free_memory(asked: Question | requests.Request) -> bool:
    """Whether free memory is required, so that what is measured in use forbids something."""
    return bool(asked.conditions.free_memory_at_least or asked.grouping.memory_together)
