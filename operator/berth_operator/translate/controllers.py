"""Which controller has made a pod: those are known whose pods are spread by default.

kube-scheduler finds the pods of a controller by its selector. Here they are found by the reference to their
controller, so that no controller need be read, and a label that somebody writes on one pod alone, such as
the zone of its node, tells it from no other.
"""

import sys
from typing import Final

from berth_operator.translate import raw

CORE: Final = "v1"
APPS: Final = "apps/"
SPREADING: Final = frozenset({(CORE, "ReplicationController"), (APPS, "ReplicaSet"), (APPS, "StatefulSet")})
MOST_CHARACTERS: Final = 64  # Of a uid. The server gives shorter ones, but the author of a pod may write any.


def of_pod(pod: raw.Pod) -> str:
    """Return the namespace and the uid of the controller that spreads its pods; empty without one."""
    for one in pod.metadata.owner_references:
        spreads = one.controller and (_group(one.api_version), one.kind) in SPREADING
        if spreads and len(one.uid) <= MOST_CHARACTERS:
            return sys.intern(f"{pod.metadata.namespace}/{one.uid}")
    return ""


def _group(api_version: str) -> str:
    """Return the group of an API version, whatever the version is; the core group has none."""
    group, slash, _ = api_version.partition("/")
    return group + slash
