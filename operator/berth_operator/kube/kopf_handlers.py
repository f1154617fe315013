"""What Kopf reconciles: one handler for each of Berth's own kinds, and what follows from its events.

All handlers are `on.event`, and level-based: an event that is missed, or comes twice, changes nothing that
the next pass does not set right. There is no finalizer, no timer and no annotation on any object: with tens
of thousands of GpuPods each would be a write, and two tasks, for each of them. A handler passes the few words
that are compared to the sink; what is due then is written behind the binds and at a limited rate, and all
objects are compared at the start and every few minutes:

Device           `kind_statuses`         conditions, summary, claims and origins in its status
                 `node_capacity_writer`  what its Node lists as capacity
                 `agent_taint_writer`    the taint of a Node whose agent is silent, by policy
                 `evictor`               pods of a silent node or of a lost card, by policy
                 `reconciler`            what was kept of a Device that is gone with its Node
GpuPod           `misplaced_gpupods`     false ones, those of another node, those without a pod: removed
PlacementPolicy  `kind_statuses`         whether it is in force, and why not

Time passes for all objects at once, in the loops of these modules. What a bind depends on comes to the ledger
from the informers (`feeds`), and never from here: binds go on without Kopf. The loops that write Nodes and
evict pods follow the ledger too, because they must agree with what is decided.
"""

from typing import Any, Protocol

import kopf
import msgspec

from berth_crds import names, wire
from berth_operator.kube import gpupod_store, slim_objects

Json = dict[str, Any]
WATCHED = (names.DEVICES, names.GPU_PODS, names.POLICIES)


class KopfSink(Protocol):
    """What receives the events of Kopf, in Kopf's own thread."""

    def device_seen(self, name: str, version: str, status: Json) -> None:
        """Record the revision of a Device, and the operator's part of its status."""

    def device_gone(self, name: str) -> None:
        """Forget a Device that was deleted."""

    def gpupod_seen(self, title: str, one: gpupod_store.Record) -> None:
        """Record whose a GpuPod is."""

    def gpupod_gone(self, title: str, uid: str) -> None:
        """Forget a GpuPod that was deleted; one that was made again under its name may have come before."""

    def policy_seen(self, name: str, version: str, body: Json) -> None:
        """Record the revision of a policy, and all of it."""

    def policy_gone(self, name: str) -> None:
        """Forget a policy that was deleted."""


def register(registry: kopf.OperatorRegistry, sink: KopfSink) -> None:
    """Register the handlers; each returns nothing, for Kopf would write that into the object."""

    @kopf.on.event(names.GROUP, names.VERSION, names.DEVICES, id=names.DEVICES, registry=registry)
    async def device(*, type: str, name: str, body: Any, **_: Any) -> None:  # noqa: A002  Kopf's word
        if type == "DELETED":
            sink.device_gone(name)
        else:
            sink.device_seen(name, _revision(body), _operator_part(body))

    @kopf.on.event(names.GROUP, names.VERSION, names.GPU_PODS, id=names.GPU_PODS, registry=registry)
    async def gpupod(*, type: str, name: str, namespace: str | None, body: Any, **_: Any) -> None:  # noqa: A002
        one = None if type == "DELETED" else _record(body)
        if one is None:
            sink.gpupod_gone(f"{namespace}/{name}", body["metadata"].get("uid", ""))
        else:
            sink.gpupod_seen(f"{namespace}/{name}", one)

    @kopf.on.event(names.GROUP, names.VERSION, names.POLICIES, id=names.POLICIES, registry=registry)
    async def policy(*, type: str, name: str, body: Any, **_: Any) -> None:  # noqa: A002
        if type == "DELETED":
            sink.policy_gone(name)
        else:
            sink.policy_seen(name, _revision(body), plain(body))


def _revision(body: Any) -> str:
    revision: str = body["metadata"].get("resourceVersion", "")
    return revision


def _operator_part(body: Any) -> Json:
    return plain(body.get("status") or {}, *slim_objects.Status.__annotations__)


def _record(body: Any) -> gpupod_store.Record | None:
    """Return whose a GpuPod is; None where that cannot be read, and then it is as good as deleted."""
    try:
        return gpupod_store.record(msgspec.convert(plain(body), wire.GpuPod))
    except msgspec.ValidationError:
        return None


def plain(view: Any, *wanted: str) -> Json:
    """Copy one of Kopf's read-only views into a dict, or only some of its keys, so that the rest can go."""
    return {key: view[key] for key in wanted or view if key in view}
