"""Keeps the connection to the container runtime, and gives each container of Berth's what was decided for it.

A container whose decision cannot be carried out is not made: the kubelet says why in an Event of the pod, and
tries again. Containers that were made while the agent was away keep what they have.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Never

from berth_agent import backoff, device_status
from berth_agent.delivery.containers import Delivery, Undeliverable
from berth_agent.nri import frames, messages
from berth_agent.protobuf import Malformed
from berth_agent.way import Way
from berth_crds import tasks, vocabulary, wire

log = logging.getLogger(__name__)

NAME: Final = "berth"
INDEX: Final = "50"
REGISTRATION_SECONDS: Final = 5.0  # The runtime waits no longer either.
MOST_PAUSE_SECONDS: Final = 5.0

Deliver = Callable[[messages.NewContainer], Awaitable[Delivery | None]]


class NriPlugin(Way):
    """The plugin at one socket of the runtime."""

    def __init__(self, socket: Path, node: str, deliver: Deliver) -> None:
        self._socket = socket
        self._node = node
        self._deliver = deliver
        self._failure_log = backoff.FailureLog(
            log, f"node {node}: not connected to NRI, so containers get no cards"
        )
        self._failure = "It has not been connected to yet."

    async def run(self) -> Never:
        """Connect again whenever the runtime goes away."""
        while True:
            try:
                await self._session()
            except (OSError, EOFError, Malformed, frames.CallFailed, TimeoutError) as error:
                why = OSError(f"{self._socket}: {error or type(error).__name__}")
                self._failure = f"{why}"
                await asyncio.sleep(self._failure_log.failed(why, most=MOST_PAUSE_SECONDS))

    def condition(self) -> wire.Condition:
        """Return whether containers are adjusted; it has no time yet."""
        message = f"Each container is adjusted as the runtime at {self._socket} makes it."
        kind = vocabulary.DeviceCondition.NRI_READY
        return device_status.ready_or_not(
            kind, self._failure, failed="NotConnected", fine="Connected", message=message
        )

    async def _session(self) -> None:
        """Register, and answer until the connection ends."""
        reader, writer = await asyncio.open_unix_connection(self._socket)
        connection = frames.Connection(reader, writer, self._answer)
        serving = asyncio.create_task(connection.serve())
        try:
            async with asyncio.timeout(REGISTRATION_SECONDS):
                await connection.call(messages.RUNTIME, "RegisterPlugin", messages.register(NAME, INDEX))
            await serving
        finally:
            await tasks.end([serving])
            writer.close()

    async def _answer(self, method: str, request: bytes) -> bytes:
        match method:
            case "Configure":
                return messages.configured(messages.CREATE_CONTAINER)
            case "Synchronize":
                self._failure_log.succeeded()
                self._failure = ""
                log.info("node %s: containers are adjusted by way of %s", self._node, self._socket)
                return messages.synchronized(request)
            case "CreateContainer":
                return await self._create(messages.new_container(request))
            case _:
                return b""

    async def _create(self, container: messages.NewContainer) -> bytes:
        try:
            delivery = await self._deliver(container)
        except Undeliverable as error:
            log.warning(
                "container %s of pod %s/%s is not created: %s",
                container.name,
                container.namespace,
                container.pod,
                error,
            )
            raise frames.CallFailed(f"Berth: {error}") from error
        return messages.adjusted(delivery) if delivery is not None else b""
