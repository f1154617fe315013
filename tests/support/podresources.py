"""Plays the kubelet's side of PodResources, over gRPC on a unix socket, and misbehaves on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import grpc
import grpc.aio


class Claim(NamedTuple):
    """A ResourceClaim, and the driver that serves it."""

    title: str = "ml/card"
    driver: str = "gpu.nvidia.com"


# Pod "namespace/name", then container, then resource or claim, then ids or names of devices.
Given = Mapping[str | Claim, Sequence[str]]
Listed = Sequence[tuple[str, Mapping[str, Given]]]


def varint(number: int) -> bytes:
    """Write a number as protobuf does."""
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number: int, value: bytes | str) -> bytes:
    """Write one field of text or of a message, by hand: a second opinion on the numbers of the fields."""
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def answer(listed: Listed) -> bytes:
    """Write a ListPodResourcesResponse, with fields in it that Berth does not read."""
    return b"".join(field(1, _pod(title, containers)) for title, containers in listed)


def _pod(title: str, containers: Mapping[str, Given]) -> bytes:
    namespace, _, name = title.partition("/")
    written = b"".join(field(3, _container(one, given)) for one, given in containers.items())
    return field(1, name) + field(2, namespace) + written


def _container(name: str, given: Given) -> bytes:
    # As the kubelet does: one entry for each device, with the NUMA node behind it; then cpu_ids.
    entries = (
        field(1, resource) + field(2, one) + field(3, field(1, bytes([8, 0])))
        for resource, ids in given.items()
        if isinstance(resource, str)
        for one in ids
    )
    claims = (_claim(claim, devices) for claim, devices in given.items() if isinstance(claim, Claim))
    return (
        field(1, name)
        + b"".join(field(2, entry) for entry in entries)
        + field(3, bytes([1, 2]))
        + b"".join(field(5, claim) for claim in claims)
    )


def _claim(claim: Claim, devices: Sequence[str]) -> bytes:
    # As the kubelet does: CDI names first, then the driver, the pool, and the device; then a share's id.
    namespace, _, name = claim.title.partition("/")
    entries = (
        field(1, field(1, f"k8s.{claim.driver}/claim=u-{one}"))
        + field(2, claim.driver)
        + field(3, "n1")
        + field(4, one)
        + field(5, "share-1")
        for one in devices
    )
    return field(2, name) + field(3, namespace) + b"".join(field(4, entry) for entry in entries)


class Kubelet:
    """Serves `List` at a socket; what it says, and how, may be changed at any time."""

    def __init__(self, socket: Path, *, versions: Sequence[str] = ("v1", "v1alpha1")) -> None:
        self.socket = socket
        self.body = b""
        self.refusal: tuple[grpc.StatusCode, str] | None = None
        self.gate: asyncio.Event | None = None  # While it is there and not set, calls hang.
        self.asked: list[str] = []
        self._versions = versions
        self._server: grpc.aio.Server | None = None

    async def __aenter__(self) -> Self:
        """Begin to serve."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving."""
        await self.stop()

    async def start(self) -> None:
        """Serve at a fresh socket, as a kubelet does that was started again."""
        self.socket.unlink(missing_ok=True)
        self._server = grpc.aio.server()
        for version in self._versions:
            handler = grpc.unary_unary_rpc_method_handler(self._list(version))
            service = grpc.method_handlers_generic_handler(f"{version}.PodResourcesLister", {"List": handler})
            self._server.add_generic_rpc_handlers((service,))
        self._server.add_insecure_port(f"unix:{self.socket}")
        await self._server.start()

    async def stop(self) -> None:
        """Hang up on everybody."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    def says(self, listed: Listed) -> None:
        """Have it list these pods from now on."""
        self.body = answer(listed)

    def _list(self, version: str) -> Callable[[bytes, Any], Any]:
        async def called(request: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
            assert request == b""
            self.asked.append(version)
            if self.gate is not None:
                await self.gate.wait()
            if self.refusal is not None:
                await context.abort(*self.refusal)
            return self.body

        return called
