"""The signature of a pod: all that its placement depends on. Pods with the same share scores and reasons.

A DeviceRequest is what a pod asks of devices, and a Need sums that up in numbers. A NodeDemand is what it
asks of the node itself (cpu, memory, host ports, labels). A Signature is all of these together.
"""

import dataclasses

from berth_operator.scheduling import values
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts


@values.quickly_made
@dataclasses.dataclass(frozen=True)
class Signature:
    """All of a pod that its placement depends on.

    Where the filters do not suffice, the whole request belongs to the signature (`searched`). With a `unit`
    it is only for nodes on which nvidia.com/gpu asks for that (`gpu_units`).
    """

    need: requests.Need
    conditions: requests.Conditions
    grouping: requests.Grouping
    demand: facts.NodeDemand
    searched: requests.DeviceRequest | None
    request: requests.DeviceRequest = dataclasses.field(compare=False)  # Of the first pod that asked.
    unit: str = ""
    named: int = dataclasses.field(default=0, compare=False)  # Labels, models, uuids.

    @property
    def size(self) -> int:
        """How many terms it has, which says how much memory it takes."""
        return self.named + self.demand.size

    def __hash__(self) -> int:
        """Return the hash, computed once: a signature is looked up in several tables in each decision."""
        # Not a cached property, which takes a lock.
        if (found := self.__dict__.get("_hash")) is None:
            parts = self.need, self.conditions, self.grouping, self.demand, self.searched, self.unit
            found = self.__dict__["_hash"] = hash(parts)
        return int(found)


def of(request: requests.DeviceRequest, demand: facts.NodeDemand, *, unit: str = "") -> Signature:
    """Return the signature of a pod with this request and demand, for all nodes or for those of a unit."""
    need = request.need
    searched = None if need.filters_suffice else request
    return Signature(
        need, request.conditions, request.grouping, demand, searched, request, unit, request.size
    )


def needs_free_memory(asked: Signature | requests.DeviceRequest) -> bool:
    """Whether free memory is required, so that what is measured in use forbids something."""
    return bool(asked.conditions.free_memory_at_least or asked.grouping.memory_together)
