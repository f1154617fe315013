"""Snapshots: the cluster as the simulation reads it, with the binds that are under way."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from berth_crds import names
from berth_crds.client import api, errors
from berth_operator.engine.hold_states import State
from berth_operator.kube import cluster_snapshots
from berth_operator.scheduling import cycle
from berth_operator.simulation import files, placing, pod_explanations
from berth_operator.simulation.cluster import Cluster
from berth_operator.simulation.scenario import Scenario
from berth_operator.translate import volumes
from support import builders, ledgers, manifests, storage, stub

LISTS = {
    "Node": "/api/v1/nodes",
    "Namespace": "/api/v1/namespaces",
    "Device": "/apis/berth.dev/v1alpha1/devices",
    "PlacementPolicy": "/apis/berth.dev/v1alpha1/placementpolicies",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "GpuPod": "/apis/berth.dev/v1alpha1/gpupods",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/berth-nodes/leases",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "CSIDriver": "/apis/storage.k8s.io/v1/csidrivers",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "CSIStorageCapacity": "/apis/storage.k8s.io/v1/csistoragecapacities",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims",
    "Pod": "/api/v1/pods",
}


def pod(name: str, *, node: str = "", **meta: Any) -> dict[str, Any]:
    """Return a pod as a list has it: it waits, unless it is on a node."""
    limits = {names.NVIDIA_GPU: "1"}
    main = {
        "name": "main",
        "image": "i",
        "resources": {"limits": limits},
        "env": [{"name": "A", "value": "b"}],
    }
    spec: dict[str, Any] = {"containers": [main]} | ({"nodeName": node} if node else {})
    return manifests.pod(name, namespace="ml", meta={"uid": f"uid-{name}"} | meta, phase="Pending", **spec)


class ListedCluster:
    """A server that lists a cluster, and an operator's ledger."""

    def __init__(self, server: stub.Stub, session: api.Api) -> None:
        self.server = server
        self.session = session
        self.ledger = ledgers.with_nodes(1, 1)
        for kind in LISTS:
            self.lists(kind)
        self.lists("Node", manifests.node())
        self.lists("Device", manifests.device(cards=1))

    def lists(self, kind: str, *items: dict[str, Any]) -> None:
        """Have the server list these."""
        self.server.on("GET", LISTS[kind], stub.thing({"metadata": {}, "items": items}))

    def lists_after(self, change: Callable[[], object], *items: dict[str, Any]) -> None:
        """Have something change while the server lists these pods."""

        async def answer(request: web.Request) -> web.StreamResponse:
            change()
            return await stub.page(*items, version="1")(request)

        self.server.on("GET", LISTS["Pod"], answer)

    async def snapshot(self) -> dict[str, Any]:
        """Take a snapshot."""
        pages = cluster_snapshots.pages(self.session, self.ledger)
        return {"apiVersion": "v1", "kind": "List", "items": [item async for page in pages for item in page]}


@pytest.fixture
def listed(server: stub.Stub, stub_session: api.Api) -> ListedCluster:
    """Lend a cluster of one node with one card."""
    return ListedCluster(server, stub_session)


def of(snapshot: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """Return the objects of a kind by name."""
    return {item["metadata"]["name"]: item for item in snapshot["items"] if item["kind"] == kind}


def simulated(snapshot: dict[str, Any]) -> placing.Outcome:
    """Return what becomes of the one pod that a snapshot has waiting."""
    scenario = Scenario()
    scenario.add([files.Document("snapshot", 1, json.loads(json.dumps(snapshot)))])
    (outcome,), _, _ = placing.place(scenario, Cluster())
    return outcome


async def test_a_waiting_pod_is_placed_by_the_simulation(listed: ListedCluster) -> None:
    """What the operator would bind next, the simulation places from the snapshot."""
    listed.lists("Pod", pod("p"))

    outcome = simulated(await listed.snapshot())

    assert isinstance(outcome, placing.Placed)
    assert outcome.placement.node == "n1"


async def test_claims_and_volumes_are_in_it_without_what_drivers_alone_read(listed: ListedCluster) -> None:
    """A pod with a claim is placed where its volume is; attributes and parameters may hold secrets."""
    csi = {"driver": "d", "volumeHandle": "h", "volumeAttributes": {"key": "hidden"}}
    claim = storage.claim("data", "late", volume="v")
    claim["metadata"] |= {"namespace": "ml", "uid": "u", "annotations": {volumes.BOUND: "yes"}}
    volume = storage.volume("v", "late", {"kubernetes.io/hostname": "n1"}, of=claim)
    volume["spec"] |= {"csi": csi, "nfs": {"server": "hidden", "path": "/"}}
    listed.lists("Node", manifests.node(labels={"kubernetes.io/hostname": "n1"}))
    listed.lists("StorageClass", storage.storage_class("late", parameters={"password": "hidden"}))
    listed.lists("PersistentVolume", volume)
    listed.lists("PersistentVolumeClaim", claim)
    using = pod("p")
    using["spec"]["volumes"] = storage.using("data")
    listed.lists("Pod", using)

    snapshot = await listed.snapshot()

    assert "hidden" not in json.dumps(snapshot)
    assert of(snapshot, "PersistentVolume")["v"]["spec"]["csi"] == {"driver": "d", "volumeHandle": "h"}
    assert isinstance(simulated(snapshot), placing.Placed)


async def test_a_bind_under_way_takes_its_cards(listed: ListedCluster) -> None:
    """A pod assumed until it is listed is in the snapshot as it will be bound: its cards are not free."""
    ledgers.add_waiting(listed.ledger)
    listed.lists_after(lambda: ledgers.assume(listed.ledger), pod("p"), pod("next"))

    snapshot = await listed.snapshot()

    bound, outcome = of(snapshot, "Pod")["p"], simulated(snapshot)
    assert bound["spec"]["nodeName"] == "n1"
    assert builders.uuid("n1", 0) in bound["metadata"]["annotations"][names.ALLOCATION]
    assert isinstance(outcome, pod_explanations.PodExplanation)
    assert outcome.title == "ml/next"


async def test_a_bind_that_is_confirmed_meanwhile_is_not_lost(listed: ListedCluster) -> None:
    """A pod that was listed before its bind and confirmed after it is shown where it is now."""
    pod_info = ledgers.add_waiting(listed.ledger)
    hold = cycle.hold_for(pod_info, ledgers.assume(listed.ledger).placement)
    listed.lists_after(lambda: listed.ledger.pod_bound(hold), pod("p"))

    snapshot = await listed.snapshot()

    assert listed.ledger.state("uid-p") is State.CONFIRMED
    assert of(snapshot, "Pod")["p"]["spec"]["nodeName"] == "n1"


async def test_a_bind_that_failed_meanwhile_is_not_shown(listed: ListedCluster) -> None:
    """A pod whose bind came to nothing while the list was read waits in the snapshot too."""
    ledgers.add_waiting(listed.ledger)
    ledgers.assume(listed.ledger)
    listed.lists_after(lambda: listed.ledger.forget("uid-p"), pod("p"))

    assert "nodeName" not in of(await listed.snapshot(), "Pod")["p"]["spec"]


async def test_cards_that_only_a_gpupod_names_are_taken(listed: ListedCluster) -> None:
    """The ledger is made of GpuPods too, so the snapshot has them and the simulation reads them alike."""
    listed.lists("Device", manifests.device(cards=2))
    listed.lists("GpuPod", manifests.gpupod("p", "uid-p", "n1", 0, namespace="ml"))
    listed.lists("Pod", pod("p", node="n1"), pod("next"))

    snapshot = await listed.snapshot()

    outcome = simulated(snapshot)
    assert list(of(snapshot, "GpuPod")) == ["p"]
    assert isinstance(outcome, placing.Placed)
    assert outcome.placement.grants[0].shares[0].uuid == builders.uuid("n1", 1)


async def test_secrets_stay_where_they_are(listed: ListedCluster) -> None:
    """What placement never reads, and might be a secret, is not in a snapshot."""
    applied = {cluster_snapshots.LAST_APPLIED: '{"value": "b"}', names.MODEL: "A100-SXM4-80GB"}
    listed.lists("Pod", pod("p", annotations=applied, managedFields=[{"manager": "kubectl"}]))

    found = of(await listed.snapshot(), "Pod")["p"]

    assert "env" not in found["spec"]["containers"][0]
    assert found["metadata"]["annotations"] == {names.MODEL: "A100-SXM4-80GB"}
    assert "managedFields" not in found["metadata"]


async def test_long_lists_are_read_to_their_end(listed: ListedCluster) -> None:
    """A list that comes in pages is one list."""
    first = {"metadata": {"continue": "more"}, "items": [pod("a")]}
    last = {"metadata": {}, "items": [pod("b")]}
    listed.server.on("GET", LISTS["Pod"], stub.thing(first), stub.thing(last))

    assert sorted(of(await listed.snapshot(), "Pod")) == ["a", "b"]
    assert len(listed.server.asked(**{"continue": "more"})) == 1


async def test_half_a_cluster_is_no_snapshot(listed: ListedCluster) -> None:
    """Where one kind cannot be listed there is no snapshot at all."""
    listed.server.on("GET", LISTS["Device"], stub.status(503, "overloaded"))

    with pytest.raises(errors.Unavailable, match="overloaded"):
        await listed.snapshot()


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(7, id="a number"),
        pytest.param({}, id="nothing in it"),
        pytest.param({"metadata": []}, id="metadata of another shape"),
        pytest.param({"metadata": {"name": "o", "uid": ["a"]}}, id="a uid of another shape"),
        pytest.param({"metadata": {"name": "o", "annotations": "x"}}, id="annotations of another shape"),
        pytest.param({"metadata": {"name": "o"}, "spec": "x"}, id="a spec of another shape"),
        pytest.param(
            {"metadata": {"name": "o"}, "spec": {"containers": {"a": 1}}}, id="containers that are none"
        ),
        pytest.param({"metadata": {"name": "o"}, "spec": {"containers": [1]}}, id="a container that is none"),
    ],
)
async def test_an_odd_object_spoils_no_snapshot(listed: ListedCluster, odd: Any) -> None:
    """Whatever a list holds, the rest of the cluster can still be looked at."""
    listed.lists("Pod", odd, pod("p"))

    assert "p" in {item["metadata"].get("name") for item in (await listed.snapshot())["items"]}


async def test_a_list_of_another_shape_is_told(listed: ListedCluster) -> None:
    """What is no list at all is the trouble of whoever stands between us and the server."""
    listed.server.on("GET", LISTS["Node"], stub.raw(b'{"metadata": {}, "items": {"a": 1}}'))

    with pytest.raises(errors.Unreachable, match="the answer is no list"):
        await listed.snapshot()
