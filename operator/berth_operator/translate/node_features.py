"""Features that a kubelet declares in the status of its Node, and pods that need one of them.

A kubelet refuses a pod with a feature that it lacks, and kube-scheduler lets none there: what a pod needs
follows from its spec, by the rules of Kubernetes' `nodedeclaredfeatures`.
"""

from typing import Final

from berth_operator.translate import raw, resources

RESTART_ALL: Final = "RestartAllContainersOnContainerExits"
HOST_NETWORK_USERS: Final = "UserNamespacesHostNetworkSupport"
KNOWN: Final = frozenset({RESTART_ALL, HOST_NETWORK_USERS})
RESTART_ALL_ACTION: Final = "RestartAllContainers"
NONE: Final[frozenset[str]] = frozenset()


def declared(status: raw.NodeStatus) -> frozenset[str]:
    """Return the features of a node that a pod may need."""
    return KNOWN.intersection(status.declared_features) if status.declared_features else NONE


def needed(spec: raw.PodSpec) -> tuple[str, ...]:
    """Return the features without which a kubelet refuses a pod."""
    restarts = (RESTART_ALL,) if _restarts_all(spec) else ()
    users = (HOST_NETWORK_USERS,) if spec.host_network and spec.host_users is False else ()
    return (*restarts, *users)


def _restarts_all(spec: raw.PodSpec) -> bool:
    return any(
        rule.action == RESTART_ALL_ACTION
        for container, _ in resources.each_container(spec)
        for rule in container.restart_policy_rules or ()
    )
