"""The device plugin beside a kubelet that comes and goes (N2, N4)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from agent.plugin_node import CARDS, GPU, MEANS, SHARED, SPLIT, Kubelet, Node, Pods, listed, pod
from berth_agent.device_plugin import answers, plugin
from berth_agent.device_plugin.answers import AnswerRules, NodeState
from berth_agent.kubelet import plugin_messages
from berth_agent.kubelet.plugin_messages import OfferedDevice
from berth_agent.kubelet.plugin_server import PluginServer
from berth_agent.plugin_choices import PluginChoices
from berth_crds import names, tasks, wire
from support.podresources import field
from testbed import waiting

REFUSED = "takes no device plugin for nvidia.com/gpu (attempt 1)"


class Registry:
    """The kubelet's end of registration; requests for parts of cards, which come beside others, are apart."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.requests: list[bytes] = []
        self.for_parts: list[bytes] = []
        self.refuses = False
        self.refused = ""  # A resource that is not taken.
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Begin to listen, as a kubelet that starts: with a socket of its own."""
        self._server = grpc.aio.server()
        method = grpc.unary_unary_rpc_method_handler(self._register)
        service = grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": method})
        self._server.add_generic_rpc_handlers((service,))
        self._server.add_insecure_port(f"unix:{self.socket}")
        await self._server.start()

    async def stop(self) -> None:
        """Go away."""
        if self._server:
            await self._server.stop(None)
        self.socket.unlink(missing_ok=True)

    async def _register(self, request: bytes, context: Any) -> bytes:
        if self.refuses or (self.refused and self.refused.encode() in request):
            await context.abort(grpc.StatusCode.UNKNOWN, "not you")
        (self.for_parts if names.GPU.encode() in request else self.requests).append(request)
        return b""

    async def until_registered(self, count: int) -> None:
        """Wait for so many registrations in all."""
        await waiting.eventually(lambda: len(self.requests) >= count, what="the plugin to register")


@pytest.fixture
async def registry(tmp_path: Path) -> AsyncIterator[Registry]:
    """Yield a kubelet that listens."""
    made = Registry(tmp_path / "kubelet.sock")
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def hangup() -> asyncio.Event:
    """Return what wakes when the process gets a SIGHUP."""
    return asyncio.Event()


@pytest.fixture
def known(request: pytest.FixtureRequest) -> Pods:
    """Return the pods of the node, of which there are none; a test may say that they are not known yet."""
    found = Pods()
    found.are_current = getattr(request, "param", True)
    return found


@pytest.fixture
async def changed() -> asyncio.Event:
    """Return what is set with each change of the plugin's condition."""
    return asyncio.Event()


@pytest.fixture
async def device_plugin(
    registry: Registry,
    known: Pods,
    hangup: asyncio.Event,
    changed: asyncio.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[plugin.DevicePlugin]:
    """Yield a plugin that runs, and that knows no card yet."""
    monkeypatch.setattr(plugin, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(plugin, "MOST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(plugin, "STABLE_SECONDS", 0.02)
    config = plugin.PluginConfig(registry.socket, Kubelet(), AnswerRules(PluginChoices(), MEANS))
    made = plugin.DevicePlugin(config, "n1", known, hangup, changed.set)
    running = asyncio.create_task(made.run())
    yield made
    await tasks.end([running])


def registration(resource: str) -> bytes:
    """Return what the plugin says of a resource."""
    endpoint = f"berth-{resource.replace('/', '-')}.sock"
    return field(1, "v1beta1") + field(2, endpoint) + field(3, resource) + field(4, b"\x10\x01")


async def test_each_resource_is_registered_once_its_cards_are_known(
    registry: Registry, device_plugin: plugin.DevicePlugin
) -> None:
    """Another one that comes later is registered then, and the first is left alone."""
    await asyncio.sleep(0.05)
    assert registry.requests == []
    device_plugin.set_state(NodeState(CARDS))
    await registry.until_registered(1)
    assert registry.requests == [registration(GPU)]
    await waiting.eventually(lambda: registry.for_parts, what="the plugin to register parts of cards")
    assert registry.for_parts == [registration(names.GPU)]

    device_plugin.set_state(NodeState((*CARDS, SPLIT)))
    await registry.until_registered(2)
    assert registry.requests == [registration(GPU), registration(SHARED)]


async def test_a_plugin_is_not_ready_before_it_is_registered(
    registry: Registry, device_plugin: plugin.DevicePlugin, changed: asyncio.Event
) -> None:
    """A kubelet that nobody serves fails pods. As soon as that has changed it is told."""
    assert device_plugin.condition().message == "The cards have not been read yet."
    device_plugin.set_state(NodeState(CARDS))
    assert "nvidia.com/gpu has not been registered yet" in device_plugin.condition().message
    await registry.until_registered(1)

    async def ready() -> bool:
        await changed.wait()
        changed.clear()
        return device_plugin.condition().status == "True"

    await waiting.eventually(ready, what="the condition")


async def test_a_plugin_that_ends_says_so_first_and_then_waits_for_the_pods_that_have_come(
    registry: Registry,
    known: Pods,
    device_plugin: plugin.DevicePlugin,
    changed: asyncio.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until it is published that it ends, more may come."""
    monkeypatch.setattr(plugin, "BINDS_SECONDS", 0.02)
    device_plugin.set_state(NodeState(CARDS))
    await registry.until_registered(1)
    status = wire.DeviceStatus()
    changed.clear()

    ending = asyncio.create_task(device_plugin.end(lambda: status))
    await changed.wait()
    found = device_plugin.condition()
    assert (found.status, found.reason) == ("False", "Ending")
    await asyncio.sleep(0.1)
    assert not ending.done()
    known.all = [pod("p", {GPU: 1})]
    status = wire.DeviceStatus(conditions=(found,))
    await asyncio.sleep(0.1)
    assert not ending.done()
    device_plugin.set_listed((listed("p", ["GPU-0"]),))
    await asyncio.wait_for(ending, 5)


async def test_devices_are_streamed_as_they_change(
    registry: Registry, device_plugin: plugin.DevicePlugin
) -> None:
    """A stream that ends has the plugin register again."""
    device_plugin.set_state(NodeState(CARDS[:1]))
    await registry.until_registered(1)
    async with grpc.aio.insecure_channel(
        f"unix:{registry.socket.parent / 'berth-nvidia.com-gpu.sock'}"
    ) as channel:
        stream = channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch")(b"")
        well = plugin_messages.listed([OfferedDevice("GPU-0", numa_node=0)])
        assert await stream.read() == well
        device_plugin.set_state(NodeState(CARDS[:1], sick={"GPU-0"}))
        assert await stream.read() == plugin_messages.listed([OfferedDevice("GPU-0", False, 0)])
        options = channel.unary_unary("/v1beta1.DevicePlugin/GetDevicePluginOptions")
        assert await options(b"") == b"\x10\x01"
        with pytest.raises(grpc.aio.AioRpcError, match="Berth: the node has no card GPU-9 now"):
            await channel.unary_unary("/v1beta1.DevicePlugin/Allocate")(field(1, field(1, "GPU-9")))
        with pytest.raises(grpc.aio.AioRpcError, match="Berth: "):
            await channel.unary_unary("/v1beta1.DevicePlugin/Allocate")(b"\xff")
        stream.cancel()
    await registry.until_registered(2)


async def test_of_two_streams_the_slower_one_misses_nothing(tmp_path: Path) -> None:
    """A kubelet that asks anew may still read the stream that it had."""
    server = PluginServer(tmp_path / "kubelet.sock", GPU, Node(*CARDS).answers)
    well, sick = (OfferedDevice("GPU-0"),), (OfferedDevice("GPU-0", False),)
    server.offer(well)
    slow, fast = server._list(b"", None), server._list(b"", None)
    for stream in (slow, fast):
        assert await anext(stream) == plugin_messages.listed(well)
    further = asyncio.ensure_future(anext(fast))
    await asyncio.sleep(0)
    server.offer(sick)
    assert await further == plugin_messages.listed(sick)
    waiting_for_more = asyncio.ensure_future(anext(fast))
    await asyncio.sleep(0)

    async with asyncio.timeout(5):
        assert await anext(slow) == plugin_messages.listed(sick)
    await tasks.end([waiting_for_more])


async def test_a_kubelet_that_starts_anew_is_registered_with(
    registry: Registry, device_plugin: plugin.DevicePlugin, caplog: pytest.LogCaptureFixture
) -> None:
    """Twice in a row, and where it refuses at first."""
    device_plugin.set_state(NodeState(CARDS))
    await registry.until_registered(1)
    for count in (2, 3):
        await registry.stop()
        await registry.start()
        await registry.until_registered(count)

    await registry.stop()
    registry.refuses = True
    await registry.start()
    await waiting.eventually(
        lambda: "takes no device plugin for nvidia.com/gpu (attempt 1)" in caplog.text, what="a refusal"
    )
    condition = device_plugin.condition()
    assert (condition.status, condition.reason) == ("False", "NotRegistered")
    assert "not you" in condition.message
    registry.refuses = False
    await registry.until_registered(4)
    await waiting.eventually(lambda: device_plugin.condition().status == "True", what="the condition")
    assert device_plugin.condition().message == "The kubelet counts berth.dev/gpu, nvidia.com/gpu."
    assert "not you" in caplog.text


async def test_with_a_hangup_everything_is_served_anew(
    registry: Registry, device_plugin: plugin.DevicePlugin, hangup: asyncio.Event
) -> None:
    """As often as it comes."""
    device_plugin.set_state(NodeState(CARDS))
    for count in (1, 2, 3):
        await registry.until_registered(count)
        await asyncio.sleep(0.05)
        hangup.set()
        hangup.clear()
    await registry.until_registered(4)


@pytest.mark.parametrize("by", ["a hangup", "a kubelet that starts"])
async def test_what_is_served_anew_soon_after_a_registration_was_not_dropped(
    registry: Registry,
    device_plugin: plugin.DevicePlugin,
    hangup: asyncio.Event,
    changed: asyncio.Event,
    monkeypatch: pytest.MonkeyPatch,
    by: str,
) -> None:
    """The condition says all the while that the kubelet counts the resource."""
    monkeypatch.setattr(plugin, "STABLE_SECONDS", 60.0)
    device_plugin.set_state(NodeState(CARDS))
    await waiting.eventually(lambda: device_plugin.condition().status == "True", what="the condition")
    await asyncio.sleep(0.05)
    changed.clear()

    if by == "a hangup":
        hangup.set()
        hangup.clear()
    else:
        await registry.stop()
        await registry.start()
    await registry.until_registered(2)

    assert not changed.is_set()
    assert device_plugin.condition().status == "True"


async def test_a_folder_in_which_nothing_can_be_served_is_told_and_tried_again(
    registry: Registry, device_plugin: plugin.DevicePlugin, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as one where something else has the name of the socket."""
    taken = registry.socket.parent / "berth-nvidia.com-gpu.sock"
    taken.mkdir()
    device_plugin.set_state(NodeState(CARDS))
    await waiting.eventually(
        lambda: "takes no device plugin for nvidia.com/gpu (attempt 1)" in caplog.text, what="a warning"
    )

    taken.rmdir()

    await registry.until_registered(1)


@pytest.mark.parametrize("known", [False], indirect=True)
async def test_nothing_is_offered_before_the_pods_are_known(
    registry: Registry, device_plugin: plugin.DevicePlugin, known: Pods
) -> None:
    """A card may have been promised to one of them."""
    device_plugin.set_state(NodeState(CARDS))
    await asyncio.sleep(0.1)
    assert registry.requests == []

    known.are_current = True

    await registry.until_registered(1)


async def test_a_resource_that_is_refused_takes_no_other_down(
    registry: Registry, device_plugin: plugin.DevicePlugin
) -> None:
    """The others stay registered."""
    registry.refused = SHARED
    device_plugin.set_state(NodeState((*CARDS, SPLIT)))
    await registry.until_registered(1)
    await asyncio.sleep(0.3)

    assert registry.requests == [registration(GPU)]
    assert SHARED in device_plugin.condition().message


async def test_a_plugin_that_is_taken_and_lost_at_once_pauses(
    registry: Registry, device_plugin: plugin.DevicePlugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where two agents take each other's place."""
    monkeypatch.setattr(plugin, "STABLE_SECONDS", 60.0)
    monkeypatch.setattr(plugin, "MOST_PAUSE_SECONDS", 60.0)
    device_plugin.set_state(NodeState(CARDS))
    await registry.until_registered(1)
    await asyncio.sleep(0.05)
    async with grpc.aio.insecure_channel(
        f"unix:{registry.socket.parent / 'berth-nvidia.com-gpu.sock'}"
    ) as channel:
        stream = channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch")(b"")
        await stream.read()
        stream.cancel()

    await waiting.eventually(lambda: "dropped at once" in device_plugin.condition().message, what="the loss")
    assert len(registry.requests) == 1


async def test_what_the_kubelet_asks_is_answered_before_serving_ends(
    registry: Registry,
    device_plugin: plugin.DevicePlugin,
    hangup: asyncio.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its pod would fail for good otherwise."""
    monkeypatch.setattr(answers, "FOUND_SECONDS", 0.4)
    device_plugin.set_state(NodeState(CARDS))
    await registry.until_registered(1)
    async with grpc.aio.insecure_channel(
        f"unix:{registry.socket.parent / 'berth-nvidia.com-gpu.sock'}"
    ) as channel:
        allocate = channel.unary_unary("/v1beta1.DevicePlugin/Allocate")
        asked = allocate(field(1, field(1, "GPU-0")))
        await asyncio.sleep(0.1)
        hangup.set()
        hangup.clear()

        assert b"GPU-0" in await asked
    await registry.until_registered(2)
