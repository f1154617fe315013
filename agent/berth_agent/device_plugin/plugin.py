"""Serves all resources of a node to its kubelet, and again whenever the kubelet has forgotten them."""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, Never

from berth_agent import backoff, device_status
from berth_agent.device_plugin.answers import AnswerRules, NodeState, PluginAnswers
from berth_agent.kubelet import plugin_server, podresources
from berth_agent.kubelet.plugin_server import PluginServer
from berth_agent.way import NodePods, Way
from berth_crds import tasks, vocabulary, wire

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 0.25  # Between two looks whether the kubelet was started again.
MOST_PAUSE_SECONDS: Final = 10.0
BINDS_SECONDS: Final = 0.5  # Within these, binds that were under way have come here.
STABLE_SECONDS: Final = 5.0  # Two agents on one node would else take each other's place without an end.
ENDING: Final = "The agent is shutting down: the kubelet can give out no cards until the next one registers."


@dataclasses.dataclass(frozen=True, slots=True)
class PluginConfig:
    """The kubelet's socket for plugins, who lists what it gave to whom, and what containers get."""

    socket: Path
    kubelet: podresources.PodResourcesLister
    rules: AnswerRules


class DevicePlugin(Way):
    """The device plugin of one node."""

    def __init__(
        self,
        config: PluginConfig,
        node: str,
        pods: NodePods,
        hangup: asyncio.Event,
        on_change: Callable[[], None],
    ) -> None:
        """With each `hangup` everything is served anew, as operators of NVIDIA's plugin expect of SIGHUP.

        What the condition says has changed at each `on_change`.
        """
        self._on_change = on_change
        self._hangup = hangup
        self._socket = config.socket
        self._node = node
        self._answers = PluginAnswers(node, config.rules, config.kubelet, pods)
        self._pods = pods
        self._servers: dict[str, PluginServer] = {}
        self._failures: dict[str, str] = {}  # By resource; empty where the kubelet has taken it.
        self._resources_changed = asyncio.Event()
        self._refresh_is_due = False
        self._is_ending = False
        self._cards_are_known = False

    async def end(self, published: Callable[[], wire.DeviceStatus]) -> None:
        """Have it published that the kubelet will be served no more; return when it has no pod to admit.

        A kubelet that nobody serves fails the pods that ask for cards.
        """
        self._is_ending = True
        self._on_change()
        await self._until(lambda: any(one.message == ENDING for one in published().conditions))
        await asyncio.sleep(BINDS_SECONDS)
        await self._until(lambda: not any(self._answers.awaiting()))

    async def _until(self, holds: Callable[[], bool]) -> None:
        while True:
            if holds():
                return
            await asyncio.sleep(CHECK_SECONDS)

    def set_device(self, spec: wire.DeviceSpec, unusable: Collection[str]) -> None:
        """Offer the cards of the node, those that are sick or cordoned as unhealthy."""
        self.set_state(NodeState(spec.devices, spec.partitions, frozenset(unusable), spec.gpu_stands_for))

    def set_state(self, state: NodeState) -> None:
        """Set the cards of the node, and offer them."""
        self._cards_are_known = True
        self._answers.state = state
        self._refresh()

    def set_listed(self, listed: tuple[podresources.ListedPod, ...]) -> None:
        """Set what the kubelet lists as given."""
        self._answers.listed = listed
        self._refresh()

    def pods_changed(self) -> None:
        """Offer what is free now, once for all changes of this moment."""
        if not self._refresh_is_due:
            self._refresh_is_due = True
            asyncio.get_running_loop().call_soon(self._refresh)

    def _refresh(self) -> None:
        self._refresh_is_due = False
        self._answers.note_pods()
        found = self._answers.offers()
        for resource, server in self._servers.items():
            server.offer(found.get(resource, ()))
        if set(found) - set(self._servers):
            self._resources_changed.set()

    def condition(self) -> wire.Condition:
        """Return whether the kubelet has taken all resources; it has no time yet."""
        resources = ", ".join(sorted(self._servers)) or "nothing, for the node has no cards"
        message = f"The kubelet counts {resources}."
        kind = vocabulary.DeviceCondition.DEVICE_PLUGIN_READY
        failed = "Ending" if self._is_ending else "NotRegistered"
        return device_status.ready_or_not(
            kind, self._failure(), failed=failed, fine="Registered", message=message
        )

    def _failure(self) -> str:
        if self._is_ending:
            return ENDING
        if not self._cards_are_known:
            return "The cards have not been read yet."
        failures = (self._failures.get(one, _not_registered(one)) for one in sorted(self._resources()))
        return "; ".join(filter(None, failures))

    def _note(self, resource: str, failure: str) -> None:
        """Note why the kubelet has not taken a resource, empty where it has."""
        if self._failures.get(resource) != failure:
            self._failures[resource] = failure
            self._on_change()

    async def run(self) -> Never:
        """Serve each resource from when it is there; one of which all cards are gone has no devices."""
        await self._pods_known()
        async with asyncio.TaskGroup() as group:
            while True:
                self._resources_changed.clear()
                for resource in self._resources() - set(self._servers):
                    server = self._servers[resource] = PluginServer(self._socket, resource, self._answers)
                    group.create_task(self._keep(resource, server), name=f"{resource} of {self._node}")
                self._refresh()
                await self._resources_changed.wait()

    async def _pods_known(self) -> None:
        """Wait until all pods of the node are known: what they were promised must not be offered."""
        await self._until(lambda: self._pods.are_current)

    def _resources(self) -> set[str]:
        return {one.resource for one in self._answers.state.countable()}

    async def _keep(self, resource: str, server: PluginServer) -> Never:
        """Serve a resource, and serve it anew whenever the kubelet was started again or lost our stream."""
        subject = f"node {self._node}: the kubelet takes no device plugin for {resource}"
        failure_log, time = backoff.FailureLog(log, subject), asyncio.get_running_loop().time
        self._note(resource, _not_registered(resource))
        while True:
            before, began = _made(self._socket), time()
            try:
                was_dropped = await self._serve_once(resource, server, before)
                if is_stable := time() - began >= STABLE_SECONDS:
                    failure_log.succeeded()
                if is_stable or not was_dropped:
                    continue
                error: Exception = OSError(f"{resource}: the registration was accepted, and dropped at once")
            except (plugin_server.RegistrationError, OSError, RuntimeError) as failure:
                # gRPC says with a RuntimeError that it cannot listen at a socket.
                error = failure
            self._note(resource, f"{error}")
            pause = failure_log.failed(error, most=MOST_PAUSE_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._kubelet_started(before)

    async def _serve_once(self, resource: str, server: PluginServer, before: int) -> bool:
        """Serve a resource until that has to be done anew; return whether only the kubelet has dropped it."""
        async with server.serving():
            self._note(resource, "")
            log.info("node %s: registered %s with the kubelet", self._node, resource)
            dropped = asyncio.create_task(server.stream_ended.wait())
            waits = [
                asyncio.create_task(self._hangup.wait()),
                asyncio.create_task(self._kubelet_started(before)),
                dropped,
            ]
            try:
                done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await tasks.end(waits)
        return done == {dropped}

    async def _kubelet_started(self, before: int) -> None:
        """Wait until the kubelet has made its socket anew."""
        while True:
            now = _made(self._socket)
            if now and now != before:
                return
            await asyncio.sleep(CHECK_SECONDS)


def _not_registered(resource: str) -> str:
    return f"{resource} has not been registered yet"


def _made(path: Path) -> int:
    """Return a number that differs for each file that is made at a path; zero for none."""
    try:
        found = path.stat()
    except OSError:
        return 0
    return hash((found.st_ino, found.st_ctime_ns)) or 1
