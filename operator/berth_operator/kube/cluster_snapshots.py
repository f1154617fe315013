"""The cluster as manifests: all that a decision depends on, to be placed anew somewhere else.

Everything is listed from the API when somebody asks, for the ledger keeps only what it
read. Binds under way are not in the API yet; they are added as they will be, so that the
cards they take are taken in the copy too. It comes in pages, because a large cluster is too
much to be held at once. What placement never reads and might be a
secret (environments, arguments, what was once applied) is left out.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, Final

from berth_crds import names
from berth_crds.client import api, resources, watch
from berth_operator.engine.hold_states import State
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import feeds, writer
from berth_operator.scheduling import decisions

Thing = dict[str, Any]

# Listed in all namespaces, and whole.
WHOLE: Final = (
    resources.NODES,
    resources.DEVICES,
    resources.POLICIES,
    resources.PRIORITY_CLASSES,
    resources.GPU_PODS,
)
PAGE: Final = 250  # A page is decoded and looked through in one go, and pods wait meanwhile.
OBJECTS: Final = watch.Codec(dict[str, Any])
TERM: Final = "assumed"  # Stands where the leader's term will, in pods that are about to be bound.
APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
OF_CONTAINERS: Final = frozenset({"name", "image", "resources", "restartPolicy", "ports"})


class Snapshots:
    """Lists the cluster."""

    def __init__(self, session: api.Api, ledger: Ledger) -> None:
        self._session = session
        self._ledger = ledger

    async def pages(self) -> AsyncGenerator[list[Thing]]:
        """Yield all objects, a page at a time, pods last."""
        for resource in WHOLE:
            async for page in self._list(resource):
                yield page
        async for page in self._list(resources.LEASES, namespace=names.NODES_NAMESPACE):
            yield page
        assumed = self._placements()
        async for page in self._list(resources.PODS, fields=feeds.UNFINISHED):
            # Whoever was assumed before the list may be confirmed by now, and in it still without a node.
            assumed |= self._placements()
            yield [pod(one, self._open_bind(one, assumed)) for one in page]

    def _open_bind(
        self, one: Thing, assumed: Mapping[str, decisions.Placement]
    ) -> decisions.Placement | None:
        """Return where a pod is about to be bound, or was since it was listed."""
        uid = str(one["metadata"].get("uid", ""))  # Whatever it is: an odd object has any.
        return assumed.get(uid) if self._ledger.state(uid) is not State.FREE else None

    def _placements(self) -> dict[str, decisions.Placement]:
        return {uid: one.placement for uid, one in self._ledger.assumed_pods.items()}

    async def _list(
        self, resource: resources.Resource, *, namespace: str = "", fields: str = ""
    ) -> AsyncIterator[list[Thing]]:
        path = resource.path(namespace=namespace)
        selectors = {"fieldSelector": fields} if fields else {}
        async for page in watch.by_page(self._session, path, OBJECTS, selectors=selectors, size=PAGE):
            yield list(_named(resource, page.items))


def _named(resource: resources.Resource, items: Iterable[Thing | watch.Unreadable]) -> Iterator[Thing]:
    """Yield the objects of a list with the kind that the list alone told, without their managedFields."""
    for one in items:
        if isinstance(one, watch.Unreadable):
            continue
        meta = {key: value for key, value in _object(one.get("metadata")).items() if key != "managedFields"}
        notes = {key: value for key, value in _object(meta.get("annotations")).items() if key != APPLIED}
        meta |= {"annotations": notes} if notes else {}
        if not notes:
            meta.pop("annotations", None)
        yield {"apiVersion": resource.api_version, "kind": resource.kind, **one, "metadata": meta}


def pod(one: Thing, placement: decisions.Placement | None) -> Thing:
    """Return a pod as placement sees it; one that is about to be bound, as it will be."""
    spec = dict(_object(one.get("spec")))
    for part in CONTAINERS:
        if part in spec:
            spec[part] = [_bare(_object(container)) for container in _list(spec[part])]
    if placement is None or spec.get("nodeName"):
        return {**one, "spec": spec}
    meta = dict(one["metadata"])
    meta["annotations"] = {**meta.get("annotations", {}), **writer.annotations(placement, term=TERM)}
    return {**one, "metadata": meta, "spec": {**spec, "nodeName": placement.node}}


def _object(value: Any) -> Thing:
    """Return an object, an empty one for what should be one and is not."""
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _bare(container: Mapping[str, Any]) -> Thing:
    return {key: value for key, value in container.items() if key in OF_CONTAINERS}
