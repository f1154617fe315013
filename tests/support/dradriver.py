"""Plays a driver of dynamic resource allocation to a real kubelet: it prepares what a claim was allocated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

import grpc
import grpc.aio

from berth_agent import protobuf
from support.grpc_server import GrpcServer
from support.podresources import field
from testbed import waiting

DRA: Final = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
CLAIM_UID: Final = 2  # The field of a claim that has its uid.


class DraDriver(GrpcServer):
    """Gives the containers of each claim these devices, all of one pool, and opens none of them."""

    def __init__(self, kubelet: Path, name: str, pool: str, devices: Sequence[str]) -> None:
        self._name = name
        self._given = b"".join(field(1, field(2, pool) + field(3, device)) for device in devices)
        self._registration = kubelet / "plugins_registry" / f"{name}-reg.sock"
        self._socket = kubelet / "plugins" / f"{name}.sock"
        self._is_registered = False

    async def __aenter__(self) -> Self:
        """Serve both sockets; the kubelet watches the folder of the first, and registers the driver."""
        self._server = grpc.aio.server()
        self._serve(
            "pluginregistration.Registration",
            {"GetInfo": self._info, "NotifyRegistrationStatus": self._registered},
        )
        self._serve(DRA, {"NodePrepareResources": self._prepare, "NodeUnprepareResources": self._unprepare})
        for socket in (self._socket, self._registration):
            socket.parent.mkdir(parents=True, exist_ok=True)
            self._server.add_insecure_port(f"unix:{socket}")
        await self._server.start()
        await waiting.eventually(self._taken, what="the kubelet to take the driver", seconds=30)
        return self

    async def _taken(self) -> bool:
        return self._is_registered

    def _serve(self, service: str, methods: dict[str, Any]) -> None:
        assert self._server is not None
        handlers = {name: grpc.unary_unary_rpc_method_handler(method) for name, method in methods.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))

    async def _info(self, _request: bytes, _context: Any) -> bytes:
        return (
            field(1, "DRAPlugin")
            + field(2, self._name)
            + field(3, str(self._socket))
            + field(4, "v1.DRAPlugin")
        )

    async def _registered(self, _request: bytes, _context: Any) -> bytes:
        self._is_registered = True
        return b""

    async def _prepare(self, request: bytes, _context: Any) -> bytes:
        return b"".join(field(1, field(1, uid) + field(2, self._given)) for uid in _uids(request))

    async def _unprepare(self, request: bytes, _context: Any) -> bytes:
        return b"".join(field(1, field(1, uid) + field(2, b"")) for uid in _uids(request))


def _uids(request: bytes) -> list[str]:
    """Return the uids of the claims in a request."""
    claims = [value for _, value in protobuf.values(request, slice(0, len(request)))]
    return [
        protobuf.text(request[value])
        for claim in claims
        if isinstance(claim, slice)
        for number, value in protobuf.values(request, claim)
        if number == CLAIM_UID and isinstance(value, slice)
    ]
