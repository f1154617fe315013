"""Accounts of agents with fewer rights than an agent needs."""

from dataclasses import dataclass
from pathlib import Path

from testbed import cluster as clusters

LIMITED = """\
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {name}, namespace: {namespace}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: {name}}}
rules:
- {{apiGroups: [""], resources: [nodes, pods], verbs: [get, list, watch]}}
- {{apiGroups: [berth.dev], resources: [devices, gpupods, placementpolicies], verbs: [get, list, watch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: {name}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {name}}}
subjects: [{{kind: ServiceAccount, name: {name}, namespace: {namespace}}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: {name}, namespace: berth-nodes}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: berth-agent}}
subjects: [{{kind: ServiceAccount, name: {name}, namespace: {namespace}}}]
"""

TRUSTED = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: {name}-trusted}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: berth-agent}}
subjects: [{{kind: ServiceAccount, name: {name}, namespace: {namespace}}}]
"""


@dataclass(frozen=True, slots=True)
class Limited:
    """An agent's account that may read, and not yet write."""

    cluster: clusters.Cluster
    namespace: str
    name: str
    kubeconfig: Path

    @property
    def user(self) -> str:
        """Its name in the audit log."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    def trust(self) -> None:
        """Grant it the rights of an agent."""
        self.cluster.apply(TRUSTED.format(name=self.name, namespace=self.namespace))
