"""What follows from a silent agent, where the policy asks for it: a taint on its Node, and evictions."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from berth_crds import names
from berth_crds.client import resources
from e2e.stage import USUAL, Stage, cards_of
from support import manifests

BUDGETS: Final = resources.Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
TAINT: Final = {"key": names.AGENT_SILENT_TAINT, "effect": "NoSchedule"}
OTHER: Final = {"key": "example.com/a", "value": "b", "effect": "PreferNoSchedule"}
PATIENT: Final = {"graceSeconds": 40, "unknownSeconds": 20, "taint": False, "evictAfterSeconds": None}
RUTHLESS: Final = {"spec": {"health": {"onSick": "evict"}, "onCordon": "drain"}}
MILD: Final = {"spec": {"health": {"onSick": "leave"}, "onCordon": "stop"}}
pytestmark = pytest.mark.slow


@pytest.fixture
async def impatient(stage: Stage) -> AsyncIterator[Stage]:
    """Yield a stage on which an agent may be silent for three seconds only, and one more is told of it."""
    await decree(stage, graceSeconds=3, unknownSeconds=1)
    yield stage
    await decree(stage, **PATIENT)


async def decree(stage: Stage, **agents: object) -> None:
    """Change what the policy says of agents."""
    await stage.patch(resources.POLICIES, names.DEFAULT_POLICY, {"spec": {"agents": agents}})


def on(node: str) -> dict[str, Any]:
    """Return what sends a pod to a node."""
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


async def until_taints(stage: Stage, node: str, *expected: dict[str, str]) -> None:
    """Wait until a Node has exactly these taints."""

    def found() -> list[dict[str, str]]:
        return list(stage.cluster.read_node(node)["spec"].get("taints", []))

    async def there() -> bool:
        return found() == list(expected)

    await stage.until(f"{node} to have the taints {expected}", there, instead=found)


async def test_the_node_of_a_silent_agent_is_tainted(impatient: Stage) -> None:
    """Beside the taints of others, over a new operator, until the agent is back or the policy is."""
    stage = impatient
    await stage.nodes(steady="1xT4")
    dying = await stage.nodes(shaky="2xT4")
    await stage.patch(resources.NODES, "shaky", {"spec": {"taints": [OTHER]}})
    await decree(stage, taint=True)
    first = await stage.deciding_operator(*USUAL)
    await stage.until_ready("steady", "shaky")

    dying.kill()
    await until_taints(stage, "shaky", OTHER, TAINT)
    first.kill()
    second = await stage.deciding_operator(*USUAL)
    await stage.until_ready("shaky", truth="False")
    await until_taints(stage, "shaky", OTHER, TAINT)
    await until_taints(stage, "steady")
    assert "the taint" not in second.log.read_text()

    # Nothing but the agent's own return opens the node again for Berth's pods, and no taint is in their way.
    reborn = await stage.agent(shaky="2xT4")
    await until_taints(stage, "shaky", OTHER)
    assert (await stage.placed(manifests.pod("back", **on("shaky")))) == {"back": "shaky"}

    reborn.kill()
    await until_taints(stage, "shaky", OTHER, TAINT)
    await decree(stage, taint=False)
    await until_taints(stage, "shaky", OTHER)


async def test_pods_of_a_silent_agent_are_evicted_within_their_budget(impatient: Stage) -> None:
    """A budget holds them as long as it says so; then they go, are told why, and give their cards back."""
    stage = impatient
    await stage.nodes(steady="1xT4")
    dying = await stage.nodes(shaky="2xT4")
    operator = await stage.deciding_operator()
    await stage.until_ready("steady", "shaky")
    kept = manifests.pod("kept", **on("shaky"))
    kept["metadata"]["labels"] = {"app": "kept"}
    await stage.placed(kept, manifests.pod("free", **on("shaky")), manifests.pod("elsewhere", **on("steady")))
    budget = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "kept"}}}
    made = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": budget,
    }
    await stage.admin.create(BUDGETS, made, namespace=stage.namespace)
    for name in ("kept", "free", "elsewhere"):
        await stage.until_pod(name, "run", lambda pod: pod["status"].get("phase") == "Running")

    dying.kill()
    await stage.until_ready("shaky", truth="False")
    await decree(stage, evictAfterSeconds=1)
    await stage.until_gone("free")
    await stage.says(operator, f"{stage.namespace}/kept is not evicted yet")
    assert cards_of((await stage.pods())["kept"])

    await stage.admin.delete(BUDGETS, "b", namespace=stage.namespace)
    await stage.until_gone("kept")
    (event,) = (one for one in await stage.events("kept") if one["reason"] == "EvictedByBerth")
    assert "the agent of node shaky has been silent" in event["message"]
    assert (await stage.bound()) == {"elsewhere": "steady"}

    await stage.agent(shaky="2xT4")
    await stage.until_ready("shaky")
    await stage.placed(manifests.pod("next", 2, **on("shaky")))


async def test_the_pods_of_a_sick_card_are_evicted_and_no_others(stage: Stage, tmp_path: Path) -> None:
    """Then its Device says that it is safe to reset; a cordon that drains empties the other card."""
    faults = tmp_path / "faults.json"
    faults.write_text("{}")
    await stage.nodes("--faults", str(faults), ward="2xT4")
    await stage.deciding_operator()
    await stage.until_ready("ward")
    await stage.placed(manifests.pod("one", **on("ward")), manifests.pod("two", **on("ward")))
    cards = {name: cards_of(pod)[0] for name, pod in (await stage.pods()).items()}
    minors = {card["uuid"]: f"{card['minor']}" for card in (await stage.devices())["ward"]["spec"]["devices"]}
    sick = {"health": "Unhealthy", "reason": "XidCritical", "xid": 95, "recovery": "reset"}

    faults.write_text(json.dumps({"ward": {minors[cards["one"]]: sick}}))
    await until_reason(stage, "needs a reset: 1 pod holds it")
    try:
        await stage.patch(resources.POLICIES, names.DEFAULT_POLICY, RUTHLESS)
        await stage.until_gone("one")
        await until_reason(stage, "needs a reset: no pod holds it, it is safe to reset it")
        assert await stage.bound() == {"two": "ward"}

        await stage.patch(resources.DEVICES, "ward", {"spec": {"cordon": [cards["two"]]}})
        await stage.until_gone("two")
    finally:
        await stage.patch(resources.POLICIES, names.DEFAULT_POLICY, MILD)


async def until_reason(stage: Stage, words: str) -> None:
    """Wait until a Device says this under REASON."""
    await stage.until_device(
        "ward", f"say {words}", lambda device: words in device["status"].get("summary", {}).get("reason", "")
    )
