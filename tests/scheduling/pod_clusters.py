"""Clusters for tests of topology spread and pod affinity: manifests, and the inventory fed with them."""

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from berth_operator.scheduling import existing_terms, queued_pods, signatures
from berth_operator.scheduling.constraints import registry
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.preferences import registry as preferences
from berth_operator.translate import nodes, pods, raw
from scheduling import plain_pod_preferences, plain_pod_rules

Body = dict[str, Any]
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
REQUIRED: Final = plain_pod_rules.REQUIRED
PREFERRED: Final = plain_pod_preferences.PREFERRED
AWAY: Final = "podAntiAffinity"
WEB: Final = {"app": "web"}


def node(name: str, zone: str = "", *, taints: Sequence[str] = (), **labels: str) -> Body:
    """Write a node, in a zone or in none; each taint keeps pods off."""
    found = {HOST: name, **labels, **({ZONE: zone} if zone else {})}
    given = [{"key": key, "value": "", "effect": "NoSchedule"} for key in taints]
    return {
        "metadata": {"name": name, "labels": found},
        "spec": {"taints": given},
        "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110"}},
    }


def pod(
    name: str = "p",
    at: str = "",
    *,
    namespace: str = "ml",
    labels: Mapping[str, str] = {},
    leaving: bool = False,
    **spec: Any,
) -> Body:
    """Write a pod that asks for no devices, on a node or waiting."""
    meta: Body = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": dict(labels)}
    if leaving:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    plain: Body = {"schedulerName": "berth-scheduler", "containers": [{"name": "main"}]}
    where = {"nodeName": at} if at else {}
    status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"} if at else {"phase": "Pending"}
    return {"metadata": meta, "spec": plain | where | spec, "status": status}


def selecting(**labels: str) -> Body:
    """Write a selector of equal labels."""
    return {"matchLabels": labels}


def spread(key: str = ZONE, *, selector: Body | None = None, skew: int = 1, **fields: Any) -> Body:
    """Write a hard spread constraint, by default of the pods of `app: web`."""
    usual = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return usual | {"labelSelector": selecting(app="web") if selector is None else selector} | fields


def term(key: str = ZONE, *, selector: Body | None = None, **fields: Any) -> Body:
    """Write a term of pod affinity, by default about the pods of `app: web`."""
    return {
        "topologyKey": key,
        "labelSelector": selecting(app="web") if selector is None else selector,
    } | fields


def near(*terms: Body) -> Body:
    """Write a required pod affinity, as a part of an affinity."""
    return {"podAffinity": {REQUIRED: list(terms)}}


def far(*terms: Body) -> Body:
    """Write a required pod anti-affinity, as a part of an affinity."""
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def wish(weight: int = 1, /, kind: str = "podAffinity", **fields: Any) -> Body:
    """Write a preferred term, as a part of an affinity."""
    return {kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": term(**fields)}]}}


def wishes(*parts: Body) -> Body:
    """Write an affinity of several preferred terms of one kind or both."""
    found: Body = {}
    for part in parts:
        for kind, lists in part.items():
            found.setdefault(kind, {}).setdefault(PREFERRED, []).extend(lists[PREFERRED])
    return found


def softly(key: str = ZONE, **fields: Any) -> Body:
    """Write a soft spread constraint, by default of the pods of `app: web`."""
    return spread(key, whenUnsatisfiable="ScheduleAnyway", **fields)


# ---------------------------------------------------------------- the operator's side


def read(body: Body) -> raw.Pod:
    """Return a pod as the operator reads it."""
    return msgspec.json.decode(msgspec.json.encode(body), type=raw.Pod)


def hold(body: Body) -> Hold:
    """Return what a pod on a node holds."""
    found = pods.classify(read(body))
    assert isinstance(found, pods.BoundPod), found
    return found.hold


def read_node(body: Body) -> facts.Node:
    """Return a node as the operator knows it."""
    return nodes.read(msgspec.convert(body, raw.Node))


def pod_info(body: Body) -> queued_pods.PodInfo:
    """Return a waiting pod."""
    found = pods.pod_info(read(body))
    assert not found.faults, found.faults
    return found


class Both:
    """One cluster twice: manifests for the plain rules, and the operator's inventory."""

    def __init__(self, *bodies: Body) -> None:
        self.plain = plain_pod_rules.PlainCluster()
        self.inventory = Inventory()
        for body in bodies:
            self.put_pod(body) if "containers" in body["spec"] else self.put_node(body)

    def put_node(self, body: Body) -> None:
        """Add or replace a node."""
        self.plain.nodes[body["metadata"]["name"]] = body
        self.inventory.put_node(read_node(body))

    def drop_node(self, name: str) -> None:
        """Remove a node, but not its pods."""
        self.plain.nodes.pop(name, None)
        self.inventory.drop_node(name)

    def put_pod(self, body: Body) -> None:
        """Add a pod on a node, or its new state; it never moves."""
        name, found = body["metadata"]["name"], hold(body)
        if name in self.plain.pods:
            self.inventory.refresh(found)
        else:
            self.inventory.charge(found)
        self.plain.pods[name] = copy.deepcopy(body)

    def drop_pod(self, name: str) -> None:
        """Remove a pod."""
        if self.plain.pods.pop(name, None) is not None:
            self.inventory.release(f"uid-{name}")

    def name_namespace(self, name: str, labels: dict[str, str] | None) -> None:
        """Record the labels of a namespace, or that it is gone."""
        self.inventory.pods.set_namespace(name, labels)
        self.plain.namespaces.pop(name, None)
        if labels is not None:
            self.plain.namespaces[name] = labels

    def feasible(self, body: Body) -> set[str]:
        """Return the nodes that the operator finds feasible, as far as other pods are concerned."""
        return feasible(self.inventory, pod_info(body))


def asked(inventory: Inventory, waiting: queued_pods.PodInfo) -> Query:
    """Return the signature of a pod to all nodes."""
    waiting = existing_terms.with_terms_of_existing_pods(inventory.pods, waiting)
    return Query.for_all_nodes(inventory, signatures.of(waiting.request, waiting.demand))


def feasible(inventory: Inventory, waiting: queued_pods.PodInfo) -> set[str]:
    """Return the nodes that a pod may go to as far as other pods are concerned."""
    mask = registry.passes_inter_pod_filters(asked(inventory, waiting))
    known = {info.name: info.row for info in inventory.each() if info.node is not None}
    return {name for name, row in known.items() if mask is None or mask[row]}


def parts(both: Both, name: str, body: Body, passing: Collection[str]) -> dict[str, float]:
    """Return the parts that a preference gives the nodes that pass the filters, or zeros."""
    preference, query = preferences.BY_NAME[name], asked(both.inventory, pod_info(body))
    if not preference.applies_to(both.inventory, query.signature):
        return dict.fromkeys(passing, 0.0)
    names = sorted(passing, key=both.inventory.index.__getitem__)
    rows = np.array([both.inventory.index[one] for one in names])
    raw = preference.raw_scores(Query(both.inventory, rows, query.signature))
    return dict(zip(names, preference.normalised(raw).tolist(), strict=True))


def web(name: str, at: str, **fields: Any) -> Body:
    """Write a pod of the application on a node."""
    return pod(name, at, **{"labels": WEB, **fields})


FOUR_NODES: Final = (node("n1", "a"), node("n2", "a"), node("n3", "b"), node("n4"))
