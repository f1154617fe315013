"""Where each kind lives in the API's tree of URLs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from berth_crds import names


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of the API: enough to build any URL of it and to name it to people."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    def __str__(self) -> str:
        """Return the name that kubectl and RBAC use."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        """The object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, name: str = "", *, namespace: str = "", sub: str = "") -> str:
        """Build the path of a collection, an object or a subresource of it."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if namespace else ""
        tail = "".join(f"/{part}" for part in (name, sub) if part)
        return f"{root}{scope}/{self.plural}{tail}"


@dataclass(frozen=True, slots=True)
class Scope:
    """A part of a collection."""

    namespace: str = ""
    fields: str = ""
    labels: str = ""

    @property
    def selectors(self) -> Mapping[str, str]:
        """The query parameters that say so."""
        both = {"fieldSelector": self.fields, "labelSelector": self.labels}
        return {key: value for key, value in both.items() if value}


WHOLE: Final = Scope()

# Reviews of the clients of our own pages.
TOKEN_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
PRIORITY_CLASSES: Final = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
PODS: Final = Resource("", "v1", "pods", "Pod")
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SERVICES: Final = Resource("", "v1", "services", "Service")
EVENTS: Final = Resource("", "v1", "events", "Event")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
STORAGE_CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CSI_DRIVERS: Final = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
CSI_NODES: Final = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
CAPACITIES: Final = Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
DEVICES: Final = Resource(names.GROUP, names.VERSION, names.DEVICES, "Device", namespaced=False)
GPU_PODS: Final = Resource(names.GROUP, names.VERSION, names.GPU_PODS, "GpuPod")
POLICIES: Final = Resource(names.GROUP, names.VERSION, names.POLICIES, "PlacementPolicy", namespaced=False)
