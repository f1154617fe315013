"""Snapshots: the cluster as the simulation reads it, with the binds that are under way."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from berth_crds import names
from berth_crds.client import api, errors
from berth_operator.engine.hold_states import State
from berth_operator.kube import cluster_snapshots
from berth_operator.scheduling import cycle
from berth_operator.simulation import files, placing
from berth_operator.simulation.cluster import Cluster
from berth_operator.simulation.scenario import Scenario
from support import builders, ledgers, stub

LISTS = {
    "Node": "/api/v1/nodes",
    "Device": "/apis/berth.dev/v1alpha1/devices",
    "PlacementPolicy": "/apis/berth.dev/v1alpha1/placementpolicies",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "GpuPod": "/apis/berth.dev/v1alpha1/gpupods",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/berth-nodes/leases",
    "Pod": "/api/v1/pods",
}
CARD = {
    "uuid": builders.uuid("n1", 0),
    "type": "gpu",
    "vendor": "nvidia",
    "model": builders.MODEL,
    "minor": 0,
    "index": 0,
    "memory": builders.MEMORY,
}

SECOND = CARD | {"uuid": builders.uuid("n1", 1), "minor": 1, "index": 1}


def pod(name: str, **fields: Any) -> dict[str, Any]:
    """Describe a waiting pod as a list has it."""
    limits = {names.NVIDIA_GPU: "1"}
    main = {"name": "c0", "image": "i", "resources": {"limits": limits}, "env": [{"name": "A", "value": "b"}]}
    return {
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"} | fields,
        "spec": {"schedulerName": names.SCHEDULER_NAME, "containers": [main]},
        "status": {"phase": "Pending"},
    }


class Yard:
    """An API server in a few words, and an operator's ledger."""

    def __init__(self, server: stub.Stub) -> None:
        self.server = server
        self.ledger = ledgers.with_nodes(1, 1)
        allocatable = {"cpu": "8", "memory": "64Gi", "pods": "110"}
        device = {"metadata": {"name": "n1"}, "spec": {"node": "n1", "devices": [CARD]}}
        self.has("Node", {"metadata": {"name": "n1"}, "status": {"allocatable": allocatable}})
        self.has("Device", device)
        for kind in ("PlacementPolicy", "PriorityClass", "GpuPod", "Lease", "Pod"):
            self.has(kind)

    def has(self, kind: str, *items: dict[str, Any]) -> None:
        """Have the server list these."""
        self.server.on("GET", LISTS[kind], stub.thing({"metadata": {}, "items": items}))

    async def take(self) -> dict[str, Any]:
        """Take a snapshot."""
        async with api.Api(self.server.link, agent="test") as session:
            pages = cluster_snapshots.ClusterSnapshots(session, self.ledger).pages()
            return {
                "apiVersion": "v1",
                "kind": "List",
                "items": [one async for page in pages for one in page],
            }


@pytest.fixture
async def yard() -> AsyncIterator[Yard]:
    """Lend a yard."""
    async with stub.Stub() as server:
        yield Yard(server)


def of(taken: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """Give the objects of a kind by name."""
    return {one["metadata"]["name"]: one for one in taken["items"] if one["kind"] == kind}


def simulated(taken: dict[str, Any]) -> list[placing.Outcome]:
    """Place what a snapshot has waiting."""
    scenario = Scenario()
    scenario.add([files.Document("snapshot", 1, json.loads(json.dumps(taken)))])
    outcomes, _, _ = placing.place(scenario, Cluster())
    return outcomes


async def test_a_waiting_pod_is_placed_by_the_simulation(yard: Yard) -> None:
    """What the operator would bind next, the simulation places from the snapshot."""
    yard.has("Pod", pod("p"))

    (outcome,) = simulated(await yard.take())

    assert isinstance(outcome, placing.Placed)
    assert outcome.placement.node == "n1"


async def test_a_bind_under_way_takes_its_cards(yard: Yard) -> None:
    """A pod that is assumed is in the snapshot as it will be bound, so that its cards are not free."""
    ledgers.add_waiting(yard.ledger)
    bind = ledgers.assume(yard.ledger)
    yard.has("Pod", pod("p"), pod("next"))

    taken = await yard.take()

    bound = of(taken, "Pod")["p"]
    assert bound["spec"]["nodeName"] == "n1"
    assert builders.uuid("n1", 0) in bound["metadata"]["annotations"][names.ALLOCATION]
    (outcome,) = simulated(taken)
    assert isinstance(outcome, placing.NotPlaced)
    assert outcome.title == "ml/next"
    assert bind.uid == "uid-p"


async def test_a_bind_that_is_confirmed_meanwhile_is_not_lost(yard: Yard) -> None:
    """A pod that was listed before its bind and confirmed after it is shown where it is now."""
    candidate = ledgers.add_waiting(yard.ledger)
    bind = ledgers.assume(yard.ledger)

    async def listed(request: Any) -> Any:
        yard.ledger.pod_bound(cycle.hold_for(candidate, bind.placement))
        return await stub.page(pod("p"), version="1")(request)

    yard.server.on("GET", LISTS["Pod"], listed)

    taken = await yard.take()

    assert yard.ledger.state("uid-p") is State.CONFIRMED
    assert of(taken, "Pod")["p"]["spec"]["nodeName"] == "n1"


async def test_a_bind_that_failed_meanwhile_is_not_shown(yard: Yard) -> None:
    """A pod whose bind came to nothing while the list was read waits in the snapshot too."""
    ledgers.add_waiting(yard.ledger)
    ledgers.assume(yard.ledger)

    async def listed(request: Any) -> Any:
        yard.ledger.forget("uid-p")
        return await stub.page(pod("p"), version="1")(request)

    yard.server.on("GET", LISTS["Pod"], listed)

    taken = await yard.take()

    assert "nodeName" not in of(taken, "Pod")["p"]["spec"]


async def test_cards_that_only_a_gpupod_names_are_taken(yard: Yard) -> None:
    """The ledger is made of GpuPods too, so the snapshot has them and the simulation reads them alike."""
    card = {"uuid": builders.uuid("n1", 0), "minor": 0, "type": "gpu", "core": 100, "memory": builders.MEMORY}
    spec = {"node": "n1", "podUID": "uid-p", "containers": [{"name": "c0", "devices": [card]}]}
    lost = pod("p")
    lost["spec"]["nodeName"] = "n1"
    yard.has("Device", {"metadata": {"name": "n1"}, "spec": {"node": "n1", "devices": [CARD, SECOND]}})
    yard.has("GpuPod", {"metadata": {"name": "p", "namespace": "ml"}, "spec": spec})
    yard.has("Pod", lost, pod("next"))

    taken = await yard.take()

    assert list(of(taken, "GpuPod")) == ["p"]
    (outcome,) = simulated(taken)
    assert isinstance(outcome, placing.Placed)
    assert outcome.placement.grants[0].shares[0].uuid == SECOND["uuid"]


async def test_secrets_stay_where_they_are(yard: Yard) -> None:
    """What placement never reads, and might be a secret, is not in a snapshot."""
    applied = {cluster_snapshots.LAST_APPLIED: '{"value": "b"}', names.MODEL: "A100-SXM4-80GB"}
    yard.has("Pod", pod("p", annotations=applied, managedFields=[{"manager": "kubectl"}]))

    found = of(await yard.take(), "Pod")["p"]

    assert "env" not in found["spec"]["containers"][0]
    assert found["metadata"]["annotations"] == {names.MODEL: "A100-SXM4-80GB"}
    assert "managedFields" not in found["metadata"]


async def test_long_lists_are_read_to_their_end(yard: Yard) -> None:
    """A list that comes in pages is one list."""
    first = {"metadata": {"continue": "more"}, "items": [pod("a")]}
    last = {"metadata": {}, "items": [pod("b")]}
    yard.server.on("GET", LISTS["Pod"], stub.thing(first), stub.thing(last))

    taken = await yard.take()

    assert sorted(of(taken, "Pod")) == ["a", "b"]
    assert len(yard.server.asked(**{"continue": "more"})) == 1


async def test_half_a_cluster_is_no_snapshot(yard: Yard) -> None:
    """Where one kind cannot be listed there is no snapshot at all."""
    yard.server.on("GET", LISTS["Device"], stub.status(503, "overloaded"))

    with pytest.raises(errors.Unavailable, match="overloaded"):
        await yard.take()


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
async def test_an_odd_object_spoils_no_snapshot(yard: Yard, odd: Any) -> None:
    """Whatever a list holds, the rest of the cluster can still be looked at."""
    yard.has("Pod", odd, pod("p"))

    assert "p" in {one["metadata"].get("name") for one in (await yard.take())["items"]}


async def test_a_list_of_another_shape_is_told(yard: Yard) -> None:
    """What is no list at all is the trouble of whoever stands between us and the server."""
    yard.server.on("GET", LISTS["Node"], stub.raw(b'{"metadata": {}, "items": {"a": 1}}'))

    with pytest.raises(errors.Unreachable, match="the answer is no list"):
        await yard.take()
