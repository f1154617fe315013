"""Asks the kubelet which devices it gave to which containers.

The kubelet serves the API `v1` on a unix socket, or `v1alpha1` where it is older. It limits the
requests of all clients on the node together, so callers must ask rarely. Each request has a
deadline, and every failure is a `PodResourcesError`; how long to wait then is left to the caller.

An answer names pods by namespace and name, never by uid, and older kubelets also list pods that
have ended. The caller has to compare it with the pods themselves.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

import grpc
import grpc.aio
import msgspec

from berth_agent import protobuf
from berth_agent.kubelet import messages
from berth_crds import text

THROTTLED_PAUSE_SECONDS: Final = 2.0
LARGEST_ANSWER: Final = 16 * 1024 * 1024  # What the kubelet's own clients take; gRPC's default is 4 MiB.


class FailureReason(StrEnum):
    """Why the kubelet gave no usable answer; also the reason of the condition."""

    UNREACHABLE = "Unreachable"
    HUNG = "Hung"
    THROTTLED = "Throttled"
    NOT_SERVED = "NotServed"
    TOO_LARGE = "TooLarge"
    UNREADABLE = "Unreadable"
    FAILED = "Failed"


class PodResourcesError(Exception):
    """The kubelet gave no usable answer; the text of the error is one sentence.

    `retry_after` is how many seconds to wait at least, after too many requests.
    """

    def __init__(self, reason: FailureReason, sentence: str) -> None:
        super().__init__(text.line(sentence))
        self.reason = reason
        self.retry_after = THROTTLED_PAUSE_SECONDS if reason is FailureReason.THROTTLED else 0.0


class ListedDevices(msgspec.Struct, frozen=True, rename={"resource": "resource_name", "ids": "device_ids"}):
    """Devices of one resource, by the ids that their plugin gave them."""

    resource: str
    ids: tuple[str, ...]


class ClaimedDevice(msgspec.Struct, frozen=True, rename={"driver": "driver_name", "device": "device_name"}):
    """A device that a driver of dynamic resource allocation gave, by the name that the driver has for it."""

    driver: str
    device: str


class ListedClaim(
    msgspec.Struct,
    frozen=True,
    rename={"name": "claim_name", "namespace": "claim_namespace", "devices": "claim_resources"},
):
    """A ResourceClaim, and the devices that it brought to a container."""

    name: str
    namespace: str = ""
    devices: tuple[ClaimedDevice, ...] = ()


class ListedContainer(msgspec.Struct, frozen=True, rename={"claims": "dynamic_resources"}):
    """A container, and what the kubelet gave it: devices of plugins, and those of its claims."""

    name: str
    devices: tuple[ListedDevices, ...] = ()
    claims: tuple[ListedClaim, ...] = ()


class ListedPod(msgspec.Struct, frozen=True):
    """A pod as the kubelet lists it."""

    namespace: str
    name: str
    containers: tuple[ListedContainer, ...] = ()


class PodResourcesLister(Protocol):
    """A client that lists what the kubelet gave to which pods."""

    async def pods(self) -> tuple[ListedPod, ...]:
        """Return the pods, or raise `PodResourcesError`."""

    async def close(self) -> None:
        """Close the connection."""


OPTIONS: Final = (
    ("grpc.max_receive_message_length", LARGEST_ANSWER),
    # Otherwise gRPC sends the path of the socket as the authority, which some servers refuse.
    ("grpc.default_authority", "localhost"),
    # Otherwise channels share the state of an address, including the pause after a failure.
    ("grpc.use_local_subchannel_pool", 1),
)


class PodResourcesClient:
    """The kubelet's PodResources API, through one socket."""

    def __init__(self, socket: Path, *, deadline: float) -> None:
        self._socket = socket
        self._deadline = deadline
        self._channel: grpc.aio.Channel | None = None
        self._version = messages.VERSIONS[0]

    async def pods(self) -> tuple[ListedPod, ...]:
        """Return the pods of the node, or raise `PodResourcesError`."""
        try:
            return await self._any_version()
        except PodResourcesError:
            # A restarted kubelet has a new socket at the old path. A new channel connects to it at
            # once, while an old one would wait for a pause of its own.
            await self.close()
            self._version = messages.VERSIONS[0]
            raise

    async def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._channel is not None:
            channel, self._channel = self._channel, None
            await channel.close()

    async def _any_version(self) -> tuple[ListedPod, ...]:
        """Ask in the last served version, and in older ones where it is no longer served."""
        newest = messages.VERSIONS.index(self._version)
        for version in messages.VERSIONS[newest:-1]:
            with contextlib.suppress(_NotServed):
                return await self._ask(version)
        return await self._ask(messages.VERSIONS[-1])

    async def _ask(self, version: str) -> tuple[ListedPod, ...]:
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(f"unix:{self._socket.absolute()}", options=OPTIONS)
        # The bytes are decoded here and not by gRPC, to distinguish an answer that cannot be decoded
        # from one that never came.
        call = self._channel.unary_unary(messages.method(version))
        try:
            body = await call(messages.LIST_REQUEST, timeout=self._deadline)
        except grpc.aio.AioRpcError as error:
            raise _as_error(error, self._socket, self._deadline) from error
        # A large answer takes a second, in which the loop must go on.
        answer = await asyncio.to_thread(_read, body)
        self._version = version
        return answer


class _NotServed(PodResourcesError):
    """The kubelet does not serve this version of the API."""


# ---------------------------------------------------------------- reading


def _read(body: bytes) -> tuple[ListedPod, ...]:
    try:
        return tuple(msgspec.convert(pod, ListedPod) for pod in messages.listed(body))
    except messages.TooMuch as error:
        raise PodResourcesError(
            FailureReason.TOO_LARGE, f"The kubelet's answer is not read: {error}."
        ) from error
    except protobuf.Malformed as error:
        raise PodResourcesError(
            FailureReason.UNREADABLE, f"The kubelet's answer cannot be read: {error}."
        ) from error


# ---------------------------------------------------------------- what went wrong

# What the codes mean here, and the sentence for it.
FAILURES: Final[Mapping[grpc.StatusCode, tuple[FailureReason, str]]] = {
    grpc.StatusCode.UNAVAILABLE: (FailureReason.UNREACHABLE, "Nothing answers at {socket}."),
    grpc.StatusCode.DEADLINE_EXCEEDED: (
        FailureReason.HUNG,
        "The kubelet has not answered within {deadline:g} s.",
    ),
    grpc.StatusCode.UNIMPLEMENTED: (
        FailureReason.NOT_SERVED,
        f"The kubelet serves PodResources in none of {', '.join(messages.VERSIONS)}.",
    ),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (
        FailureReason.THROTTLED,
        "The kubelet is asked too often, by all who ask it together.",
    ),
}
# Of other codes only the text says what has failed.
REFUSED: Final = FailureReason.FAILED, "The kubelet refuses: {details}"
# gRPC uses the same code for "too large" as the kubelet for "too often".
TOO_LARGE: Final = FailureReason.TOO_LARGE, f"The kubelet's answer is larger than {LARGEST_ANSWER} bytes."


def _as_error(error: grpc.aio.AioRpcError, socket: Path, deadline: float) -> PodResourcesError:
    details = error.details() or ""
    reason, sentence = FAILURES.get(error.code(), REFUSED)
    if reason is FailureReason.THROTTLED and "larger than max" in details:
        reason, sentence = TOO_LARGE
    kind = _NotServed if reason is FailureReason.NOT_SERVED else PodResourcesError
    return kind(reason, sentence.format(socket=socket, deadline=deadline, details=details))
