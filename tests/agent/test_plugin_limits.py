"""What the device plugin gives containers that have parts of cards, so that they keep to them."""

import dataclasses
from pathlib import Path

import msgspec
import pytest

from agent.plugin_node import CARDS, GPU, Mps, Node, listed, pod
from berth_agent.delivery import isolation
from berth_agent.device_plugin import offers
from berth_agent.kubelet.plugin_server import AllocationRefused
from berth_crds import names

PARTS = names.GPU


def percents(minor: int, first: int, last: int) -> tuple[str, ...]:
    """Return these percents of a card."""
    return offers.percents(f"GPU-{minor}")[first:last]


# Pods here are bound with 7 bytes of memory.
@pytest.mark.parametrize(("bound", "memory"), [(False, "250m"), (True, "0m")])
async def test_who_has_a_part_is_kept_to_it(tmp_path: Path, memory: str, *, bound: bool) -> None:
    """By what its bind says, or by how many percent the kubelet chose for a pod of another scheduler."""
    for name in (isolation.LIBRARY, isolation.PRELOAD):
        (tmp_path / name).touch()
    node = Node(msgspec.structs.replace(CARDS[0], memory=1000 << 20))
    node.answers._rules = dataclasses.replace(
        node.answers._rules, isolation=isolation.HamiIsolation(tmp_path)
    )
    promised = [["GPU-0"]] if bound else []
    node.pods = [pod("p", {PARTS: 25}, promised=promised, core=25)]
    node.admits(listed("p", ()))

    found = await node.answers.allocated(PARTS, percents(0, 0, 25))

    limits = {"CUDA_DEVICE_MEMORY_LIMIT_0": memory, "CUDA_DEVICE_SM_LIMIT": "25"}
    assert found.env == {"NVIDIA_VISIBLE_DEVICES": "GPU-0"} | limits
    mounted = [mount.container_path for mount in found.mounts]
    assert mounted == [isolation.LIBRARY_IN_CONTAINER, isolation.PRELOAD_IN_CONTAINER]


async def test_a_whole_card_is_no_part() -> None:
    """With MPS it is reached through its daemon all the same, and not given while that does not serve."""
    mps = Mps()
    node = Node()
    node.answers._rules = dataclasses.replace(node.answers._rules, isolation=isolation.MpsIsolation(mps))
    node.pods = [pod("p", {GPU: 1, PARTS: 10})]
    node.admits(listed("p", ()))

    found = await node.answers.allocated(GPU, ("GPU-1",))
    assert found.env == {"NVIDIA_VISIBLE_DEVICES": "GPU-1", "CUDA_MPS_PIPE_DIRECTORY": "/mps/pipe"}
    part = await node.answers.allocated(PARTS, percents(2, 0, 10))
    assert part.env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "10"
    mps.failure = "it does not answer"
    with pytest.raises(AllocationRefused, match="MPS does not serve: it does not answer"):
        await node.answers.allocated(PARTS, percents(2, 10, 20))


@pytest.mark.parametrize("count", [64, 65])
async def test_a_pod_of_very_many_containers_is_refused(count: int) -> None:
    """The kubelet asks for each, and admits no other pod meanwhile: thousands would take it minutes."""
    node = Node()
    node.pods = [pod("many", *[{GPU: 1}] * count, init=count - 1)]
    node.admits(listed("many", ()))
    if count <= 64:
        assert await node.answers.allocated(GPU, ("GPU-0",))
    else:
        with pytest.raises(
            AllocationRefused, match="65 containers of the pod ask for cards or other devices; 64 are"
        ):
            await node.answers.allocated(GPU, ("GPU-0",))
