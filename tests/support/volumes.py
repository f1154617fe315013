"""Claims, PersistentVolumes and what describes storage, as the API writes them and as the core knows them."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from berth_operator.scheduling import queued_pods
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.volumes import facts, index
from berth_operator.translate import raw_volumes, volumes
from support import builders

T = TypeVar("T")
Object = facts.Claim | facts.Volume | facts.StorageClass | facts.Capacity

DRIVER: Final = "csi.example.com"
LATE: Final = "late"  # A class whose claims wait for their first pod.
LOCAL: Final = "local"  # Such a class without a provisioner.
ZONE: Final = "topology.kubernetes.io/zone"
GIBI: Final = 2**30


def decoded(kind: type[T], **body: Any) -> T:
    """Return an object as it travels."""
    return msgspec.json.decode(msgspec.json.encode(body), type=kind)


def claim(name: str = "data", volume: str = "", *, bound: bool | None = None, **fields: Any) -> facts.Claim:
    """Return a claim; one that names a volume is bound to it unless that is denied.

    `size`, `storage_class`, `modes`, `phase`, `annotations` and `meta` differ from the usual; all other
    fields are those of its spec.
    """
    given = USUAL | {"storage_class": LATE, "phase": "Pending"} | fields
    is_bound = bool(volume) if bound is None else bound
    noted = dict(given["annotations"]) | ({volumes.BOUND: "yes"} if is_bound else {})
    about = {"name": name, "namespace": builders.NAMESPACE, "uid": f"uid-{name}", "annotations": noted}
    spec = {
        "accessModes": list(given["modes"]),
        "resources": {"requests": {"storage": given["size"]}},
        "storageClassName": given["storage_class"],
        **({"volumeName": volume} if volume else {}),
        **_further(given),
    }
    body = {"metadata": about | given["meta"], "spec": spec, "status": {"phase": given["phase"]}}
    return volumes.read_claim(decoded(raw_volumes.Claim, **body))


USUAL: Final[dict[str, Any]] = {
    "size": "1Gi",
    "modes": ("ReadWriteOnce",),
    "annotations": {},
    "labels": {},
    "meta": {},
    "storage_class": "",
    "phase": "",
    "uid": None,
}


def _further(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are passed on as they are."""
    return {key: value for key, value in given.items() if key not in USUAL}


def selected(name: str = "data", node: str = "n1", **fields: Any) -> facts.Claim:
    """Return a claim for which a node is selected."""
    return claim(name, annotations={volumes.SELECTED_NODE: node}, **fields)


def volume(
    name: str = "v", *, claimed: str = "", zone: str = "", host: str = "", **fields: Any
) -> facts.Volume:
    """Return a volume, of a claim or available, that nodes of a zone or a single one can reach.

    `size`, `storage_class`, `modes`, `phase`, `labels`, `meta` and the `uid` of its claim differ from the
    usual; all other fields are those of its spec.
    """
    given = USUAL | {"storage_class": LATE, "phase": "Bound" if claimed else "Available"} | fields
    key, value = (ZONE, zone) if zone else ("kubernetes.io/hostname", host)
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
    uid = f"uid-{claimed}" if given["uid"] is None else given["uid"]
    spec = {
        "accessModes": list(given["modes"]),
        "capacity": {"storage": given["size"]},
        "storageClassName": given["storage_class"],
        **({"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if value else {}),
        **({"claimRef": {"namespace": builders.NAMESPACE, "name": claimed, "uid": uid}} if claimed else {}),
        **_further(given),
    }
    about = {"name": name, "labels": dict(given["labels"])} | given["meta"]
    body = {"metadata": about, "spec": spec, "status": {"phase": given["phase"]}}
    return volumes.read_volume(decoded(raw_volumes.Volume, **body))


def storage_class(
    name: str = LATE, *, provisioner: str = DRIVER, waits: bool = True, **fields: Any
) -> facts.StorageClass:
    """Return a StorageClass."""
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    return volumes.read_class(
        decoded(
            raw_volumes.StorageClass,
            metadata={"name": name},
            provisioner=provisioner,
            volumeBindingMode=mode,
            **fields,
        )
    )


def capacity(
    name: str = "c", size: str | None = "10Gi", *, storage_class: str = LATE, **fields: Any
) -> facts.Capacity:
    """Return how much storage there is where a topology says."""
    amounts = {"capacity": size} if size is not None else {}
    return volumes.read_capacity(
        decoded(
            raw_volumes.Capacity,
            metadata={"name": name, "namespace": "storage"},
            storageClassName=storage_class,
            **amounts,
            **fields,
        )
    )


def put(known: index.Volumes, *objects: Object | str) -> None:
    """Record all of these; a name is that of a CSI driver that reports its capacities."""
    for one in objects:
        match one:
            case facts.Claim():
                known.put_claim(one)
            case facts.Volume():
                known.put_volume(one)
            case facts.StorageClass():
                known.put_class(one)
            case facts.Capacity():
                known.put_capacity(one)
            case str():
                known.put_driver(one, tracks_capacity=True)
    if not known.is_read:
        known.all_read()


def using(*claims: str, name: str = "p", cards: int = 1, owned_by: str = "") -> queued_pods.PodInfo:
    """Return a pod that uses these claims."""
    found = tuple(nodes.PodClaim(builders.NAMESPACE, one, owned_by) for one in claims)
    return builders.pod_info(name, cards, demand=builders.demand(claims=found))
