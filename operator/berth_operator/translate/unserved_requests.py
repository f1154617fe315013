"""What a bound pod may have got cards for that Berth does not serve: claims, and other resources.

A driver of dynamic resource allocation gives devices to claims, and a device plugin may call its cards as it
likes. What these are, only the agent of the node can say; here is counted how many cards it may name at most.
"""

import itertools

from berth_crds import aliases, schema_limits
from berth_operator.translate import quantities, raw, resources

MOST = schema_limits.MOST_DEVICES


def most_cards(spec: raw.PodSpec, *, asks_for_served: bool) -> int:
    """Return how many cards a GpuPod may name for what a pod asks for in this way.

    Another resource is taken for cards only where a pod asks for none that is served.
    """
    if spec.resource_claims:
        return MOST
    if asks_for_served:
        return 0
    every = (resources.pairs(container) for container, _ in resources.each_container(spec))
    # What comes with Kubernetes itself, such as cpu and hugepages-2Mi, has no domain.
    others = ((name, amount) for name, amount in itertools.chain.from_iterable(every) if "/" in name)
    counts = (
        quantities.supply(amount, unreadable=MOST) for name, amount in others if not aliases.is_served(name)
    )
    return quantities.sum_up_to(MOST, counts)
