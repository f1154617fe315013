"""The promises of the first slice, on a real API server, each program under its own account.

One cluster serves the whole module; each test has nodes, agents and an operator of its
own, and leaves none behind.
"""

import asyncio
import collections
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Final

import pytest

from berth_crds import allocation, names
from e2e import fleet
from support import kubelet
from testbed import audit, processes, waiting
from testbed import cluster as clusters

pytestmark = pytest.mark.cluster

OPERATOR: Final = "system:serviceaccount:berth-system:berth-operator"
AGENT: Final = "system:serviceaccount:berth-system:berth-agent"
# Short terms make a takeover quick; the ratios are those of the defaults.
QUICK: Final = ("--lease-duration", "2", "--renew-deadline", "1.2", "--retry-period", "0.3")

Pod = dict[str, Any]


@pytest.fixture(scope="module")
def base() -> Iterator[fleet.Fleet]:
    """Start a cluster with all that the project ships."""
    with clusters.Cluster() as cluster:
        installed = fleet.Fleet(cluster)
        installed.install()
        yield installed


class Stage:
    """A namespace, nodes with agents, and operators that come and go."""

    def __init__(self, base: fleet.Fleet, kubelets: kubelet.Kubelets) -> None:
        self.fleet = base
        self.cluster = base.cluster
        self.kubelets = kubelets
        self.namespace = self.cluster.namespace("e2e")
        self._programs: list[processes.Program] = []
        self._nodes: list[str] = []

    async def nodes(self, **shapes: str) -> None:
        """Add nodes and one agent process that speaks for all of them."""
        await self.kubelets.add(*(kubelet.FakeNode(name) for name in shapes))
        self._nodes += shapes
        flags = ("--interval", "0.5", "--sample-deadline", "1", "--lease-duration", "3")
        self._programs.append(self.fleet.agent(*shapes.items(), flags=flags))
        await self.until(
            "the Devices", lambda: set(shapes) <= {d["metadata"]["name"] for d in self.devices()}
        )

    def operator(self, *flags: str) -> processes.Program:
        """Start an operator."""
        program = self.fleet.operator(*QUICK, *flags, name=f"operator-{len(self._programs)}")
        self._programs.append(program)
        return program

    def create(self, *pods: Pod) -> None:
        """Create pods in one go."""
        listing = {"apiVersion": "v1", "kind": "List", "items": list(pods)}
        self.cluster.kubectl("create", "-n", self.namespace, "-f", "-", stdin=json.dumps(listing))

    def pods(self) -> dict[str, Pod]:
        """Read all pods of the namespace."""
        return {one["metadata"]["name"]: one for one in self._items("pods", "-n", self.namespace)}

    def devices(self) -> list[dict[str, Any]]:
        """Read all Devices."""
        return self._items("devices")

    def bound(self) -> dict[str, str]:
        """Name the pods that have a node."""
        nodes = {name: one["spec"].get("nodeName", "") for name, one in self.pods().items()}
        return {name: node for name, node in nodes.items() if node}

    def _items(self, *words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.cluster.kubectl("get", *words, "-o", "json"))["items"]
        return found

    async def until(self, what: str, condition: Callable[[], Any], seconds: float = 30.0) -> Any:
        """Wait for a condition that asks the API server."""

        async def holds() -> Any:
            return await asyncio.to_thread(condition)

        return await waiting.eventually(holds, what=what, seconds=seconds)

    async def close(self) -> None:
        """Take everything away again."""
        for program in self._programs:
            program.kill()
        await asyncio.to_thread(self.cluster.kubectl, "delete", "namespace", self.namespace, "--wait=false")
        for name in self._nodes:
            await asyncio.to_thread(self.cluster.kubectl, "delete", "device", name, "--ignore-not-found")
            lease = ("delete", "lease", name, "-n", names.NODES_NAMESPACE, "--ignore-not-found")
            await asyncio.to_thread(self.cluster.kubectl, *lease)


@pytest.fixture
async def stage(base: fleet.Fleet) -> AsyncIterator[Stage]:
    """Lend a stage."""
    async with kubelet.Kubelets(base.cluster) as kubelets:
        lent = Stage(base, kubelets)
        try:
            yield lent
        finally:
            await lent.close()


def pod(name: str, cards: int = 1, **extra: Any) -> Pod:
    """Describe a pod of ours with one container."""
    limits = {names.NVIDIA_GPU: str(cards)} if cards else {}
    meta = {"name": name, "annotations": extra.pop("annotations", {})}
    container = {"name": "main", "image": "example.com/x", "resources": {"limits": limits}}
    container |= extra.pop("container", {})
    spec = {"schedulerName": names.SCHEDULER_NAME, "containers": [container], **extra}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def cards_of(one: Pod) -> list[str]:
    """Name the cards that a pod's allocation gives it."""
    record = allocation.decode(one["metadata"]["annotations"][names.ALLOCATION])
    assert isinstance(record, allocation.Allocation), record
    assert record.node == one["spec"]["nodeName"], "I2: the allocation is of the pod's own node"
    return [entry.share.uuid for entry in record.entries()]


def scheduled(one: Pod) -> dict[str, Any]:
    """Give a pod's PodScheduled condition, or nothing."""
    conditions = one["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})


def writes_to_pods(stage: Stage) -> list[audit.AuditEvent]:
    """List the operator's writes whose object is a pod of this test."""
    found = audit.writes_to(stage.cluster.audit(), "pods", namespace=stage.namespace)
    return audit.writes_by(found, OPERATOR)


async def test_a_pod_that_fits_at_once_costs_exactly_one_write(stage: Stage) -> None:
    """For a pod that fits, the operator writes the pod once: its Binding, which carries everything."""
    # Given a node with cards and an operator that decides
    await stage.nodes(once="4xT4")
    stage.operator()
    await stage.until("Ready", lambda: ready(stage, "once"))

    # When three pods that fit arrive
    stage.create(pod("a"), pod("b"), pod("c", cards=2))
    await stage.until("all to be bound", lambda: len(stage.bound()) == 3)
    await stage.until("the audit of the last bind", lambda: len(writes_to_pods(stage)) >= 3)

    # Then each was written once, by a Binding, and no card was given twice
    counts = collections.Counter((one.name, one.subresource) for one in writes_to_pods(stage))
    assert counts == {("a", "binding"): 1, ("b", "binding"): 1, ("c", "binding"): 1}
    assert len({card for one in stage.pods().values() for card in cards_of(one)}) == 4


async def test_a_pod_that_waits_costs_one_more_write_for_each_changed_verdict(stage: Stage) -> None:
    """A waiting pod gets one status patch while the reason stays the same, and then its Binding."""
    # Given a full node
    await stage.nodes(full="1xT4")
    stage.operator()
    await stage.until("Ready", lambda: ready(stage, "full"))
    stage.create(pod("first"))
    await stage.until("the first to be bound", lambda: "first" in stage.bound())

    # When a second pod waits, is tried again and again, and then the first goes
    stage.create(pod("second"))
    await stage.until("to be told", lambda: scheduled(stage.pods()["second"]).get("status") == "False")
    told = scheduled(stage.pods()["second"])
    await asyncio.sleep(1.5)  # Rounds of attempts: none of them may write.
    stage.cluster.kubectl("delete", "pod", "first", "-n", stage.namespace, "--wait=false")
    await stage.until("the second to be bound", lambda: "second" in stage.bound())

    # Then it was written exactly twice
    assert (told["reason"], told["message"]) == ("Unschedulable", "0/1 nodes fit: 1 is full")
    await stage.until("its audit", lambda: len(_writes_of(stage, "second")) >= 2)
    assert _writes_of(stage, "second") == ["status", "binding"]


def _writes_of(stage: Stage, name: str) -> list[str]:
    return [one.subresource for one in writes_to_pods(stage) if one.name == name]


@pytest.mark.parametrize(
    ("user", "words", "namespace"),
    [
        pytest.param(OPERATOR, ("patch", "pods"), "default", id="operator may not patch pods"),
        pytest.param(OPERATOR, ("update", "pods"), "default", id="operator may not update pods"),
        pytest.param(OPERATOR, ("delete", "pods"), "default", id="operator may not delete pods"),
        pytest.param(OPERATOR, ("patch", "nodes"), "default", id="operator may not patch nodes"),
        pytest.param(OPERATOR, ("patch", "devices.berth.dev"), "default", id="operator may not write cards"),
        pytest.param(OPERATOR, ("get", "secrets"), "berth-system", id="operator may not read secrets"),
        pytest.param(AGENT, ("patch", "pods"), "default", id="agent may not patch pods"),
        pytest.param(AGENT, ("patch", "nodes"), "default", id="agent may not patch nodes"),
        pytest.param(AGENT, ("create", "pods", "--subresource=binding"), "default", id="agent may not bind"),
        pytest.param(AGENT, ("update", "leases"), "berth-system", id="agent may not touch the lead"),
    ],
)
def test_the_shipped_roles_are_narrow(
    base: fleet.Fleet, user: str, words: Sequence[str], namespace: str
) -> None:
    """Neither program may do more than it needs; above all the operator cannot patch pods."""
    # When the API server is asked whether the account may do it
    with contextlib.suppress(clusters.KubectlFailed):
        answer = base.cluster.kubectl("auth", "can-i", *words, "-n", namespace, f"--as={user}")

        # Then it may not: kubectl answers "yes" with success, and "no" as a failure
        assert answer.strip() == "no"


@pytest.mark.slow
@pytest.mark.parametrize("politely", [True, False], ids=["by SIGTERM", "by SIGKILL"])
async def test_restarting_amid_fifty_pending_pods_loses_none_and_binds_none_twice(
    stage: Stage, *, politely: bool
) -> None:
    """Whatever moment the operator dies at, each pod is bound exactly once, and no card twice."""
    # Given room for fifty pods
    await stage.nodes(**{f"many-{at}": "8xT4" for at in range(7)})
    first = stage.operator("--binds-at-once", "2")
    await stage.until("Ready", lambda: all(ready(stage, f"many-{at}") for at in range(7)))

    # When the operator ends after it bound some of them, and another takes over
    await asyncio.to_thread(stage.create, *(pod(f"p{at}") for at in range(50)))
    await stage.until("some to be bound", lambda: len(stage.bound()) >= 1)
    first.stop(grace=10) if politely else first.kill()
    stage.operator()
    await stage.until("all to be bound", lambda: len(stage.bound()) == 50, seconds=60)

    # Then every pod was bound by exactly one accepted Binding, and every card has one holder
    await stage.until("the audit", lambda: len(_bindings(stage)) >= 50)
    assert sorted(_bindings(stage)) == sorted(f"p{at}" for at in range(50))
    cards = [card for one in stage.pods().values() for card in cards_of(one)]
    assert len(cards) == len(set(cards)) == 50


def _bindings(stage: Stage) -> list[str]:
    accepted = audit.accepted(writes_to_pods(stage))
    return [one.name for one in accepted if one.subresource == "binding"]


NONSENSE: Final = {
    "neither part nor whole": (
        pod("x", 0, container={"resources": {"limits": {names.GPU: "150"}}}),
        "InvalidRequest",
        "150 is neither",
    ),
    "two ways at once": (
        pod("x", 0, container={"resources": {"limits": {names.GPU: "100", names.NVIDIA_GPU: "1"}}}),
        "InvalidRequest",
        "asks for both",
    ),
    "no model named": (pod("x", annotations={names.MODEL: " , "}), "InvalidRequest", "names no model"),
    "pod affinity": (
        pod(
            "x",
            affinity={
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
                    ]
                }
            },
        ),
        "UnsupportedConstraint",
        "required pod affinity",
    ),
}


async def test_nonsense_is_answered_by_a_condition_and_an_event(stage: Stage) -> None:
    """A pod that asks for nonsense is told what is wrong, in its condition and in an event."""
    # Given an operator
    await stage.nodes(sane="1xT4")
    stage.operator()

    # When pods of nonsense are created
    for at, (thing, _, _) in enumerate(NONSENSE.values()):
        stage.create({**thing, "metadata": {**thing["metadata"], "name": f"n{at}"}})
    told = await stage.until("all to be told", lambda: _all_told(stage, len(NONSENSE)))

    # Then each condition and each event has its sentence
    events = stage._items("events", "-n", stage.namespace)
    for at, (_, reason, sentence) in enumerate(NONSENSE.values()):
        assert told[f"n{at}"]["reason"] == reason
        assert sentence in told[f"n{at}"]["message"]
        about = [one for one in events if one["involvedObject"]["name"] == f"n{at}"]
        assert [one["reason"] for one in about] == ["FailedScheduling"]
        assert sentence in about[0]["message"]


def _all_told(stage: Stage, count: int) -> dict[str, dict[str, Any]] | None:
    told = {name: scheduled(one) for name, one in stage.pods().items()}
    events = stage._items("events", "-n", stage.namespace)
    return told if len(events) >= count and all(told.values()) else None


async def test_a_silent_agent_loses_its_node_and_wins_it_back(stage: Stage) -> None:
    """When an agent dies, its Device is not Ready and gets no new pod; when it is back, it does."""
    # Given two nodes, one with an agent of its own, and a short grace
    stage.cluster.apply(QUICK_POLICY)
    await stage.nodes(steady="1xT4")
    await stage.nodes(shaky="8xT4")
    agent = stage._programs[-1]
    stage.operator()
    await stage.until("Ready", lambda: ready(stage, "steady") and ready(stage, "shaky"))

    # When that agent dies and pods come
    agent.kill()
    await stage.until("not Ready", lambda: ready(stage, "shaky") is False)
    stage.create(pod("one"), pod("two"))
    await stage.until("one to be bound", stage.bound)
    waiting_pod = next(name for name in ("one", "two") if name not in stage.bound())
    await stage.until("to be told", lambda: scheduled(stage.pods()[waiting_pod]).get("status") == "False")

    # Then only the steady node took one, and the other pod waits until the agent is back
    assert list(stage.bound().values()) == ["steady"]
    assert "1 has a silent agent" in scheduled(stage.pods()[waiting_pod])["message"]
    stage._programs.append(stage.fleet.agent(("shaky", "8xT4"), flags=("--interval", "0.5")))
    await stage.until("the other to be bound", lambda: stage.bound().get(waiting_pod) == "shaky")


QUICK_POLICY: Final = """
apiVersion: berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: default}
spec: {agents: {graceSeconds: 3}}
"""


def ready(stage: Stage, name: str) -> bool | None:
    """Tell whether a Device is Ready; None where nobody said."""
    for device in stage.devices():
        if device["metadata"]["name"] == name:
            conditions = device.get("status", {}).get("conditions", [])
            found = next((one["status"] for one in conditions if one["type"] == "Ready"), "")
            return {"True": True, "False": False}.get(found)
    return None
