"""How pods are spread that do not say so: those of one ReplicaSet or StatefulSet, as kube-scheduler does.

kube-scheduler finds the pods by the selectors of their controller and of their Services. Here they are found
by their labels, which the pods of one controller share, so that no Service and no controller need be read.
Pods that ask for devices are not spread: of them the strategy says where they are best.
"""

import functools
from typing import Final

from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import raw

# The default constraints of kube-scheduler: how far domains may differ before it matters more.
DEFAULTS: Final = (("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5))
CONTROLLERS: Final = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})
# What a StatefulSet writes on each pod for itself, and what differs between its revisions.
OF_ONE_POD: Final = frozenset(
    {"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "controller-revision-hash"}
)
MOST_LABELS: Final = 32  # With more of them a pod is not spread.


def applied(
    pod: raw.Pod, request: requests.Request, found: facts.PreferredPods | None, labels: facts.Labels
) -> facts.PreferredPods | None:
    """Return what a pod prefers of other pods with how it is spread by default, if it is."""
    if request or pod.spec.topology_spread_constraints or not _is_replica(pod):
        return found
    if not (constraints := _constraints(pod.metadata.namespace, labels)):
        return found
    terms = found.terms if found is not None else ()
    return facts.PreferredPods(terms, constraints, spread_by_default=True)


def _is_replica(pod: raw.Pod) -> bool:
    return any(one.controller and one.kind in CONTROLLERS for one in pod.metadata.owner_references)


@functools.lru_cache(maxsize=1024)
def _constraints(namespace: str, labels: facts.Labels) -> tuple[facts.SpreadConstraint, ...]:
    """Return the constraints of pods with these labels, which share them; none without any label."""
    alike = [(key, value) for key, value in labels if key not in OF_ONE_POD]
    if not alike or len(labels) > MOST_LABELS:
        return ()
    expressions = tuple(facts.LabelExpression(key, "In", (value,)) for key, value in alike)
    selector = facts.PodSelector((namespace,), expressions)
    return tuple(facts.SpreadConstraint(key, skew, selector, self_match=False) for key, skew in DEFAULTS)
