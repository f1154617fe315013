"""What the kubelet is answered where cards are shared, and where nvidia.com/gpu is no whole card (N16)."""

import dataclasses

import msgspec
import pytest

from agent.plugin_node import CARDS, CUT, GPU, MIG, SHARED, SPLIT, Node, listed, pod
from berth_agent.device_plugin import answers
from berth_agent.kubelet.plugin_server import Refused
from berth_agent.plugin_choices import PluginChoices


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

    node.pods = [pod("ours", {GPU: 1}, promised=[["GPU-1"]])]
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


async def test_several_replicas_may_be_refused() -> None:
    """They are no more of a card than one; whole cards are not meant."""
    node = Node(*CARDS, SPLIT, choices=PluginChoices(one_replica_each=True))
    node.pods = [pod("p", {GPU: 2})]
    node.admits(listed("p", ()))

    with pytest.raises(
        Refused, match="2 replicas of shared cards are no more of a card than one: ask for 1 "
    ):
        await node.answers.allocated(SHARED, ("GPU-s::0", "GPU-s::1"))
    await node.answers.allocated(GPU, ("GPU-0", "GPU-1"))
