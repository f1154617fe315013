"""The kubelet or the agent, its device plugin, is started again on a real node: no pod is lost, no card."""

import asyncio
import json
from pathlib import Path

import pytest

from berth_crds import names
from e2e.inside import (
    MOST_CARDS,
    Inside,
    container,
    pod,
    records,
    until_allocatable,
    until_running,
    whole,
)
from e2e.plugged import SHAPE, flags, minors, started, stock, until_verified
from e2e.stage import Stage, Thing, cards_of
from testbed import workers

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("leader")]


async def test_the_kubelet_is_served_again_when_it_starts_anew(stage: Stage, worker: workers.Worker) -> None:
    """Twice in a row; pods that run keep their cards, and new ones get theirs."""
    await started(stage, worker)
    await stage.create(pod("first", whole("main")))
    await until_running(stage, "first")
    before = Inside(stage, worker, ("first", "main")).uuids()

    for _ in range(2):
        worker.kill_kubelet()
        worker.start_kubelet()
    await until_allocatable(stage, worker.name, MOST_CARDS)
    await stage.create(pod("second", whole("main")))
    await until_running(stage, "first", "second")

    assert Inside(stage, worker, ("first", "main")).uuids() == before
    assert Inside(stage, worker, ("second", "main")).uuids() in set(minors(worker)) - {before}
    for name in ("first", "second"):
        await until_verified(stage, name)


async def test_a_kubelet_that_was_away_rejects_no_pod(
    stage: Stage, worker: workers.Worker, tmp_path: Path
) -> None:
    """Not even one whose card fell ill meanwhile; twenty pods run on, and each keeps its record."""
    faults = tmp_path / "faults.json"
    faults.write_text("{}")
    await started(stage, worker, "--faults", str(faults))
    part, counted = {names.GPU_CORE: "5", names.GPU_MEMORY_RATIO: "5"}, {names.GPU: "5"}
    shares = [
        pod(f"share-{number}", container("main", **(counted if number % 2 else part))) for number in range(17)
    ]
    wholes = [pod(f"whole-{number}", whole("main")) for number in range(3)]
    titles = [each["metadata"]["name"] for each in (*shares, *wholes)]
    await stage.create(*wholes)
    await stage.create(*shares)
    await until_running(stage, *titles)
    before = held(await stage.pods())
    ill = minors(worker)[before["whole-0"][1][0]]

    worker.kill_kubelet()
    broken = {f"{ill}": {"health": "Unhealthy", "reason": "XidCritical", "xid": 79, "message": "off the bus"}}
    faults.write_text(json.dumps({worker.name: broken}))
    await stage.until("the card to be unhealthy", lambda: is_ill(stage, worker.name))
    worker.start_kubelet()
    # Of four cards one is shared, and one is ill.
    await until_allocatable(stage, worker.name, MOST_CARDS - 2)

    await stage.create(pod("late", container("main", **part)))
    await until_running(stage, "late")
    now = await stage.pods()
    assert held(now) == before | held({"late": now["late"]})
    assert {one["status"]["phase"] for one in now.values()} == {"Running"}
    assert restarts(now) == {0}
    assert len(records(stage)) == len(titles) + 1


async def test_no_pod_fails_for_an_agent_that_is_made_anew(stage: Stage, worker: workers.Worker) -> None:
    """As at an update: the kubelet would fail the pods that come while nobody serves it, so none comes."""
    agent = await started(stage, worker)
    titles = [f"p{number}" for number in range(30)]

    async def come() -> None:
        for name in titles:
            await stage.create(pod(name, container("main", **{names.GPU: "5"})))
            await asyncio.sleep(0.1)

    coming = asyncio.create_task(come())
    await stage.until_bound(titles[2])
    agent.process.terminate()
    await stage.ended(agent)
    await coming
    waiting_pods = {name for name, one in (await stage.pods()).items() if "nodeName" not in one["spec"]}
    await stage.agent(*flags(worker), **{worker.name: SHAPE})

    await until_running(stage, *titles)
    assert waiting_pods
    now = await stage.pods()
    assert {one["status"]["phase"] for one in now.values()} == {"Running"}
    assert restarts(now) == {0}


def held(pods: dict[str, Thing]) -> dict[str, tuple[str, list[str]]]:
    """Return which pods these are, by uid, and which cards each has."""
    return {name: (one["metadata"]["uid"], cards_of(one)) for name, one in pods.items()}


def restarts(pods: dict[str, Thing]) -> set[int]:
    """Return how often containers of these pods were started again."""
    statuses = [status for one in pods.values() for status in one["status"]["containerStatuses"]]
    return {status["restartCount"] for status in statuses}


async def is_ill(stage: Stage, node: str) -> bool:
    """Whether the Device of a node tells of a sick card."""
    status = (await stage.devices())[node].get("status", {})
    return any(card["health"] == "Unhealthy" for card in status.get("devices", ()))


async def test_a_plugin_that_dies_amid_an_admission_loses_no_card(
    stage: Stage, worker: workers.Worker
) -> None:
    """The pod that was being admitted fails with a reason or runs; all cards can be had afterwards."""
    await started(stage, worker)
    agents = [program for program in stage.fleet.programs if "-agent-" in program.name and program.alive()]
    await stage.create(stock("unlucky", worker, whole("main")))
    # It waits for half a second for binds under way, and that is when its kubelet waits for the plugin.
    await asyncio.sleep(0.3)
    for program in agents:
        program.kill()

    async def settled() -> Thing | None:
        now = (await stage.pods())["unlucky"]["status"]
        return now if now.get("phase") in {"Failed", "Running"} else None

    found = await stage.until("the pod to fail or to run", settled, seconds=40)
    assert found["phase"] == "Running" or found["reason"] == "UnexpectedAdmissionError"
    await stage.delete("unlucky")
    await stage.until_gone("unlucky")
    # The Device of the former agent is still there, and the kubelet's last count of the cards as well.
    await stage.says(await stage.agent(*flags(worker), **{worker.name: SHAPE}), "with the kubelet")
    await until_allocatable(stage, worker.name, MOST_CARDS)
    await stage.create(pod("all", container("main", **{names.NVIDIA_GPU: f"{MOST_CARDS}"})))
    await until_running(stage, "all")
    assert set(Inside(stage, worker, ("all", "main")).uuids().split(",")) == set(minors(worker))
