"""Where pods go and where they do not: cards, nodes and agents in every state, seen from outside."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from berth_crds import names
from berth_crds.client import resources
from e2e.stage import Stage, Thing, cards_of, condition, pod, uuids
from support import kubelet

POLICIES = resources.POLICIES


@pytest.fixture
async def led(stage: Stage) -> Stage:
    """Lend a stage on which an operator decides."""
    await stage.deciding_operator()
    return stage


async def minors(stage: Stage) -> dict[str, str]:
    """Name the minors that each bound pod was given."""
    found = await stage.pods()
    return {
        name: one["metadata"]["annotations"][names.MINORS]
        for name, one in found.items()
        if one["spec"].get("nodeName")
    }


async def card(stage: Stage, node: str, minor: int) -> str:
    """Name a card."""
    listed = (await stage.devices())[node]["spec"]["devices"]
    found: str = next(one["uuid"] for one in listed if one["minor"] == minor)
    return found


# ---------------------------------------------------------------- cards


async def test_cards_go_in_order_and_init_containers_borrow(led: Stage) -> None:
    """The lowest minors first; an init container uses a card of its pod; a second container has its own."""
    await led.nodes(order="4xT4")
    await led.until_ready("order")
    pair = pod("pair")
    limits = {"limits": {names.NVIDIA_GPU: "1"}}
    pair["spec"]["containers"].append({"name": "side", "image": "x", "resources": limits})
    pair["spec"]["initContainers"] = [{"name": "early", "image": "x", "resources": limits}]

    await led.create(pod("first"))
    await led.until_bound("first")
    await led.create(pair)
    await led.until_bound("pair")

    said = (await led.pods())["pair"]["metadata"]["annotations"]
    assert await minors(led) == {"first": "0", "pair": "1,2"}
    assert said["main.devices.berth.dev/minors"] == "1"
    assert said["side.devices.berth.dev/minors"] == "2"
    assert said["early.devices.berth.dev/minors"] in {"1", "2"}


async def test_a_cordoned_card_gets_no_new_pod(led: Stage) -> None:
    """A card that somebody cordoned is left out, what runs on it goes on; uncordoned it is given again."""
    await led.nodes(cordoned="2xT4")
    await led.until_ready("cordoned")
    await led.create(pod("old"))
    await led.until_bound("old")

    both = [await card(led, "cordoned", minor) for minor in (0, 1)]
    await led.patch(resources.DEVICES, "cordoned", {"spec": {"cordon": both}})
    await led.create(pod("new"))
    await led.until_told("new", "cordoned")
    assert (await led.pods())["old"]["spec"]["nodeName"] == "cordoned"
    await led.patch(resources.DEVICES, "cordoned", {"spec": {"cordon": [both[0]]}})
    await led.until_bound("new")

    assert await minors(led) == {"old": "0", "new": "1"}
    assert (await led.devices())["cordoned"]["spec"]["cordon"] == [both[0]]


async def test_an_unhealthy_card_gets_no_new_pod_and_recovers(led: Stage, tmp_path: Path) -> None:
    """A card that its agent finds broken is left out, is told with its reason, and comes back."""
    faults = tmp_path / "faults.json"
    broken = {"health": "Unhealthy", "reason": "XidCritical", "xid": 79, "message": "fell off the bus"}
    faults.write_text(json.dumps({"sick": {"0": broken}}))
    await led.machines(kubelet.FakeNode("sick"))
    await led.agent("--faults", str(faults), sick="2xT4")
    await led.until_ready("sick")

    await led.create(pod("a"))
    await led.until_bound("a")
    await led.create(pod("b"))
    await led.until_told("b")
    sick = await card(led, "sick", 0)
    (verdict,) = (await led.devices())["sick"]["status"]["devices"]
    assert (verdict["uuid"], verdict["health"], verdict["xid"]) == (sick, "Unhealthy", 79)
    faults.write_text("{}")
    await led.until_bound("b")

    assert await minors(led) == {"a": "1", "b": "0"}


async def test_a_failed_source_takes_the_whole_node(led: Stage, tmp_path: Path) -> None:
    """When the driver does not answer the node gets no new pod, whatever was known of its cards."""
    faults = tmp_path / "faults.json"
    await led.machines(kubelet.FakeNode("blind"))
    await led.agent("--faults", str(faults), blind="2xT4")
    await led.until_ready("blind")

    faults.write_text(
        json.dumps({"blind": {"source": {"reason": "DriverNotLoaded", "message": "no driver"}}})
    )

    async def told() -> bool:
        found = condition((await led.devices())["blind"], "NVMLReady")
        return bool(found.get("status") == "False")

    await led.until("the Device to tell", told)
    await led.create(pod("a"))
    await led.until_told("a", "DriverNotLoaded")
    faults.write_text("{}")
    await led.until_bound("a")


async def test_a_model_is_chosen(led: Stage) -> None:
    """A pod that names a model gets a card of that model, written as people write it, or waits for one."""
    await led.nodes(models="2xT4+1xL4")
    await led.until_ready("models")

    await led.create(pod("l4", annotations={names.MODEL: " l4 , H100-80GB-HBM3"}))
    await led.until_bound("l4")
    await led.create(
        pod("again", annotations={names.MODEL: "L4"}), pod("none", annotations={names.MODEL: "B200"})
    )

    assert await minors(led) == {"l4": "2"}
    await led.until_told("again")
    await led.until_told("none", "model")


# ---------------------------------------------------------------- pods of others


async def test_a_foreign_pod_with_cards_withholds_them(led: Stage) -> None:
    """Whoever bound a pod past us: its cards cannot be named, so as many are withheld until it is gone."""
    await led.nodes(foreign="2xT4")
    await led.until_ready("foreign")
    await led.create(pod("stranger", schedulerName="somebody-else"))
    await led.bind("stranger", "foreign")

    async def withheld() -> bool:
        found = (await led.devices())["foreign"]["status"]["summary"]
        return bool(found["free"] == 1 and "without a readable allocation" in found.get("reason", ""))

    await led.until("one card to be withheld", withheld)
    await led.create(pod("a"))
    await led.until_bound("a")
    await led.create(pod("b"))
    await led.until_told("b", f"{led.namespace}/stranger")
    await led.delete("stranger")

    await led.until_bound("b")
    found = await led.pods()
    assert sorted(cards_of(found["a"]) + cards_of(found["b"])) == sorted(
        uuids((await led.devices())["foreign"])
    )


async def test_a_pod_of_ours_bound_by_hand_withholds_too(led: Stage) -> None:
    """Our own scheduler's name on a pod does not make a bind by hand readable."""
    await led.nodes(byhand="1xT4")
    await led.until_ready("byhand")
    gated = pod("hand", schedulingGates=[{"name": "example.com/wait"}])
    await led.create(gated)
    await led.patch(resources.NODES, "byhand", {"spec": {"unschedulable": True}})
    await led.patch(resources.PODS, "hand", {"spec": {"schedulingGates": None}})
    await led.until_told("hand", "cordoned")

    await led.bind("hand", "byhand")
    await led.patch(resources.NODES, "byhand", {"spec": {"unschedulable": None}})
    await led.create(pod("next"))

    await led.until_told("next", f"{led.namespace}/hand")


# ---------------------------------------------------------------- nodes


async def test_taints_selectors_and_cordons_are_kept(led: Stage) -> None:
    """A pod goes only where it may run: tolerations, labels, and the node's own cordon count."""
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    await led.machines(
        kubelet.FakeNode("tainted", taints=(taint,)), kubelet.FakeNode("zoned", labels={"zone": "z"})
    )
    await led.agent(tainted="1xT4", zoned="1xT4")
    await led.until_ready("tainted", "zoned")
    toleration = {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
    tolerant: dict[str, Any] = {"tolerations": [toleration]}

    await led.patch(resources.NODES, "zoned", {"spec": {"unschedulable": True}})
    await led.create(pod("plain"))
    told = await led.until_told("plain", "cordoned")
    await led.create(pod("tolerant", **tolerant))
    await led.until_bound("tolerant")
    await led.create(pod("elsewhere", nodeSelector={"zone": "elsewhere"}))
    await led.patch(resources.NODES, "zoned", {"spec": {"unschedulable": None}})

    bound = await led.until_bound("plain")
    await led.until_told("elsewhere", "selector")
    assert "team" in told["message"]
    assert bound == {"tolerant": "tainted", "plain": "zoned"}


@pytest.mark.parametrize(
    "limits",
    [{"cpu": "3"}, {"memory": "3Gi"}, {"example.com/licence": "1"}],
    ids=lambda limits: next(iter(limits)),
)
async def test_what_a_node_has_beside_cards_is_kept(led: Stage, limits: dict[str, str]) -> None:
    """Cpu, memory and resources of others run out like cards, and come back when a pod ends."""
    name = "narrow-" + next(iter(limits))[0]
    await led.machines(kubelet.FakeNode(name, cpu="4", memory="4Gi", extended={"example.com/licence": 1}))
    await led.agent(**{name: "4xT4"})
    await led.until_ready(name)

    await led.create(pod("a", limits=limits))
    await led.until_bound("a")
    await led.create(pod("b", limits=limits), pod("small"))
    await led.until_bound("small")
    await led.until_told("b", next(iter(limits)))
    await led.delete("a")

    await led.until_bound("b")


async def test_a_pod_that_wants_a_resource_nobody_has_waits(led: Stage) -> None:
    """A name that no node advertises is not ours to ignore."""
    await led.nodes(usual="1xT4")
    await led.until_ready("usual")

    await led.create(pod("odd", limits={"example.com/unheard-of": "1"}))

    await led.until_told("odd", "example.com/unheard-of")


# ---------------------------------------------------------------- agents


GRACE: Thing = {"spec": {"agents": {"graceSeconds": 3}}}


@pytest.fixture
async def impatient(stage: Stage) -> AsyncIterator[Stage]:
    """Lend a stage on which an agent may be silent for three seconds only."""
    await stage.patch(POLICIES, "default", GRACE)
    yield stage
    await stage.patch(POLICIES, "default", {"spec": {"agents": {"graceSeconds": 40}}})


@pytest.mark.slow
async def test_a_silent_agent_loses_its_node_and_wins_it_back(impatient: Stage) -> None:
    """When an agent dies its node gets no new pod and the others go on; a new operator knows it, too."""
    stage = impatient
    await stage.nodes(steady="1xT4")
    dying = await stage.nodes(shaky="8xT4")
    first = await stage.deciding_operator()
    await stage.until_ready("steady", "shaky")
    wanted: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "shaky"}}
    await stage.create(pod("before", **wanted))
    await stage.until_bound("before")

    dying.kill()
    await stage.until_ready("shaky", truth="False")
    await stage.create(pod("anywhere"), pod("there", **wanted))
    await stage.until_bound("anywhere")
    await stage.until_told("there", "silent")
    assert (await stage.bound())["anywhere"] == "steady"

    # Another operator finds the Device as it is, and the Lease of the dead agent.
    first.kill()
    await stage.deciding_operator()
    await stage.create(pod("after", **wanted))
    await stage.until_told("after", "silent")
    assert condition((await stage.devices())["shaky"], "Ready")["status"] == "False"

    await stage.agent(shaky="8xT4")
    await stage.until_ready("shaky")
    bound = await stage.until_bound("there", "after")
    assert bound == {"before": "shaky", "anywhere": "steady", "there": "shaky", "after": "shaky"}
    await stage.assert_sound(*bound)


async def test_a_policy_is_read_live(led: Stage) -> None:
    """Binpack fills a node, spread does not, and a change counts from the next pod on."""
    await led.nodes(left="4xT4", right="4xT4")
    await led.until_ready("left", "right")
    await led.create(pod("a"))
    await led.until_bound("a")
    await led.create(pod("b"))
    packed = await led.until_bound("b")

    await led.patch(POLICIES, "default", {"spec": {"strategy": "spread"}})
    try:

        async def spreads() -> bool:
            await led.delete(*(set(await led.pods()) - {"a", "b"}))
            await led.create(pod("c"))
            return (await led.until_bound("c"))["c"] != packed["a"]

        assert packed["a"] == packed["b"]
        await led.until("a pod on the other node", spreads)
    finally:
        await led.patch(POLICIES, "default", {"spec": {"strategy": "binpack"}})
