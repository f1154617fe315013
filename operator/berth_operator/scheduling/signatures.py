"""The signature of a pod: all that decides which nodes fit. Pods with the same share scores and reasons.

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
    """All of a pod that decides which nodes fit, and what its preferences are.

    Two pods whose images or controllers differ have the same, for these only rank the nodes that fit, and are
    scored for each pod. Where the filters do not suffice, the whole request is compared (`searched_request`).
    On nodes of another gpu unit the same request means something else (`gpu_units`), and has a signature of
    its own, with that `gpu_unit`.
    """

    need: requests.Need
    conditions: requests.Conditions
    grouping: requests.Grouping
    demand: facts.NodeDemand
    searched_request: requests.DeviceRequest | None
    request: requests.DeviceRequest = dataclasses.field(compare=False)  # Of the first pod that asked.
    gpu_unit: str = ""
    named_count: int = dataclasses.field(default=0, compare=False)  # Labels, models, uuids.

    @property
    def size(self) -> int:
        """How many terms it has, which says how much memory it takes."""
        return self.named_count + self.demand.size

    def __hash__(self) -> int:
        """Return the hash, computed once: a signature is looked up in several tables in each decision."""
        # Not a cached property, which takes a lock.
        if (found := self.__dict__.get("_hash")) is None:
            parts = (
                self.need,
                self.conditions,
                self.grouping,
                self.demand,
                self.searched_request,
                self.gpu_unit,
            )
            found = self.__dict__["_hash"] = hash(parts)
        return int(found)


def of(request: requests.DeviceRequest, demand: facts.NodeDemand, *, gpu_unit: str = "") -> Signature:
    """Return the signature of a pod with this request and demand, for all nodes or those of one unit."""
    need = request.need
    searched_request = None if need.filters_suffice else request
    return Signature(
        need, request.conditions, request.grouping, demand, searched_request, request, gpu_unit, request.size
    )


def without_inter_pod_rules(signature: Signature) -> Signature:
    """Return the signature without what is asked of other pods, of which a search remembers nothing."""
    if signature.demand.inter_pod_rules is None:
        return signature
    return dataclasses.replace(signature, demand=dataclasses.replace(signature.demand, inter_pod_rules=None))


def needs_free_memory(asked: Signature | requests.DeviceRequest) -> bool:
    """Whether free memory is required, so that what is measured in use forbids something."""
    return bool(asked.conditions.free_memory_at_least or asked.grouping.memory_together)
