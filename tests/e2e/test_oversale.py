"""Core that a policy oversells, on the real server: who is bound, what is told, and what nodes list."""

import json
import secrets
import signal
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from berth_crds import allocation, names
from berth_crds.client import resources
from e2e.inside import container, until_running
from e2e.inside import pod as pod_inside
from e2e.stage import Stage, Thing
from support import manifests, pod_invariants
from testbed import workers

CLASSES: Final = resources.PRIORITY_CLASSES


@pytest.fixture
async def batch(stage: Stage) -> AsyncIterator[str]:
    """Yield a PriorityClass to which the policy oversells core up to 150 percent; nodes list that."""
    policy = await stage.admin.get(resources.POLICIES, names.DEFAULT_POLICY, into=dict)
    name = f"batch-{secrets.token_hex(3)}"
    await stage.admin.create(CLASSES, manifests.priority_class(name, 0))
    await oversell(stage, {"core": 150, "priorityClasses": [name]}, nodeNames="berth")
    yield name
    await oversell(stage, None, nodeNames=policy["spec"].get("nodeNames"))
    await stage.admin.delete(CLASSES, name)


async def oversell(stage: Stage, rules: dict[str, Any] | None, **others: str | None) -> None:
    """Change what the policy in force says of it, and other rules."""
    change = {"spec": {"oversale": rules, **others}}
    await stage.patch(resources.POLICIES, names.DEFAULT_POLICY, change)


def parts(core: int) -> dict[str, str]:
    """Ask for so much core of a card, and a little memory."""
    return {names.GPU_CORE: str(core), names.GPU_MEMORY: "1Gi"}


def asking(name: str, core: int, of: str = "") -> Thing:
    """Return a pod, perhaps of a PriorityClass."""
    return manifests.pod(name, parts(core), priorityClassName=of)


async def until_listed(stage: Stage, node: str, core: str) -> None:
    """Wait until a node lists so much core."""

    async def listed() -> bool:
        found = stage.cluster.read_node(node)["status"]
        amounts = {found[which].get(names.GPU_CORE) for which in ("capacity", "allocatable")}
        return amounts == {core}

    await stage.until(f"the node to list {core} % of core", listed)


def limits(pod: Thing) -> set[int]:
    """Return the limits that the record of a pod has."""
    record = allocation.decode(pod["metadata"]["annotations"][names.ALLOCATION])
    assert isinstance(record, allocation.Allocation)
    return {entry.share.limit for entry in record.entries()}


async def test_core_is_oversold_to_the_class_and_to_nobody_else(stage: Stage, batch: str) -> None:
    """A pod of the class is bound beyond 100 percent, one of none waits, also after the policy and a leader.

    What runs keeps what it holds, at no revision is more promised than may be, and nothing is complained of.
    """
    leader = await stage.deciding_operator()
    await stage.ready_nodes(oversold="1xT4")
    await until_listed(stage, "oversold", "150")
    cards = pod_invariants.cards_of(await stage.devices())
    watched = pod_invariants.WatchedInvariants(stage.cluster, stage.namespace, cards, {batch: 150})

    async with watched as seen:
        await stage.placed(asking("web", 90))
        await stage.placed(asking("batch", 60, batch))
        await stage.waiting_pod(asking("late", 20), "100 % of a card's core")
        await stage.waiting_pod(asking("more", 10, batch), "150 % of a card's core")
        await oversell(stage, None)
        await until_listed(stage, "oversold", "150")
        leader.process.send_signal(signal.SIGTERM)
        await stage.ended(leader)
        await stage.deciding_operator()
        await stage.placed(manifests.pod("memory-alone", {names.GPU_MEMORY: "1Gi"}))
    pods = await stage.pods()

    assert seen.violations == []
    assert {name: limits(pods[name]) for name in ("web", "batch")} == {"web": {0}, "batch": {150}}
    assert "overcommitted" not in json.dumps((await stage.devices())["oversold"]["status"])
    assert {"late", "more"}.isdisjoint(await stage.bound())


@pytest.mark.slow
async def test_a_kubelet_admits_oversold_pods_and_keeps_them(
    stage: Stage, worker: workers.Worker, batch: str
) -> None:
    """It adds up what pods ask for by name, and does so anew when it is started again."""
    await stage.deciding_operator()
    await stage.agent(**{worker.name: "1xT4"})
    await stage.until_ready(worker.name)
    await until_listed(stage, worker.name, "150")
    await stage.create(pod_inside("web", container("main", **parts(90))))
    await until_running(stage, "web")
    await stage.create(pod_inside("batch", container("main", **parts(60)), priorityClassName=batch))
    await until_running(stage, "batch")

    await oversell(stage, None)
    worker.kill_kubelet()
    worker.start_kubelet()
    await stage.create(pod_inside("late", container("main", **{names.GPU_MEMORY: "1Gi"})))
    await until_running(stage, "late", "web", "batch")

    assert {one["status"]["phase"] for one in (await stage.pods()).values()} == {"Running"}
