"""Nodes list what their devices can give, on a real kubelet: pods by Koordinator's old names run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from berth_crds import aliases, names
from berth_crds.client import resources
from e2e.inside import container, pod, until_running
from e2e.stage import HARDWARE, Stage, cards_of
from support.nvml import machine, presets
from testbed import processes, workers

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("leader")]
WHOLE = {names.GPU: "400", names.GPU_CORE: "400", names.GPU_MEMORY_RATIO: "400"}
LEAVES_OUT = "nodes list it if the policy has nodeNames: koordinator"


@pytest.fixture
def policy(stage: Stage) -> Iterator[None]:
    """Have the default policy back at the end."""
    yield
    write(stage, nodeNames="none", podRecords="berth")


def write(stage: Stage, **rules: str) -> None:
    """Change rules of the policy in force."""
    stage.cluster.patch(resources.POLICIES.path(names.DEFAULT_POLICY), {"spec": rules})


def lists(stage: Stage, node: str) -> dict[str, str]:
    """Return what a node lists by names that Berth serves, and what of it is allocatable."""
    status = stage.cluster.read_node(node)["status"]
    assert status["capacity"].keys() >= status["allocatable"].keys()
    return {name: amount for name, amount in status["allocatable"].items() if "gpu" in name}


async def until_listed(stage: Stage, node: str, expected: dict[str, str]) -> None:
    """Wait until a node lists these amounts, whatever else."""

    async def listed() -> bool:
        return expected.items() <= lists(stage, node).items()

    await stage.until(f"the node to list {expected}", listed, instead=lambda: lists(stage, node))


@pytest.mark.usefixtures("policy")
async def test_pods_by_koordinators_old_names_run(stage: Stage, worker: workers.Worker) -> None:
    """The kubelet refuses such a name where its node does not list it; so they wait until it does.

    By policy each also has the record that Koordinator's agent reads, and the fence lets it pass.
    """
    await stage.agent(**{worker.name: "4xT4"})
    await stage.until_ready(worker.name)
    asked: dict[str, dict[str, Any]] = {
        "whole": {"kubernetes.io/gpu": "100"},
        "ratio": {"kubernetes.io/gpu-core": "50", "kubernetes.io/gpu-memory-ratio": "50"},
        "memory": {"kubernetes.io/gpu-core": "30", "kubernetes.io/gpu-memory": "2Gi"},
    }
    pods = [pod(name, container("main", **amounts)) for name, amounts in asked.items()]
    del pods[0]["spec"]["containers"][0]["resources"]["limits"]
    pods[0]["spec"]["containers"][0]["resources"]["requests"] = asked["whole"]

    await stage.create(*pods)
    for name in asked:
        await stage.until_told(name, LEAVES_OUT)
    assert not any(name.startswith("kubernetes.io") for name in lists(stage, worker.name))
    write(stage, nodeNames="koordinator", podRecords="koordinator")
    await until_running(stage, *asked)
    for one in (await stage.pods()).values():
        record = json.loads(one["metadata"]["annotations"][aliases.KOORDINATOR_RECORD])
        assert [card["id"] for card in record["gpu"]] == cards_of(one)
    write(stage, nodeNames="berth")
    kept = {names.GPU: "400", "kubernetes.io/gpu": "100", "kubernetes.io/gpu-core": "80"}
    await until_listed(stage, worker.name, kept)
    worker.kill_kubelet()
    worker.start_kubelet()
    await stage.create(pod("late", container("main", **{names.GPU: "50"})))
    await until_running(stage, "late", *asked)

    assert {one["status"]["phase"] for one in (await stage.pods()).values()} == {"Running"}
    await stage.delete(*asked)
    await stage.until_gone(*asked)
    await stage.until("the old names to be gone", lambda: no_old_names(stage, worker.name))


async def no_old_names(stage: Stage, node: str) -> bool:
    """Whether a node lists none of Koordinator's old names."""
    return not any(name.startswith("kubernetes.io") for name in lists(stage, node))


@pytest.mark.usefixtures("policy")
async def test_a_restarted_kubelet_keeps_the_pod_of_a_sick_card(
    stage: Stage, worker: workers.Worker, tmp_path: Path
) -> None:
    """Its card counts as long as it is held, and no longer."""
    faults = tmp_path / "faults.json"
    faults.write_text("{}")
    await stage.agent("--faults", str(faults), **{worker.name: "4xT4"})
    await stage.until_ready(worker.name)
    write(stage, nodeNames="berth")
    await until_listed(stage, worker.name, WHOLE)
    await stage.create(pod("p", container("main", **{names.GPU: "100"})))
    await until_running(stage, "p")

    faults.write_text(
        json.dumps({worker.name: {"0": {"health": "Unhealthy", "reason": "XidCritical", "xid": 79}}})
    )
    await stage.until_device(
        worker.name, "be ill", lambda device: device["status"].get("summary", {}).get("healthy") == 3
    )
    worker.kill_kubelet()
    worker.start_kubelet()
    await stage.create(pod("late", container("main", **{names.GPU: "100"})))
    await until_running(stage, "p", "late")

    assert lists(stage, worker.name).items() >= WHOLE.items()
    await stage.delete("p")
    await stage.until_gone("p")
    await until_listed(stage, worker.name, {names.GPU: "300"})


@pytest.mark.usefixtures("policy")
async def test_devices_of_any_type_stop_nobody(
    stage: Stage, leader: processes.Program, tmp_path: Path
) -> None:
    """A node with a device that no resource stands for lists its cards, and pods get them."""
    npu = {"uuid": "npu-0000:5e:00.0", "type": "npu", "minor": 0}
    (tmp_path / "npu.json").write_text(json.dumps({"devices": [npu]}))
    stage.agents_read(machine.Machine.make(tmp_path / "machine", presets.DGX_A100))
    name = f"{stage.namespace}-npu"
    await stage.ready_nodes("--devices", f"{tmp_path}", **{name: HARDWARE})
    write(stage, nodeNames="berth")

    await until_listed(stage, name, {names.GPU: "800"})
    assert "npu" in {one["type"] for one in (await stage.devices())[name]["spec"]["devices"]}
    await stage.create(pod("train", container("main", **{names.GPU: "100"})))
    await stage.until_bound("train")
    assert leader.alive()
    assert "Traceback" not in leader.log.read_text()
