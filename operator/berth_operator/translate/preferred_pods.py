"""What a pod would rather have of other pods: preferred pod affinity and anti-affinity, and soft spread.

Nobody is refused for it: what the API server would not accept, or is beyond the limits, is passed over.
"""

from collections.abc import Iterator
from typing import Final

from berth_operator.scheduling import pod_terms
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import inter_pod_rules, pod_limits, raw

SCHEDULE_ANYWAY: Final = "ScheduleAnyway"
MOST_SKEW: Final = 2**31 - 1

Terms = tuple[raw.WeightedPodAffinityTerm, ...]


def of_pod(pod: raw.Pod) -> facts.PreferredPods | None:
    """Return what a pod prefers of other pods, as far as it is within the limits; None for nothing."""
    spec, namespace, labels = pod.spec, pod.metadata.namespace, pod.metadata.labels
    if spec.affinity is None and not spec.topology_spread_constraints:
        return None
    terms, spread = pod_limits.preferred_of_pods(spec, tuple(_written(spec)), soft_spread(spec))
    if not terms and not spread:
        return None
    return facts.PreferredPods(
        tuple(
            facts.WeightedPodTerm(weight, inter_pod_rules.term(one, namespace, labels))
            for weight, one in terms
        ),
        tuple(inter_pod_rules.soft_constraint(one, namespace, labels) for one in spread),
    )


def of_bound(pod: raw.Pod) -> tuple[facts.WeightedPodTerm, ...]:
    """Return how a pod on a node weighs pods that come later; beyond the limits no required term counts."""
    if pod.spec.affinity is None:
        return ()
    is_near = bool(inter_pod_rules.affinity_terms(pod.spec)) and not pod_limits.many_terms(pod.spec)
    near = inter_pod_rules.required_affinity(pod) if is_near else ()
    preferred = of_pod(pod)
    return pod_terms.weighted(near, preferred.terms if preferred is not None else ())


def near_terms(spec: raw.PodSpec) -> Terms:
    """Return the terms about pods to which the pod would rather be near."""
    found = spec.affinity.pod_affinity if spec.affinity is not None else None
    return tuple(filter(_counts, (found.preferred or ()) if found is not None else ()))


def far_terms(spec: raw.PodSpec) -> Terms:
    """Return the terms about pods from which the pod would rather be away."""
    found = spec.affinity.pod_anti_affinity if spec.affinity is not None else None
    return tuple(filter(_counts, (found.preferred or ()) if found is not None else ()))


def _counts(term: raw.WeightedPodAffinityTerm) -> bool:
    return 0 < term.weight <= pod_limits.MAX_WEIGHT and bool(term.pod_affinity_term.topology_key)


def soft_spread(spec: raw.PodSpec) -> tuple[raw.TopologySpreadConstraint, ...]:
    """Return the topology spread constraints that may be missed."""
    return tuple(
        one
        for one in spec.topology_spread_constraints or ()
        if one.when_unsatisfiable == SCHEDULE_ANYWAY and one.topology_key and 0 < one.max_skew <= MOST_SKEW
    )


def _written(spec: raw.PodSpec) -> Iterator[pod_limits.WeightedTerm]:
    """Yield the terms with their weights, below zero for pods from which the pod would rather be away."""
    yield from ((one.weight, one.pod_affinity_term) for one in near_terms(spec))
    yield from ((-one.weight, one.pod_affinity_term) for one in far_terms(spec))


def keys(spec: raw.PodSpec) -> frozenset[str]:
    """Return the labels of the pod itself on which its preferences depend."""
    listed = [one.match_label_keys or () for one in soft_spread(spec)]
    for _, term in _written(spec):
        listed += [term.match_label_keys or (), term.mismatch_label_keys or ()]
    return frozenset(key for some in listed for key in some)
