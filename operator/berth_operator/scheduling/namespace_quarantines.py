"""Nodes that are quarantined for a namespace: their kubelets reject its pods, so they get none for a time.

Why a kubelet rejects a pod may lie with the pod: a sysctl that is not allowed, more replicas than its plugin
gives. So a namespace whose pods are rejected has its own pods kept off a node, and nobody else's
(`engine.rejections`).
"""

import dataclasses

from berth_operator.scheduling import queued_pods

QuarantinedNodes = frozenset[tuple[str, str]]  # Names of nodes, and why.
NONE: QuarantinedNodes = frozenset()


class NamespaceQuarantines:
    """The nodes that are quarantined for a namespace, each for one at most."""

    def __init__(self) -> None:
        self._namespaces: dict[str, str] = {}  # By node.
        self._causes: dict[str, dict[str, str]] = {}  # By namespace and node.

    def set(self, node: str, namespace: str, why: str) -> None:
        """Quarantine a node for a namespace, or for none if that is empty."""
        if (before := self._namespaces.pop(node, "")) != "":
            del self._causes[before][node]
            if not self._causes[before]:
                del self._causes[before]
        if namespace:
            self._namespaces[node] = namespace
            self._causes.setdefault(namespace, {})[node] = why

    def of_namespace(self, namespace: str) -> QuarantinedNodes:
        """Return the nodes that are quarantined for a namespace, and why."""
        return frozenset(self._causes[namespace].items()) if namespace in self._causes else NONE


def with_quarantined_nodes(
    quarantines: NamespaceQuarantines, pod_info: queued_pods.PodInfo
) -> queued_pods.PodInfo:
    """Return a pod whose demand names the nodes that are quarantined for its namespace, if it has devices."""
    found = quarantines.of_namespace(pod_info.namespace)
    if not found or not pod_info.request.need.any_device:
        return pod_info
    demand = dataclasses.replace(pod_info.demand, quarantined_nodes=found)
    return dataclasses.replace(pod_info, demand=demand)
