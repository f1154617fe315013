"""Plays a device plugin to a real kubelet: it offers ids, and whatever the kubelet takes is given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Self

import grpc
import grpc.aio

from support.grpc_server import GrpcServer
from support.podresources import field
from testbed import waiting

VERSION = "v1beta1"
REGISTRY = "kubelet.sock"


class DevicePlugin(GrpcServer):
    """Offers devices of one resource."""

    def __init__(self, folder: Path, resource: str) -> None:
        self._folder = folder
        self._resource = resource
        self._socket = folder / "plugin.sock"
        self._ids: Sequence[str] = ()
        self._changed = asyncio.Event()
        self.env: dict[str, str] = {}  # What each container that is given a device gets.
        self.refusal = ""  # Why none is given any; empty where they are.

    async def __aenter__(self) -> Self:
        """Begin to serve, and register."""
        await self.start()
        return self

    async def start(self) -> None:
        """Serve at a fresh socket and register; a kubelet that starts knows no plugin."""
        if self._server is not None:
            await self._server.stop(None)
        self._socket.unlink(missing_ok=True)
        self._server = grpc.aio.server()
        methods = {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(_nothing),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._list),
            "Allocate": grpc.unary_unary_rpc_method_handler(self._allocate),
        }
        service = grpc.method_handlers_generic_handler(f"{VERSION}.DevicePlugin", methods)
        self._server.add_generic_rpc_handlers((service,))
        self._server.add_insecure_port(f"unix:{self._socket}")
        await self._server.start()
        await waiting.eventually(self._registered, what="the kubelet to take the plugin")

    def offers(self, *ids: str) -> None:
        """Offer these devices from now on."""
        self._ids = ids
        self._changed.set()

    async def _allocate(self, _request: bytes, context: Any) -> bytes:
        """Answer for the one container that a kubelet asks for at a time."""
        if self.refusal:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, self.refusal)
        envs = b"".join(field(1, field(1, name) + field(2, value)) for name, value in self.env.items())
        return field(1, envs)

    async def _registered(self) -> bool:
        request = field(1, VERSION) + field(2, self._socket.name) + field(3, self._resource)
        async with grpc.aio.insecure_channel(f"unix:{self._folder / REGISTRY}") as channel:
            try:
                await channel.unary_unary(f"/{VERSION}.Registration/Register")(request, timeout=5)
            except grpc.aio.AioRpcError:
                return False
        return True

    async def _list(self, _request: bytes, _context: Any) -> AsyncIterator[bytes]:
        while True:
            self._changed.clear()
            yield b"".join(field(1, field(1, one) + field(2, "Healthy")) for one in self._ids)
            await self._changed.wait()


async def _nothing(_request: bytes, _context: Any) -> bytes:
    return b""
