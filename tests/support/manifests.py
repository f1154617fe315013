"""Objects of the API as people and programs write them: the bodies that builders decode elsewhere.

A test names only what it is about. Uuids, sizes and models are those of `builders`, so that an
object here and a value of the core with the same names are the same card.
"""

from collections.abc import Mapping
from typing import Any, Final

from berth_crds import allocation, names
from support import builders

Body = dict[str, Any]


def pod(
    name: str = "p",
    limits: int | Mapping[str, object] = 1,
    *,
    namespace: str = "",
    annotations: Mapping[str, str] = {},
    meta: Mapping[str, object] = {},
    phase: str = "",
    **spec: Any,
) -> Body:
    """Return a pod of Berth with one container; a number of `limits` means whole cards."""
    if isinstance(limits, int):
        limits = {names.NVIDIA_GPU: str(limits)} if limits else {}
    container = {"name": "main", "image": "example.com/work", "resources": {"limits": dict(limits)}}
    about = {"name": name, "annotations": dict(annotations)} | ({"namespace": namespace} if namespace else {})
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": about | dict(meta),
        "spec": {"schedulerName": names.SCHEDULER_NAME, "containers": [container]} | spec,
    }
    return body | ({"status": {"phase": phase}} if phase else {})


# Fields of the spec of a pod that takes long to be read.
LONG: Final[Body] = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {f"key-{at}": "x" * 60}}, "topologyKey": "zone"}
                for at in range(60)
            ]
        }
    }
}


def node(name: str = "n1", *, labels: Mapping[str, str] = {}, **amounts: object) -> Body:
    """Return a Node with these allocatable amounts beside the usual ones."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels)},
        "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"} | amounts},
    }


def device(node: str = "n1", cards: int = 4) -> Body:
    """Return a Device of plain cards."""
    card = {"type": "gpu", "vendor": "nvidia", "model": f"NVIDIA {builders.MODEL}", "memory": builders.MEMORY}
    listed = [card | {"uuid": builders.uuid(node, minor), "minor": minor} for minor in range(cards)]
    return own("Device", node, spec={"node": node, "devices": listed, "cordon": []})


def gpupod(name: str, pod_uid: str, node: str, *minors: int, of: Body | None = None, **meta: object) -> Body:
    """Return the GpuPod of a pod whose container `main` has these cards of a Device, whole."""
    cards = (of or device(node, max(minors, default=-1) + 1))["spec"]["devices"]
    held = [
        {key: cards[minor][key] for key in ("uuid", "minor", "type", "memory")} | {"core": 100}
        for minor in minors
    ]
    spec = {"node": node, "podUID": pod_uid, "containers": [{"name": "main", "devices": held}]}
    return own("GpuPod", name, spec=spec, **meta)


def own(kind: str, name: str, *, spec: Mapping[str, object], **meta: object) -> Body:
    """Return an object of Berth's API group."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": kind,
        "metadata": {"name": name} | meta,
        "spec": dict(spec),
    }


def lease(name: str, renewed: str = "") -> Body:
    """Return the Lease of a node's agent."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": names.NODES_NAMESPACE},
        "spec": {"renewTime": renewed} if renewed else {},
    }


def priority_class(name: str, value: int, **fields: object) -> Body:
    """Return a PriorityClass."""
    about = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return about | {"value": value} | fields


def allocated(node: str, *minors: int) -> dict[str, str]:
    """Return the annotations of a Binding that gives these cards to the container `main`."""
    shares = [builders.recorded(minor, at=node) for minor in minors]
    return allocation.annotations(allocation.of(node, {"main": {"gpu": shares}}), term="test/1")
