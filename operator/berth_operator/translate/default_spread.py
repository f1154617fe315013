"""Which pods are spread by default: those of one ReplicaSet or StatefulSet that do not say how.

kube-scheduler finds the pods by the selectors of their controller and of their Services. Here they are
found by their labels (`replica_index`), so that no Service and no controller need be read. Pods that ask
for devices are not spread: of them the strategy says where they are best.
"""

from typing import Final

from berth_operator.scheduling import replica_index
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import raw

CORE: Final = "v1"
APPS: Final = "apps/"
CONTROLLERS: Final = frozenset({(CORE, "ReplicationController"), (APPS, "ReplicaSet"), (APPS, "StatefulSet")})


def replicas(pod: raw.Pod, request: requests.Request, labels: facts.Labels) -> facts.Replicas | None:
    """Return the pods over whose nodes a pod is spread by default; None if it is not."""
    if request or pod.spec.topology_spread_constraints or not _has_controller(pod):
        return None
    return replica_index.replicas_of(pod.metadata.namespace, labels)


def _has_controller(pod: raw.Pod) -> bool:
    owners = (one for one in pod.metadata.owner_references if one.controller)
    return any((_group(one.api_version), one.kind) in CONTROLLERS for one in owners)


def _group(api_version: str) -> str:
    """Return the group of an API version, whatever the version is; the core group has none."""
    group, slash, _ = api_version.partition("/")
    return group + slash
