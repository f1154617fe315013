"""What the terms of pods that are on nodes change about another: they keep it away, or would have it near.

Which of their terms mean a pod depends on its namespace and labels. So it is found once for each decision,
and becomes a part of what the pod asks; pods that none of them means share their signatures as ever.
"""

import dataclasses

from berth_operator.scheduling import pod_index, queued_pods
from berth_operator.scheduling.nodes import facts


def with_terms_of_existing_pods(
    pods: pod_index.PodIndex, pod_info: queued_pods.PodInfo
) -> queued_pods.PodInfo:
    """Return a pod that keeps away from where pods repel it, and prefers where they would rather have it."""
    if pods.say_nothing:
        return pod_info
    demand = pod_info.demand
    if terms := pods.repelling(pod_info.namespace, pod_info.labels):
        others = dataclasses.replace(demand.inter_pod_rules or facts.InterPodRules(), repelled_by=terms)
        demand = dataclasses.replace(demand, inter_pod_rules=others)
    if weighted := pods.weighted(pod_info.namespace, pod_info.labels):
        preferred = dataclasses.replace(demand.preferred_pods or facts.PreferredPods(), of_others=weighted)
        demand = dataclasses.replace(demand, preferred_pods=preferred)
    return pod_info if demand is pod_info.demand else dataclasses.replace(pod_info, demand=demand)
