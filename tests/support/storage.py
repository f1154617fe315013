"""Claims, PersistentVolumes and StorageClasses as people and provisioners write them."""

from collections.abc import Mapping
from typing import Any, Final

from berth_crds.client import resources

Body = dict[str, Any]

PROVISIONER: Final = "example.com/played"
SELECTED: Final = "volume.kubernetes.io/selected-node"
ZONE: Final = "topology.kubernetes.io/zone"


def storage_class(name: str, provisioner: str = PROVISIONER, **fields: Any) -> Body:
    """Return a StorageClass whose claims wait for their first pods."""
    kind = resources.STORAGE_CLASSES
    late = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **late, **fields}


def claim(
    name: str, storage_class: str, *, volume: str = "", modes: tuple[str, ...] = ("ReadWriteOnce",)
) -> Body:
    """Return a claim."""
    spec: Body = {
        "accessModes": list(modes),
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": storage_class,
    }
    if volume:
        spec["volumeName"] = volume
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def volume(name: str, storage_class: str, labels: Mapping[str, str], *, of: Body | None = None) -> Body:
    """Return a volume that nodes with these labels can reach; `of` is the claim that it was made for."""
    terms = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    spec: Body = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": "/var/lib/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}},
    }
    if of is not None:
        spec["claimRef"] = reference(of)
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def reference(claim: Body) -> Body:
    """Return what a volume says of its claim."""
    about = {key: claim["metadata"][key] for key in ("name", "namespace", "uid")}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **about}


def using(*claims: str) -> list[Body]:
    """Return the volumes of a pod that uses these claims."""
    return [
        {"name": f"v{at}", "persistentVolumeClaim": {"claimName": claim}} for at, claim in enumerate(claims)
    ]
