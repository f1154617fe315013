"""Serves one resource to the kubelet as its device plugin, at a socket in the kubelet's folder.

The kubelet asks back while a plugin registers, so it is served first. A kubelet that starts removes all
sockets of its folder and knows no plugin; and it forgets a plugin whose stream of devices ends. In both
cases the plugin has to be served and to register again.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import grpc
import grpc.aio

from berth_agent import flag_table
from berth_agent.kubelet import plugin_messages
from berth_agent.kubelet.plugin_messages import ContainerResponse, OfferedDevice, Preference
from berth_agent.protobuf import Malformed

REGISTRATION_SECONDS: Final = 15.0  # The kubelet itself waits for 10 s.


class AllocationRefused(Exception):
    """A container cannot have the devices that the kubelet chose; its pod's event shows the text."""


class RegistrationError(Exception):
    """The kubelet did not take the plugin; the text is a clause."""


class Answers(Protocol):
    """Decides what the kubelet is answered."""

    async def preferred(self, resource: str, preference: Preference) -> Sequence[str]:
        """Return the ids that a container should get; empty for no preference."""

    async def allocated(self, resource: str, ids: tuple[str, ...]) -> ContainerResponse:
        """Return what a container gets with these devices, or raise `AllocationRefused`."""


class PluginServer:
    """The plugin of one resource, from one registration to the next."""

    def __init__(self, kubelet: Path, resource: str, answers: Answers) -> None:
        self._socket = kubelet.parent / f"berth-{resource.replace('/', '-')}.sock"
        self._kubelet = kubelet
        self._resource = resource
        self._answers = answers
        self._devices: tuple[OfferedDevice, ...] = ()
        self._changed = asyncio.Event()
        self._streams = 0
        self._asked = 0  # Questions that are being answered.
        self._idle = asyncio.Event()
        self._idle.set()
        self.stream_ended = asyncio.Event()

    def offer(self, devices: tuple[OfferedDevice, ...]) -> None:
        """Offer these devices from now on."""
        if devices != self._devices:
            self._devices = devices
            self._changed.set()
            # Whoever waits next waits for the next change, and no stream takes one from another.
            self._changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve and register meanwhile, or raise `RegistrationError`."""
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((self._handlers(),))
        self._socket.unlink(missing_ok=True)
        server.add_insecure_port(f"unix:{self._socket.absolute()}")
        await server.start()
        try:
            await self._register()
            yield
        finally:
            await self._drain()
            await server.stop(None)
            self._socket.unlink(missing_ok=True)

    async def _drain(self) -> None:
        """Wait until what the kubelet asks is answered: a pod whose question is cut off fails for good."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(flag_table.DRAIN_SECONDS):
                await self._idle.wait()

    async def _register(self) -> None:
        self.stream_ended.clear()
        request = plugin_messages.registration(self._socket.name, self._resource)
        try:
            async with grpc.aio.insecure_channel(f"unix:{self._kubelet.absolute()}") as channel:
                call = channel.unary_unary(plugin_messages.REGISTER)
                await call(request, timeout=REGISTRATION_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise RegistrationError(f"{self._resource} at {self._kubelet}: {error.details()}") from error

    def _handlers(self) -> Any:
        unary = grpc.unary_unary_rpc_method_handler
        methods = {
            "GetDevicePluginOptions": unary(_answering(_options)),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._list),
            "GetPreferredAllocation": unary(_answering(self._prefer)),
            "Allocate": unary(_answering(self._allocate)),
            "PreStartContainer": unary(_answering(_nothing)),
        }
        return grpc.method_handlers_generic_handler(plugin_messages.SERVICE, methods)

    async def _list(self, _request: bytes, _context: Any) -> AsyncIterator[bytes]:
        self._streams += 1
        sent: tuple[OfferedDevice, ...] | None = None
        try:
            while True:
                if self._devices == sent:
                    await self._changed.wait()
                else:
                    sent = self._devices
                    yield plugin_messages.listed(sent)
        finally:
            self._streams -= 1
            if not self._streams:
                self.stream_ended.set()

    @contextlib.contextmanager
    def _being_asked(self) -> Iterator[None]:
        self._asked += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._asked -= 1
            if not self._asked:
                self._idle.set()

    async def _prefer(self, request: bytes) -> bytes:
        with self._being_asked():
            asked = plugin_messages.preferences(request)
            return plugin_messages.preferred(
                [await self._answers.preferred(self._resource, one) for one in asked]
            )

    async def _allocate(self, request: bytes) -> bytes:
        with self._being_asked():
            chosen = plugin_messages.allocations(request)
            return plugin_messages.allocated(
                [await self._answers.allocated(self._resource, ids) for ids in chosen]
            )


async def _options(_request: bytes) -> bytes:
    return plugin_messages.OPTIONS


async def _nothing(_request: bytes) -> bytes:
    return b""


def _answering(answer: Callable[[bytes], Awaitable[bytes]]) -> Callable[[bytes, Any], Awaitable[bytes]]:
    """Return a handler whose failures reach the kubelet as sentences."""

    async def handler(request: bytes, context: Any) -> bytes:
        try:
            return await answer(request)
        except AllocationRefused as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"Berth: {error}")
        except Malformed as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"Berth: {error}")
        raise AssertionError("abort raises")

    return handler
