"""The cluster as manifests: all objects on which a decision depends, for the simulation.

Every snapshot is listed from the API, for the ledger keeps only the fields that it needs. Binds
under way are not in the API yet; they are added as they will be, so that their cards are taken
in the copy too. A snapshot comes in pages, because a large cluster is too much to be held at
once. Fields that placement never reads and that may hold secrets (environments, arguments, the
last applied configuration) are left out.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, Final

from berth_crds import names
from berth_crds.client import api, resources, watch
from berth_operator.engine.hold_states import State
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import feeds
from berth_operator.scheduling import decisions
from berth_operator.translate import bind_annotations

Manifest = dict[str, Any]

# Listed whole, and those without a namespace here in all of them.
WHOLE: Final = {
    resources.NODES: "",
    resources.NAMESPACES: "",
    resources.DEVICES: "",
    resources.POLICIES: "",
    resources.PRIORITY_CLASSES: "",
    resources.GPU_PODS: "",
    resources.LEASES: names.NODES_NAMESPACE,
    resources.STORAGE_CLASSES: "",
    resources.CSI_DRIVERS: "",
    resources.CSI_NODES: "",
    resources.CAPACITIES: "",
    resources.VOLUMES: "",
    resources.CLAIMS: "",
}
PAGE: Final = 250  # A page is decoded between two awaits, and pods wait meanwhile.
OBJECTS: Final = watch.Codec(dict[str, Any])
TERM: Final = "assumed"  # In place of the leader's term, in pods whose bind is under way.
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
CSI_FIELDS: Final = frozenset({"driver", "volumeHandle"})
VOLUME_FIELDS: Final = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "csi",
        "nodeAffinity",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)
CONTAINER_FIELDS: Final = frozenset({"name", "image", "resources", "restartPolicy", "ports"})


async def pages(session: api.Api, ledger: Ledger) -> AsyncGenerator[list[Manifest]]:
    """Yield all objects of the cluster, a page at a time, pods last."""
    for resource, namespace in WHOLE.items():
        async for page in _pages(session, resource, namespace=namespace):
            yield page
    assumed = _placements(ledger)
    async for page in _pages(session, resources.PODS, fields=feeds.UNFINISHED):
        # A pod that was assumed before the list may be confirmed by now, and have no node in the list.
        assumed |= _placements(ledger)
        yield [pod(one, _open_bind(ledger, one, assumed)) for one in page]


def _open_bind(
    ledger: Ledger, one: Manifest, assumed: Mapping[str, decisions.Placement]
) -> decisions.Placement | None:
    """Return the placement of a pod whose bind is under way, or was when the pod was listed."""
    uid = str(one["metadata"].get("uid", ""))  # An invalid object may have a uid of any type.
    return assumed.get(uid) if ledger.state(uid) is not State.FREE else None


def _placements(ledger: Ledger) -> dict[str, decisions.Placement]:
    return {uid: one.placement for uid, one in ledger.assumed_pods.items()}


async def _pages(
    session: api.Api, resource: resources.Resource, *, namespace: str = "", fields: str = ""
) -> AsyncIterator[list[Manifest]]:
    path = resource.path(namespace=namespace)
    async for page in watch.list_pages(
        session, path, OBJECTS, selectors={"fieldSelector": fields} if fields else {}, size=PAGE
    ):
        yield list(_manifests(resource, page.items))


def _manifests(
    resource: resources.Resource, items: Iterable[Manifest | watch.Undecodable]
) -> Iterator[Manifest]:
    """Yield the objects of a list with the kind, which only the list names, and without managedFields."""
    for one in items:
        if isinstance(one, watch.Undecodable):
            continue
        meta = _without(_object(one.get("metadata")), "managedFields")
        if annotations := _without(_object(meta.pop("annotations", None)), LAST_APPLIED):
            meta["annotations"] = annotations
        shown = {"apiVersion": resource.api_version, "kind": resource.kind, **one, "metadata": meta}
        yield _of_storage(shown) if resource in {resources.VOLUMES, resources.STORAGE_CLASSES} else shown


def _of_storage(one: Manifest) -> Manifest:
    """Return a volume or a class without what only its driver reads: attributes, parameters, secrets."""
    if "spec" not in one:
        return _without(one, "parameters")
    spec = {key: value for key, value in _object(one["spec"]).items() if key in VOLUME_FIELDS}
    csi = {key: value for key, value in _object(spec.pop("csi", None)).items() if key in CSI_FIELDS}
    return {**one, "spec": spec | ({"csi": csi} if csi else {})}


def pod(one: Manifest, placement: decisions.Placement | None) -> Manifest:
    """Return the fields of a pod that placement reads; with a placement, as the bind will leave it."""
    spec = dict(_object(one.get("spec")))
    for part in CONTAINERS:
        if part in spec:
            spec[part] = [_container(_object(container)) for container in _list(spec[part])]
    if placement is None or spec.get("nodeName"):
        return {**one, "spec": spec}
    meta = dict(one["metadata"])
    containers = [
        one.get("name", "") for part in ("initContainers", "containers") for one in spec.get(part, ())
    ]
    result = bind_annotations.of(placement, term=TERM, containers=containers)
    meta["annotations"] = {**meta.get("annotations", {}), **result}
    return {**one, "metadata": meta, "spec": {**spec, "nodeName": placement.node}}


def _without(fields: Manifest, name: str) -> Manifest:
    return {key: value for key, value in fields.items() if key != name}


def _object(value: Any) -> Manifest:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _container(container: Mapping[str, Any]) -> Manifest:
    return {key: value for key, value in container.items() if key in CONTAINER_FIELDS}
