"""A second implementation of topology spread and inter-pod affinity, in dicts and loops, to compare with.

It is written from the rules of Kubernetes' scheduler (the documentation of `topologySpreadConstraints` and
`podAffinity`, and its plugins PodTopologySpread and InterPodAffinity), works on manifests, counts all pods
for each signature, and shares no code with the operator.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

Body = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclasses.dataclass
class PlainCluster:
    """Manifests: nodes by name, pods by name with the node they are on, and labels of namespaces."""

    nodes: dict[str, Body] = dataclasses.field(default_factory=dict)
    pods: dict[str, Body] = dataclasses.field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)

    def on_nodes(self) -> Iterator[tuple[Body, Body]]:
        """Yield each pod whose node exists, with its node."""
        for pod in self.pods.values():
            node = self.nodes.get(pod["spec"]["nodeName"])
            if node is not None:
                yield pod, node


# ---------------------------------------------------------------- selectors


def expression_holds(expression: Body, labels: dict[str, str]) -> bool:
    """Whether one expression of a selector holds."""
    key, values = expression["key"], expression.get("values", [])
    match expression["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt":
            return key in labels and int(labels[key]) > int(values[0])
    raise ValueError(expression)


def selector_holds(selector: Body | None, labels: dict[str, str]) -> bool:
    """Whether a selector selects something with these labels: an absent one nothing, an empty one all."""
    if selector is None:
        return False
    for key, value in selector.get("matchLabels", {}).items():
        if labels.get(key) != value:
            return False
    return all(expression_holds(one, labels) for one in selector.get("matchExpressions", []))


def is_empty(selector: Body | None) -> bool:
    """Whether a selector is there and asks for nothing."""
    return selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions")


def labels_of(thing: Body) -> dict[str, str]:
    """Return the labels of an object."""
    found: dict[str, str] = thing["metadata"].get("labels", {})
    return found


def with_own_values(selector: Body | None, pod: Body, match: list[str], mismatch: list[str]) -> Body | None:
    """Return a selector with the pod's own values of the listed labels."""
    if selector is None:
        return None
    own = labels_of(pod)
    more = [{"key": key, "operator": "In", "values": [own[key]]} for key in match if key in own]
    more += [{"key": key, "operator": "NotIn", "values": [own[key]]} for key in mismatch if key in own]
    return {**selector, "matchExpressions": [*selector.get("matchExpressions", []), *more]}


# ---------------------------------------------------------------- pod affinity


def terms(pod: Body, kind: str) -> list[Body]:
    """Return the required terms of a pod."""
    found: list[Body] = pod["spec"].get("affinity", {}).get(kind, {}).get(REQUIRED, [])
    return found


def term_means(term: Body, owner: Body, pod: Body, cluster: PlainCluster) -> bool:
    """Whether a term of one pod means another, by namespace and labels."""
    named, chosen = term.get("namespaces", []), term.get("namespaceSelector")
    namespace = pod["metadata"]["namespace"]
    if not named and chosen is None:
        inside = namespace == owner["metadata"]["namespace"]
    else:
        its_labels = {"kubernetes.io/metadata.name": namespace, **cluster.namespaces.get(namespace, {})}
        inside = namespace in named or selector_holds(chosen, its_labels)
    keys = term.get("matchLabelKeys", []), term.get("mismatchLabelKeys", [])
    return inside and selector_holds(with_own_values(term.get("labelSelector"), owner, *keys), labels_of(pod))


def meets_affinity(cluster: PlainCluster, pod: Body, node: Body) -> bool:
    """Whether a node meets the pod affinity of a pod."""
    wanted = terms(pod, "podAffinity")
    if not wanted:
        return True
    if any(term["topologyKey"] not in labels_of(node) for term in wanted):
        return False
    pairs = set()
    for other, where in cluster.on_nodes():
        if all(term_means(term, pod, other, cluster) for term in wanted):
            for term in wanted:
                if term["topologyKey"] in labels_of(where):
                    pairs.add((term["topologyKey"], labels_of(where)[term["topologyKey"]]))
    if all((term["topologyKey"], labels_of(node)[term["topologyKey"]]) in pairs for term in wanted):
        return True
    return not pairs and all(term_means(term, pod, pod, cluster) for term in wanted)


def meets_anti_affinity(cluster: PlainCluster, pod: Body, node: Body) -> bool:
    """Whether no pod in a domain of the node is one that the pod keeps away from."""
    for term in terms(pod, "podAntiAffinity"):
        key = term["topologyKey"]
        for other, where in cluster.on_nodes():
            near = key in labels_of(node) and labels_of(node)[key] == labels_of(where).get(key)
            if near and term_means(term, pod, other, cluster):
                return False
    return True


def meets_existing(cluster: PlainCluster, pod: Body, node: Body) -> bool:
    """Whether no pod in a domain of the node keeps the pod away."""
    for other, where in cluster.on_nodes():
        for term in terms(other, "podAntiAffinity"):
            key = term["topologyKey"]
            near = key in labels_of(node) and labels_of(node)[key] == labels_of(where).get(key)
            if near and term_means(term, other, pod, cluster):
                return False
    return True


# ---------------------------------------------------------------- topology spread


def tolerates(pod: Body, node: Body) -> bool:
    """Whether a pod tolerates all taints of a node that keep pods off; tests use plain `Exists` only."""
    keys = {one["key"] for one in pod["spec"].get("tolerations", [])}
    taints = node["spec"].get("taints", [])
    return all(one["key"] in keys for one in taints if one["effect"] != "PreferNoSchedule")


def selects_node(pod: Body, node: Body) -> bool:
    """Whether a pod's node selector selects a node; tests use no other node affinity."""
    return all(
        labels_of(node).get(key) == value for key, value in pod["spec"].get("nodeSelector", {}).items()
    )


def hard(pod: Body) -> list[Body]:
    """Return the constraints that must be met."""
    found = pod["spec"].get("topologySpreadConstraints", [])
    return [one for one in found if one["whenUnsatisfiable"] == "DoNotSchedule"]


def counts_by_domain(cluster: PlainCluster, pod: Body, constraint: Body) -> dict[str, int]:
    """Return how many pods count in each domain that there is."""
    key = constraint["topologyKey"]
    selector = with_own_values(constraint.get("labelSelector"), pod, constraint.get("matchLabelKeys", []), [])
    found: dict[str, int] = {}
    for name, node in cluster.nodes.items():
        if not makes_domain(pod, constraint, node):
            continue
        found.setdefault(labels_of(node)[key], 0)
        for other in cluster.pods.values():
            if other["spec"]["nodeName"] == name and counts(pod, selector, other):
                found[labels_of(node)[key]] += 1
    return found


def makes_domain(pod: Body, constraint: Body, node: Body) -> bool:
    """Whether a node makes a domain of a constraint."""
    if any(one["topologyKey"] not in labels_of(node) for one in hard(pod)):
        return False
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not selects_node(pod, node):
        return False
    return constraint.get("nodeTaintsPolicy", "Ignore") != "Honor" or tolerates(pod, node)


def counts(pod: Body, selector: Body | None, other: Body) -> bool:
    """Whether another pod is counted for a constraint of a pod."""
    if other["metadata"].get("deletionTimestamp") or is_empty(selector):
        return False
    same = other["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return same and selector_holds(selector, labels_of(other))


def meets_spread(cluster: PlainCluster, pod: Body, node: Body) -> bool:
    """Whether a node meets all hard constraints of a pod."""
    for constraint in hard(pod):
        key = constraint["topologyKey"]
        if key not in labels_of(node):
            return False
        counted = counts_by_domain(cluster, pod, constraint)
        fewest = min(counted.values(), default=0)
        if len(counted) < constraint.get("minDomains", 1):
            fewest = 0
        selector = with_own_values(
            constraint.get("labelSelector"), pod, constraint.get("matchLabelKeys", []), []
        )
        itself = 1 if selector_holds(selector, labels_of(pod)) else 0
        if counted.get(labels_of(node)[key], 0) + itself - fewest > constraint["maxSkew"]:
            return False
    return True


RULES = (meets_affinity, meets_anti_affinity, meets_existing, meets_spread)


def feasible(cluster: PlainCluster, pod: Body) -> set[str]:
    """Return the nodes that a pod may go to as far as other pods are concerned."""
    return {name for name, node in cluster.nodes.items() if all(rule(cluster, pod, node) for rule in RULES)}
