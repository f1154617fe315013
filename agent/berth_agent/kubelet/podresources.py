"""Asks the kubelet which devices it gave to which containers.

The kubelet answers on a unix socket, the API `v1`, or `v1alpha1` where it is older. It
counts the questions of everybody on the node together and turns away what is too much,
so who asks here asks seldom. Each question has a deadline, and whatever goes wrong is
one `Refused`: how long to wait then, and what to say of it, is left to the caller.

An answer names pods by namespace and name, never by uid, and older kubelets list pods
that have ended as well. Both are for the reader to judge by the pods themselves.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

import grpc
import grpc.aio

from berth_agent.kubelet import messages
from berth_crds import text

SOCKET: Final = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
CALM_SECONDS: Final = 2.0
LARGEST_ANSWER: Final = 16 * 1024 * 1024  # What the kubelet's own clients take; gRPC's default is 4 MiB.


class Trouble(StrEnum):
    """Why the kubelet gave no answer that can be used; the reason of the condition."""

    UNREACHABLE = "Unreachable"
    HUNG = "Hung"
    THROTTLED = "Throttled"
    NOT_SERVED = "NotServed"
    TOO_LARGE = "TooLarge"
    UNREADABLE = "Unreadable"
    FAILED = "Failed"


class Refused(Exception):
    """The kubelet gave no answer that can be used; the message is one sentence.

    `retry_after` is how many seconds to wait at least: those who asked too often ask less.
    """

    def __init__(self, trouble: Trouble, sentence: str) -> None:
        super().__init__(text.line(sentence))
        self.trouble = trouble
        self.retry_after = CALM_SECONDS if trouble is Trouble.THROTTLED else 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Devices:
    """Devices of one resource, by the ids that their plugin gave them."""

    resource: str
    ids: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Container:
    """A container, and what the kubelet gave it."""

    name: str
    devices: tuple[Devices, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Pod:
    """A pod as the kubelet lists it."""

    namespace: str
    name: str
    containers: tuple[Container, ...] = ()


class Lister(Protocol):
    """Something that tells what the kubelet gave to whom."""

    async def pods(self) -> tuple[Pod, ...]:
        """Return them, or raise `Refused`."""

    async def close(self) -> None:
        """End."""


OPTIONS: Final = (
    ("grpc.max_receive_message_length", LARGEST_ANSWER),
    # Else gRPC sends the path of the socket as the authority, which some servers refuse.
    ("grpc.default_authority", "localhost"),
    # Channels would share what they know of an address, the pause after a failure included.
    ("grpc.use_local_subchannel_pool", 1),
)


class PodResources:
    """The kubelet's PodResources API, through one socket."""

    def __init__(self, socket: Path, *, deadline: float) -> None:
        self._socket = socket
        self._deadline = deadline
        self._channel: grpc.aio.Channel | None = None
        self._version = messages.VERSIONS[0]

    def __repr__(self) -> str:
        """Show the state in words."""
        return f"<PodResources {self._version} at {self._socket}>"

    async def pods(self) -> tuple[Pod, ...]:
        """List the pods of the node, or raise `Refused`."""
        try:
            return await self._any_version()
        except Refused:
            # A kubelet that was started again has a new socket under the old path. A fresh
            # channel goes there at once, where an old one would wait out a pause of its own.
            await self.close()
            self._version = messages.VERSIONS[0]
            raise

    async def close(self) -> None:
        """Hang up."""
        if self._channel is not None:
            channel, self._channel = self._channel, None
            await channel.close()

    async def _any_version(self) -> tuple[Pod, ...]:
        """Ask in the version that was understood last, and in older ones where that is not served."""
        newest = messages.VERSIONS.index(self._version)
        for version in messages.VERSIONS[newest:-1]:
            with contextlib.suppress(_NotServed):
                return await self._ask(version)
        return await self._ask(messages.VERSIONS[-1])

    async def _ask(self, version: str) -> tuple[Pod, ...]:
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(f"unix:{self._socket.absolute()}", options=OPTIONS)
        # The bytes are taken as they are and decoded here, so that an answer that is no such
        # message can be told from one that never came.
        call = self._channel.unary_unary(messages.method(version))
        try:
            body = await call(messages.LIST_REQUEST, timeout=self._deadline)
        except grpc.aio.AioRpcError as error:
            raise _refused(error, self._socket, self._deadline) from error
        # A large answer takes a second, in which the loop must go on.
        answer = await asyncio.to_thread(_read, body)
        self._version = version
        return answer


class _NotServed(Refused):
    """Nothing answers to this version of the API."""


# ---------------------------------------------------------------- reading


def _read(body: bytes) -> tuple[Pod, ...]:
    try:
        return tuple(map(_pod, messages.listed(body)))
    except messages.TooMuch as error:
        raise Refused(Trouble.TOO_LARGE, f"The kubelet's answer is not read: {error}.") from error
    except messages.Malformed as error:
        raise Refused(Trouble.UNREADABLE, f"The kubelet's answer cannot be read: {error}.") from error


def _pod(listed: messages.Message) -> Pod:
    return Pod(listed["namespace"], listed["name"], tuple(map(_container, listed["containers"])))


def _container(listed: messages.Message) -> Container:
    devices = (Devices(one["resource_name"], tuple(one["device_ids"])) for one in listed["devices"])
    return Container(listed["name"], tuple(devices))


# ---------------------------------------------------------------- what went wrong

# What the codes mean here; what is not listed has failed in a way that only the text tells.
TROUBLES: Final[Mapping[grpc.StatusCode, Trouble]] = {
    grpc.StatusCode.UNAVAILABLE: Trouble.UNREACHABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED: Trouble.HUNG,
    grpc.StatusCode.UNIMPLEMENTED: Trouble.NOT_SERVED,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Trouble.THROTTLED,
}
# gRPC says "too large" by the code that the kubelet says "too often" by.
TOO_LARGE: Final = "larger than max"


def _refused(error: grpc.aio.AioRpcError, socket: Path, deadline: float) -> Refused:
    details = error.details() or ""
    trouble = TROUBLES.get(error.code(), Trouble.FAILED)
    if trouble is Trouble.THROTTLED and TOO_LARGE in details:
        trouble = Trouble.TOO_LARGE
    kind = _NotServed if trouble is Trouble.NOT_SERVED else Refused
    return kind(trouble, _sentence(trouble, details, socket, deadline))


def _sentence(trouble: Trouble, details: str, socket: Path, deadline: float) -> str:
    match trouble:
        case Trouble.UNREACHABLE:
            return f"Nobody answers at {socket}."
        case Trouble.HUNG:
            return f"The kubelet has not answered within {deadline:g} s."
        case Trouble.THROTTLED:
            return "The kubelet is asked too often, by all who ask it together."
        case Trouble.NOT_SERVED:
            return f"The kubelet serves PodResources in none of {', '.join(messages.VERSIONS)}."
        case Trouble.TOO_LARGE:
            return f"The kubelet's answer is larger than {LARGEST_ANSWER} bytes."
        case _:
            return f"The kubelet refuses: {details}"
