"""Serves all resources of a node to its kubelet, and again whenever the kubelet has forgotten them."""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Final, Never

from berth_agent import backoff
from berth_agent.device_plugin import offers
from berth_agent.device_plugin.answers import AnswerRules, NodeState, PluginAnswers, Pods
from berth_agent.kubelet import plugin_server, podresources
from berth_agent.kubelet.plugin_server import PluginServer
from berth_crds import schema_limits, tasks, text, vocabulary, wire

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 0.25  # Between two looks whether the kubelet was started again.
MOST_PAUSE_SECONDS: Final = 10.0


@dataclasses.dataclass(frozen=True, slots=True)
class PluginConfig:
    """The kubelet's socket for plugins, who lists what it gave to whom, and what containers get."""

    socket: Path
    kubelet: podresources.PodResourcesLister
    rules: AnswerRules


class DevicePlugin:
    """The device plugin of one node."""

    def __init__(self, config: PluginConfig, node: str, pods: Pods, hangup: asyncio.Event) -> None:
        """With each `hangup` everything is served anew, as operators of NVIDIA's plugin expect of SIGHUP."""
        self._hangup = hangup
        self._socket = config.socket
        self._node = node
        self._answers = PluginAnswers(node, config.rules, config.kubelet, pods)
        self._servers: dict[str, PluginServer] = {}
        self._resources_changed = asyncio.Event()
        self._failure = "It has not registered yet."
        self._failure_log = backoff.FailureLog(log, f"node {node}: the kubelet takes no device plugin")

    def set_state(self, state: NodeState) -> None:
        """Set the cards of the node, and offer them."""
        self._answers.state = state
        self.refresh()

    def set_listed(self, listed: tuple[podresources.ListedPod, ...]) -> None:
        """Set what the kubelet lists as given."""
        self._answers.listed = listed
        self.refresh()

    def refresh(self) -> None:
        """Offer the devices as they are now; called also when pods have changed."""
        self._answers.note_pods()
        found = self._answers.offers()
        for resource, server in self._servers.items():
            server.offer(found.get(resource, ()))
        if set(found) - set(self._servers):
            self._resources_changed.set()

    def condition(self) -> wire.Condition:
        """Return whether the kubelet has taken all resources; it has no time yet."""
        kind = vocabulary.DeviceCondition.DEVICE_PLUGIN_READY
        if self._failure:
            message = text.line(self._failure, most=schema_limits.LONGEST_MESSAGE)
            return wire.Condition(kind, vocabulary.Truth.FALSE, "NotRegistered", message)
        resources = ", ".join(sorted(self._servers)) or "nothing, for the node has no cards"
        return wire.Condition(kind, vocabulary.Truth.TRUE, "Registered", f"The kubelet counts {resources}.")

    async def run(self) -> Never:
        """Serve, and serve anew whenever the kubelet was started again or lost a stream of ours."""
        while True:
            self._resources_changed.clear()
            self._servers = {resource: self._server(resource) for resource in self._resources()}
            self.refresh()
            before = _made(self._socket)
            try:
                await self._serve_once(before)
            except (plugin_server.RegistrationError, OSError, RuntimeError) as error:
                # gRPC says with a RuntimeError that it cannot listen at a socket.
                self._failure = f"{error}"
                pause = self._failure_log.failed(error, most=MOST_PAUSE_SECONDS)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._kubelet_started(before)

    def _resources(self) -> Collection[str]:
        return {device.resource for device in offers.countable(self._answers.state.cards)}

    def _server(self, resource: str) -> PluginServer:
        return PluginServer(self._socket, resource, self._answers)

    async def _serve_once(self, before: int) -> None:
        """Serve all resources until one has to be served anew, or there is another resource."""
        async with contextlib.AsyncExitStack() as stack:
            for server in self._servers.values():
                await stack.enter_async_context(server.serving())
            self._failure_log.succeeded()
            self._failure = ""
            if self._servers:
                log.info("node %s: the kubelet has taken %s", self._node, ", ".join(sorted(self._servers)))
            waits = [
                asyncio.create_task(self._resources_changed.wait()),
                asyncio.create_task(self._hangup.wait()),
                asyncio.create_task(self._kubelet_started(before)),
                *(asyncio.create_task(server.stream_ended.wait()) for server in self._servers.values()),
            ]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await tasks.end(waits)

    async def _kubelet_started(self, before: int) -> None:
        """Wait until the kubelet has made its socket anew."""
        while True:
            now = _made(self._socket)
            if now and now != before:
                return
            await asyncio.sleep(CHECK_SECONDS)


def _made(path: Path) -> int:
    """Return when a file was made; zero for none."""
    try:
        found = path.stat()
    except OSError:
        return 0
    return hash((found.st_ino, found.st_ctime_ns)) or 1
