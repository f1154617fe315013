"""A pod with the anti-affinity of the pods that are on nodes: they may keep away one that asks for nothing.

Which of their terms mean a pod depends on its namespace and labels. So it is found once for each
decision, and becomes a part of what the pod asks; pods that nothing repels share their questions as ever.
"""

import dataclasses

from berth_operator.scheduling import pod_index, queued_pods
from berth_operator.scheduling.nodes import facts


def applied(pods: pod_index.PodIndex, candidate: queued_pods.Candidate) -> queued_pods.Candidate:
    """Return a pod that keeps away from the domains whose pods repel it."""
    if not pods.repels or not (terms := pods.repelling(candidate.namespace, candidate.labels)):
        return candidate
    demand = candidate.demand
    others = dataclasses.replace(demand.other_pods or facts.OtherPods(), repelled_by=terms)
    return dataclasses.replace(candidate, demand=dataclasses.replace(demand, other_pods=others))
