"""What the kubelet is answered where cards are shared, and where nvidia.com/gpu is no whole card (N16)."""

import dataclasses

import msgspec
import pytest

from agent.plugin_node import CARDS, CUT, GPU, MIG, SHARED, SPLIT, Mps, Node, listed, pod
from berth_agent.device_plugin import answers
from berth_agent.device_plugin.answers import NodeState
from berth_agent.kubelet.device_ids import uuid_of
from berth_agent.kubelet.plugin_messages import PluginMount
from berth_agent.kubelet.plugin_server import AllocationRefused
from berth_agent.plugin_choices import PluginChoices
from berth_crds import wire


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "FOUND_SECONDS", 0.15)
    monkeypatch.setattr(answers, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(answers, "SETTLE_SECONDS", 0.05)


async def test_nvidia_com_gpu_may_stand_for_replicas() -> None:
    """Several pods then share a card by that name, and a bind's own card is preferred as always."""
    node = Node(*(msgspec.structs.replace(card, sharing=SPLIT.sharing) for card in CARDS[:2]))
    node.answers.state = dataclasses.replace(node.answers.state, gpu_stands_for=SHARED)
    ids = ("GPU-0::0", "GPU-0::1", "GPU-1::0", "GPU-1::1")
    assert [device.id for device in node.answers.offers()[GPU]] == list(ids)

    node.pods = [pod("ours", {GPU: 1}, promised=[["GPU-1"]], replicas=1)]
    node.admits(listed("ours", ()))
    assert await node.preferred(*ids, size=1) == ["GPU-1::0"]
    assert (await node.answers.allocated(GPU, ("GPU-1::0",))).env == {"NVIDIA_VISIBLE_DEVICES": "GPU-1"}
    node.pods.append(pod("stock", {GPU: 1}))
    node.admits(listed("ours", ["GPU-1::0"]), listed("stock", ()))
    assert await node.preferred(*ids[:2], ids[3], size=1) == ["GPU-0::0"]
    await node.answers.allocated(GPU, ("GPU-1::1",))  # As the kubelet may choose.


async def test_nvidia_com_gpu_may_stand_for_instances() -> None:
    """Each instance is one device of that name, and none by its profile."""
    node = Node(CUT)
    node.answers.state = dataclasses.replace(node.answers.state, gpu_stands_for=MIG)
    node.pods = [pod("p", {GPU: 1}, promised=[["MIG-1"]])]
    node.admits(listed("p", ()))

    assert {name: len(devices) for name, devices in node.answers.offers().items()} == {GPU: 1}
    assert await node.preferred("MIG-1", size=1) == ["MIG-1"]
    assert (await node.answers.allocated(GPU, ("MIG-1",))).env == {"NVIDIA_VISIBLE_DEVICES": "MIG-1"}


async def test_what_was_given_as_a_whole_card_is_no_replica_later() -> None:
    """Nor the other way round: after a change of configuration the name is the same, and the card taken."""
    shared = [msgspec.structs.replace(card, sharing=SPLIT.sharing) for card in CARDS]
    node = Node(*shared)
    node.answers.state = dataclasses.replace(node.answers.state, gpu_stands_for=SHARED)
    node.pods = [pod("ours", {GPU: 1}, promised=[["GPU-0"]]), pod("new", {GPU: 1})]
    node.answers.listed = (listed("stock", ["GPU-1"]), listed("of-a-replica", ["GPU-2::0"]))
    healthy = {device.id for device in node.answers.offers()[GPU] if device.is_healthy}
    assert healthy == {"GPU-2::0", "GPU-2::1", "GPU-3::0", "GPU-3::1"}

    node.admits(*node.answers.listed, listed("new", ()))
    for taken in ("GPU-0::0", "GPU-1::0"):
        with pytest.raises(AllocationRefused, match=f"{uuid_of(taken)}, which is reserved for another pod"):
            await node.answers.allocated(GPU, (taken,))

    node.answers.state = NodeState(CARDS)
    healthy = {device.id for device in node.answers.offers()[GPU] if device.is_healthy}
    assert healthy == {"GPU-0", "GPU-1", "GPU-3"}


async def test_replicas_by_mps_are_programs_of_its_daemon() -> None:
    """They reach it as with NVIDIA's plugin; while it does not serve, nothing is given."""
    card = msgspec.structs.replace(CARDS[0], sharing=wire.Sharing("mps", 2))
    node = Node(card, *CARDS[1:], choices=PluginChoices(pass_device_specs=True))
    mps = Mps()
    node.answers._rules = dataclasses.replace(node.answers._rules, mps=mps)
    node.pods = [pod("p", {SHARED: 1, GPU: 1})]
    node.admits(listed("p", ()))

    found = await node.answers.allocated(SHARED, ("GPU-0::0",))
    assert found.env == {"NVIDIA_VISIBLE_DEVICES": "GPU-0", "CUDA_MPS_PIPE_DIRECTORY": "/mps/pipe"}
    assert found.mounts == (
        PluginMount("/mps/pipe", "/run/mps/pipe", read_only=False),
        PluginMount("/dev/shm", "/run/mps/shm", read_only=False),  # noqa: S108
    )
    assert [path for path, _ in found.device_nodes] == ["/dev/nvidia0", "/dev/nvidiactl"]
    assert (await node.answers.allocated(GPU, ("GPU-1",))).mounts == ()
    mps.failure = "it does not answer"
    with pytest.raises(AllocationRefused, match="MPS does not serve: it does not answer"):
        await node.answers.allocated(SHARED, ("GPU-0::1",))


async def test_several_replicas_may_be_refused() -> None:
    """They are no more of a card than one; whole cards are not meant."""
    node = Node(*CARDS, SPLIT, choices=PluginChoices(one_replica_each=True))
    node.pods = [pod("p", {GPU: 2})]
    node.admits(listed("p", ()))

    with pytest.raises(AllocationRefused, match="2 replicas give no more of a card than one: ask for 1 "):
        await node.answers.allocated(SHARED, ("GPU-s::0", "GPU-s::1"))
    await node.answers.allocated(GPU, ("GPU-0", "GPU-1"))
