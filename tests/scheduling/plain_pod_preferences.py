"""A second implementation of what pods prefer of other pods, in dicts and loops, to compare with.

It is written from the rules of kube-scheduler's plugins InterPodAffinity and PodTopologySpread, works on
manifests, counts all pods for each node, and shares no code with the operator.
"""

import math
from collections.abc import Collection

from scheduling import plain_pod_rules as rules
from scheduling.plain_pod_rules import Body, PlainCluster, labels_of

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"


def weighted(pod: Body, kind: str) -> list[Body]:
    """Return the preferred terms of a pod."""
    found: list[Body] = pod["spec"].get("affinity", {}).get(kind, {}).get(PREFERRED, [])
    return found


def near(term: Body, node: Body, where: Body) -> bool:
    """Whether two nodes are in one domain of a term."""
    key = term["topologyKey"]
    return key in labels_of(node) and labels_of(node)[key] == labels_of(where).get(key)


def weights_of(owner: Body) -> list[tuple[int, Body]]:
    """Return the preferred terms of a pod with their weights, those of anti-affinity below zero."""
    near_ = [(one["weight"], one["podAffinityTerm"]) for one in weighted(owner, "podAffinity")]
    far_ = [(-one["weight"], one["podAffinityTerm"]) for one in weighted(owner, "podAntiAffinity")]
    return near_ + far_


def sum_of_terms(cluster: PlainCluster, pod: Body, node: Body) -> int:
    """Return the weights of all terms that count on a node, those of the pods there included."""
    found = 0
    for other, where in cluster.on_nodes():
        required = [(1, term) for term in rules.terms(other, "podAffinity")]
        for weight, term in weights_of(pod):
            if near(term, node, where) and rules.term_means(term, pod, other, cluster):
                found += weight
        for weight, term in weights_of(other) + required:
            if near(term, node, where) and rules.term_means(term, other, pod, cluster):
                found += weight
    return found


def affinity_parts(cluster: PlainCluster, pod: Body, passing: Collection[str]) -> dict[str, float]:
    """Return the parts of the nodes that pass the filters: from the least sum to the largest."""
    sums = {name: sum_of_terms(cluster, pod, cluster.nodes[name]) for name in passing}
    least, most = min(sums.values()), max(sums.values())
    return {name: (one - least) / (most - least) if most > least else 0.0 for name, one in sums.items()}


# ---------------------------------------------------------------- spread


def soft(pod: Body) -> list[Body]:
    """Return the constraints that may be missed."""
    found = pod["spec"].get("topologySpreadConstraints", [])
    return [one for one in found if one["whenUnsatisfiable"] == "ScheduleAnyway"]


def has_all_labels(pod: Body, node: Body) -> bool:
    """Whether a node has the labels of all soft constraints."""
    return all(one["topologyKey"] in labels_of(node) for one in soft(pod))


def counts_on(pod: Body, constraint: Body, node: Body) -> bool:
    """Whether pods on a node count in its domain."""
    if not has_all_labels(pod, node):
        return False
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not rules.selects_node(pod, node):
        return False
    return constraint.get("nodeTaintsPolicy", "Ignore") != "Honor" or rules.tolerates(pod, node)


def pods_in_domain(cluster: PlainCluster, pod: Body, constraint: Body, node: Body) -> int:
    """Return how many pods count for a node."""
    listed = constraint.get("matchLabelKeys", [])
    selector = rules.with_own_values(constraint.get("labelSelector"), pod, listed, [])
    found = 0
    for other, where in cluster.on_nodes():
        if not rules.counts(pod, selector, other):
            continue
        if constraint["topologyKey"] == HOST:
            found += where["metadata"]["name"] == node["metadata"]["name"]
        elif near(constraint, node, where):
            found += counts_on(pod, constraint, where)
    return found


def spread_parts(cluster: PlainCluster, pod: Body, passing: Collection[str]) -> dict[str, float]:
    """Return the parts of the nodes that pass the filters: all for the node with the fewest pods nearby."""
    if not soft(pod):
        return dict.fromkeys(passing, 0.0)
    scored = [name for name in passing if has_all_labels(pod, cluster.nodes[name])]
    sums = dict.fromkeys(scored, 0.0)
    for constraint in soft(pod):
        values = [labels_of(cluster.nodes[name])[constraint["topologyKey"]] for name in scored]
        domains = len(scored) if constraint["topologyKey"] == HOST else len(set(values))
        for name in scored:
            pods = pods_in_domain(cluster, pod, constraint, cluster.nodes[name])
            sums[name] += pods * math.log(domains + 2) + constraint["maxSkew"] - 1
    rounded = {name: math.floor(one + 0.5) for name, one in sums.items()}
    most, least = max(rounded.values(), default=0), min(rounded.values(), default=0)
    parts = {name: (most + least - one) / most if most else 1.0 for name, one in rounded.items()}
    return dict.fromkeys(passing, 0.0) | parts
