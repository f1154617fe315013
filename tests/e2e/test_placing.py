"""Where pods go and where they do not: cards, nodes and agents in every state, seen from outside."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from berth_agent import config_choice
from berth_crds import names
from berth_crds.client import resources
from e2e.conditions import condition
from e2e.stage import Stage, Thing, cards_of, pod, uuids
from support import kubelet, manifests
from testbed import waiting

pytestmark = pytest.mark.usefixtures("leader")


async def minors(stage: Stage) -> dict[str, str]:
    """Name the minors that each bound pod was given."""
    found = await stage.pods()
    return {
        name: one["metadata"]["annotations"][names.MINORS]
        for name, one in found.items()
        if one["spec"].get("nodeName")
    }


def summary(device: Thing) -> Thing:
    """Return the counts of a Device, and the reason why cards are not given."""
    return dict(device["status"]["summary"])


async def card(stage: Stage, node: str, minor: int) -> str:
    """Name a card."""
    listed = (await stage.devices())[node]["spec"]["devices"]
    found: str = next(one["uuid"] for one in listed if one["minor"] == minor)
    return found


# ---------------------------------------------------------------- cards


async def test_cards_go_in_order_and_init_containers_borrow(stage: Stage) -> None:
    """The lowest minor first, then a pair that is close; init containers borrow, others have their own."""
    await stage.ready_nodes(order="4xT4")
    pair = manifests.pod("pair")
    limits = {"limits": {names.NVIDIA_GPU: "1"}}
    pair["spec"]["containers"].append({"name": "side", "image": "x", "resources": limits})
    pair["spec"]["initContainers"] = [{"name": "early", "image": "x", "resources": limits}]

    await stage.placed(manifests.pod("first"))
    await stage.create(pair)
    await stage.until_bound("pair")

    said = (await stage.pods())["pair"]["metadata"]["annotations"]
    assert await minors(stage) == {"first": "0", "pair": "2,3"}
    assert said["main.devices.berth.dev/minors"] == "2"
    assert said["side.devices.berth.dev/minors"] == "3"
    assert said["early.devices.berth.dev/minors"] in {"2", "3"}


async def test_a_cordoned_card_gets_no_new_pod(stage: Stage) -> None:
    """A card that somebody cordoned is left out, what runs on it goes on; uncordoned it is given again."""
    await stage.ready_nodes(cordoned="2xT4")
    await stage.placed(manifests.pod("old"))

    both = [await card(stage, "cordoned", minor) for minor in (0, 1)]
    await stage.patch(resources.DEVICES, "cordoned", {"spec": {"cordon": both}})

    # Devices and pods come by watches of their own: a pod made at once may come first.
    await stage.until_device(
        "cordoned", "show it", lambda device: "2 cards cordoned" in summary(device).get("reason", "")
    )
    await stage.waiting_pod(manifests.pod("new"), "cordoned")
    assert (await stage.pods())["old"]["spec"]["nodeName"] == "cordoned"
    await stage.patch(resources.DEVICES, "cordoned", {"spec": {"cordon": [both[0]]}})
    await stage.until_bound("new")

    assert await minors(stage) == {"old": "0", "new": "1"}
    assert (await stage.devices())["cordoned"]["spec"]["cordon"] == [both[0]]


async def test_a_cordon_takes_minors_and_tells_what_it_does_not_know(stage: Stage) -> None:
    """A minor is as good as a uuid; what names no device is said in REASON and by an event on the Device."""
    await stage.ready_nodes(named="2xT4")

    await stage.patch(resources.DEVICES, "named", {"spec": {"cordon": ["1", "GPU-nonsense"]}})

    def told() -> bool:
        text = stage.cluster.kubectl("describe", "device", "named")
        event = "NoSuchDevice" in text and "The cordon names no device: GPU-nonsense. Use the uuid" in text
        return event and "1 card cordoned; cordon names no device: GPU-nonsense" in text

    await waiting.eventually(told, what="an event on the Device, and the reason", seconds=30)
    await stage.create(manifests.pod("a"), manifests.pod("b"))
    await stage.until_told("b")
    assert await minors(stage) == {"a": "0"}


async def test_a_label_of_the_node_chooses_its_configuration(stage: Stage, tmp_path: Path) -> None:
    """Another label has the agent start anew, within its process; one that names nothing changes nothing."""
    for name, replicas in (("default", 2), ("many", 8)):
        resource = f"resources: [{{name: nvidia.com/gpu, replicas: {replicas}}}]"
        (tmp_path / name).write_text(f"sharing: {{timeSlicing: {{{resource}}}}}")
    node = "configured"
    agent = await stage.nodes("--config-folder", str(tmp_path), **{node: "1xT4"})

    async def shared_as(replicas: int) -> bool:
        spec = (await stage.devices())[node]["spec"]
        return bool(spec["summary"].get("sharing") == f"time-slicing x{replicas}")

    await stage.until("two replicas", lambda: shared_as(2))
    for label in ("none-of-them", "many"):
        labels = {config_choice.LABEL: label}
        stage.cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
        agent.process.send_signal(signal.SIGHUP)
        if label == "many":
            await stage.until("eight replicas", lambda: shared_as(8))
        else:
            await stage.says(agent, "names the configuration 'none-of-them', which does not exist")
    assert agent.alive()


async def test_a_shared_card_is_given_to_so_many_pods_and_no_more(stage: Stage) -> None:
    """Pods that ask for a replica share a card that is shared; others wait, and what they are told helps."""
    one = {names.NVIDIA_GPU_SHARED: "1"}
    await stage.ready_nodes("--sharing", "time-slicing:2", shared="1xT4")
    assert (await stage.devices())["shared"]["spec"]["summary"]["sharing"] == "time-slicing x2"

    await stage.waiting_pod(
        manifests.pod("whole"), "cards that are given out only as time-sliced or MPS replicas"
    )
    await stage.until_told("whole", f"if it asked for 1 replica ({names.NVIDIA_GPU_SHARED})")
    await stage.placed(manifests.pod("a", one), manifests.pod("b", one))
    await stage.waiting_pod(manifests.pod("c", one), "replica")
    assert await minors(stage) == {"a": "0", "b": "0"}
    await stage.delete("a")
    await stage.until_bound("c")


async def test_an_unhealthy_card_gets_no_new_pod_and_recovers(stage: Stage, tmp_path: Path) -> None:
    """One of eight that its agent finds broken is left out, is told with its reason, and comes back."""
    faults = tmp_path / "faults.json"
    broken = {"health": "Unhealthy", "reason": "XidCritical", "xid": 79, "message": "fell off the bus"}
    faults.write_text("{}")
    await stage.ready_nodes("--faults", str(faults), sick="8xT4")
    faults.write_text(json.dumps({"sick": {"3": broken}}))

    async def known() -> bool:
        return bool((await stage.devices())["sick"]["status"].get("summary", {}).get("healthy") == 7)

    await stage.until("the operator to know of it", known)

    await stage.placed(*(manifests.pod(f"well-{number}") for number in range(7)))
    await stage.waiting_pod(manifests.pod("b"))
    sick = await card(stage, "sick", 3)
    (verdict,) = (await stage.devices())["sick"]["status"]["devices"]
    assert (verdict["uuid"], verdict["health"], verdict["xid"]) == (sick, "Unhealthy", 79)
    given = await minors(stage)
    assert sorted(given.values()) == list("0124567")
    faults.write_text("{}")
    await stage.until_bound("b")

    assert await minors(stage) == given | {"b": "3"}


async def test_a_failed_source_takes_the_whole_node(stage: Stage, tmp_path: Path) -> None:
    """When the driver does not answer the node gets no new pod, whatever was known of its cards."""
    faults = tmp_path / "faults.json"
    await stage.ready_nodes("--faults", str(faults), blind="2xT4")

    faults.write_text(
        json.dumps({"blind": {"source": {"reason": "DriverNotLoaded", "message": "no driver"}}})
    )
    await stage.until_device(
        "blind", "tell", lambda device: condition(device, "NVMLReady").get("status") == "False"
    )
    await stage.waiting_pod(manifests.pod("a"), "DriverNotLoaded")
    faults.write_text("{}")
    await stage.until_bound("a")


# ---------------------------------------------------------------- pods of others


async def test_a_foreign_pod_with_cards_withholds_them(stage: Stage) -> None:
    """Whoever bound a pod past us: its cards cannot be named, so as many are withheld until it is gone."""
    await stage.ready_nodes(foreign="2xT4")
    # A device plugin serves the node as well, or nobody could have given the pod a card.
    offers = {names.NVIDIA_GPU: "8"}
    await stage.patch(
        resources.NODES, "foreign", {"status": {"allocatable": offers, "capacity": offers}}, sub="status"
    )
    await stage.create(manifests.pod("stranger", schedulerName="somebody-else"))
    await stage.bind("stranger", "foreign")

    device = await stage.until_device(
        "foreign", "withhold a card", lambda device: summary(device)["free"] == 1
    )
    assert "allocation annotation is missing or unreadable" in summary(device)["reason"]
    await stage.placed(manifests.pod("a"))
    await stage.waiting_pod(manifests.pod("b"), f"{stage.namespace}/stranger")
    await stage.delete("stranger")

    await stage.until_bound("b")
    found = await stage.pods()
    assert sorted(cards_of(found["a"]) + cards_of(found["b"])) == sorted(
        uuids((await stage.devices())["foreign"])
    )


async def test_a_pod_of_ours_bound_by_hand_withholds_too(stage: Stage) -> None:
    """Our own scheduler's name on a pod does not make a bind by hand readable."""
    await stage.ready_nodes(byhand="1xT4")
    gated = manifests.pod("hand", schedulingGates=[{"name": "example.com/wait"}])
    await stage.create(gated)
    await stage.patch(resources.NODES, "byhand", {"spec": {"unschedulable": True}})
    await stage.patch(resources.PODS, "hand", {"spec": {"schedulingGates": None}})
    await stage.until_told("hand", "cordoned")

    await stage.bind("hand", "byhand")
    await stage.patch(resources.NODES, "byhand", {"spec": {"unschedulable": None}})
    await stage.waiting_pod(manifests.pod("next"), f"{stage.namespace}/hand")


# ---------------------------------------------------------------- nodes


async def test_a_pod_that_asks_for_no_device_needs_no_agent(stage: Stage) -> None:
    """A node of which nobody publishes cards takes pods that want none; others are told so."""
    await stage.machines(kubelet.FakeNode("bare"))

    await stage.create(manifests.pod("plain", 0), manifests.pod("wants"))
    bound = await stage.until_bound("plain")
    await stage.until_told("wants", "0/1 nodes are available")

    assert bound == {"plain": "bare"}


async def test_taints_selectors_and_cordons_are_kept(stage: Stage) -> None:
    """A pod goes only where it may run: tolerations, labels, and the node's own cordon count."""
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    await stage.machines(
        kubelet.FakeNode("tainted", taints=(taint,)), kubelet.FakeNode("zoned", labels={"zone": "z"})
    )
    await stage.agent(tainted="1xT4", zoned="1xT4")
    await stage.until_ready("tainted", "zoned")
    toleration = {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
    tolerant: dict[str, Any] = {"tolerations": [toleration]}

    await stage.patch(resources.NODES, "zoned", {"spec": {"unschedulable": True}})
    told = await stage.waiting_pod(manifests.pod("plain"), "cordoned")
    await stage.placed(manifests.pod("tolerant", **tolerant))
    await stage.create(manifests.pod("elsewhere", nodeSelector={"zone": "elsewhere"}))
    await stage.patch(resources.NODES, "zoned", {"spec": {"unschedulable": None}})

    bound = await stage.until_bound("plain")
    await stage.until_told("elsewhere", "selector")
    assert "team" in told["message"]
    assert bound == {"tolerant": "tainted", "plain": "zoned"}


async def test_what_a_node_has_beside_cards_is_kept(stage: Stage) -> None:
    """Cpu, memory and resources of others run out like cards, and come back when a pod ends."""
    licence = {"example.com/licence": 1}
    await stage.machines(kubelet.FakeNode("narrow", cpu="4", memory="4Gi", extended=licence))
    await stage.agent(narrow="8xT4")
    await stage.until_ready("narrow")

    await stage.waiting_pod(pod("unknown", limits={"example.com/unknown": "1"}), "example.com/unknown")
    for name, amount in (("cpu", "3"), ("memory", "3Gi"), ("example.com/licence", "1")):
        first, second = (f"{name.rpartition('/')[2]}-{at}" for at in range(2))
        await stage.placed(pod(first, limits={name: amount}))
        await stage.waiting_pod(pod(second, limits={name: amount}), name)
        await stage.delete(first)
        await stage.until_bound(second)


async def test_a_policy_is_read_live(stage: Stage) -> None:
    """Binpack fills a node, spread does not, and a change counts from the next pod on."""
    await stage.ready_nodes(left="4xT4", right="4xT4")
    packed = await stage.placed(manifests.pod("a"), manifests.pod("b"))

    await stage.patch(resources.POLICIES, "default", {"spec": {"strategy": "spread"}})
    try:

        async def spreads() -> bool:
            await stage.delete(*(set(await stage.pods()) - {"a", "b"}))
            await stage.until_gone("c")
            await stage.create(manifests.pod("c"))
            return (await stage.until_bound("c"))["c"] != packed["a"]

        assert packed["a"] == packed["b"]
        await stage.until("a pod on the other node", spreads)
    finally:
        await stage.patch(resources.POLICIES, "default", {"spec": {"strategy": "binpack"}})


async def renewals(stage: Stage, node: str, count: int) -> None:
    """Wait until the agent of a node has renewed its Lease so often."""

    async def renewed() -> str:
        path = resources.LEASES.path(node, namespace=names.NODES_NAMESPACE)
        return str(json.loads(await stage.admin.send("GET", path))["spec"]["renewTime"])

    for _ in range(count):
        before = await renewed()

        async def again(before: str = before) -> bool:
            return await renewed() != before

        await stage.until("the Lease to be renewed", again)


def measuring(utilization: int) -> Thing:
    """Return what a file of faults says of a healthy card with such a load."""
    return {"health": "Healthy", "load": {"utilization": utilization}}


async def test_loaded_cards_are_avoided_within_two_renewals(stage: Stage, tmp_path: Path) -> None:
    """By a policy that weighs the load: among nodes, and among the cards of a node."""
    faults = tmp_path / "faults.json"
    faults.write_text("{}")
    await stage.ready_nodes("--faults", f"{faults}", busy="2xT4", calm="2xT4")
    weights = {"core": 1, "memory": 1, "utilization": 100}
    await stage.patch(resources.POLICIES, "default", {"spec": {"strategy": "weighted", "weights": weights}})
    try:
        before = await stage.placed(manifests.pod("before"))
        await stage.delete("before")
        await stage.until_gone("before")

        loaded = {"busy": {"0": measuring(95), "1": measuring(95)}, "calm": {"0": measuring(95)}}
        faults.write_text(json.dumps(loaded))
        for node in loaded:
            await renewals(stage, node, 2)
        after = await stage.placed(manifests.pod("after"))

        assert (before, after) == ({"before": "busy"}, {"after": "calm"})
        assert await minors(stage) == {"after": "1"}
    finally:
        default = {"strategy": "binpack", "weights": {"core": 1, "memory": 1, "utilization": 0}}
        await stage.patch(resources.POLICIES, "default", {"spec": default})
