"""What a pod asks of the nodes, as one value: pods that ask the same share what was worked out."""

import dataclasses
import functools

from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts


@dataclasses.dataclass(frozen=True)
class Question:
    """All of a pod that its place depends on; pods that ask the same share the answer.

    Where sums do not suffice, the whole request belongs to the question.
    """

    need: requests.Need
    conditions: requests.Conditions
    grouping: requests.Grouping
    demand: facts.Demand
    request: requests.Request | None
    named: int = dataclasses.field(default=0, compare=False)  # So many things are named in the request.

    @property
    def size(self) -> int:
        """How many things are named, which is what it takes of memory."""
        return self.named + self.demand.size

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.need, self.conditions, self.grouping, self.demand, self.request))

    def __hash__(self) -> int:
        """Answer from memory: a question is asked of several tables in each decision."""
        return self._hash


def ask(request: requests.Request, demand: facts.Demand) -> Question:
    """Make the question that a pod puts to all nodes."""
    need = request.need
    whole = None if need.simple else request
    return Question(need, request.conditions, request.grouping, demand, whole, request.size)
