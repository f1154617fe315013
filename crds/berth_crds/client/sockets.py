"""The sockets of a client, so that none of its connections outlives it.

asyncio closes a connection that is given up, while it is made or in the middle of an answer,
only later: TLS sends its last message and waits for the other side. A loop that ends before that
leaves the socket open.

uvloop closes a socket by the number of its descriptor. If the other side has reset the connection before TLS
could begin, it does so without telling the socket, and soon the number is that of another connection. A
socket made here then leaves that one alone (`OwnSocket`): any other would close it when it is collected as
garbage.
"""

import asyncio
import contextlib
import os
import socket
import weakref
from collections.abc import Iterator
from typing import Final

import aiohttp

LINGER_SECONDS: Final = 2.0
TURN_SECONDS: Final = 0.01
FEWEST_TURNS: Final = 3


class OwnSocket(socket.socket):
    """A socket that touches its descriptor only as long as that is its own."""

    __slots__ = ("_identity",)

    def __init__(self, family: int, kind: int, proto: int) -> None:
        self._identity: tuple[int, int] | None = None
        super().__init__(family, kind, proto)
        self._identity = _identity(self.fileno())

    @property
    def is_open(self) -> bool:
        """Whether the descriptor is open and belongs to this socket."""
        return self.fileno() >= 0 and _identity(self.fileno()) == self._identity

    def shutdown(self, how: int) -> None:
        """End the connection."""
        self._let_go_unless_open()
        super().shutdown(how)

    def close(self) -> None:
        """Close the socket."""
        self._let_go_unless_open()
        super().close()

    def __del__(self) -> None:
        """Close the socket if nobody has."""
        self._let_go_unless_open()
        super().__del__()  # type: ignore[misc]  # Where it is still open, this warns, and closes it.

    def _let_go_unless_open(self) -> None:
        if self.fileno() >= 0 and not self.is_open:
            self.detach()


def _identity(descriptor: int) -> tuple[int, int] | None:
    """Return what tells an open file from all others that are open; None if it is closed."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Sockets:
    """Makes the sockets of a client, and closes them all."""

    def __init__(self) -> None:
        self._made: weakref.WeakSet[OwnSocket] = weakref.WeakSet()

    def __iter__(self) -> Iterator[OwnSocket]:
        """Iterate over those that are still referenced."""
        return iter(self._made)

    def make(self, address: aiohttp.AddrInfoType) -> OwnSocket:
        """Make a socket for a connection, and remember it."""
        made = new_socket(address)
        self._made.add(made)
        return made

    async def close(self) -> None:
        """Close all connections, also those that are only being made, and wait for that a short time."""
        for each in self._made:
            shut_down(each)
        for turn in range(int(LINGER_SECONDS / TURN_SECONDS)):
            if turn >= FEWEST_TURNS and not any(each.is_open for each in self._made):
                return
            await asyncio.sleep(TURN_SECONDS)


def new_socket(address: aiohttp.AddrInfoType) -> OwnSocket:
    """Return a socket that is not connected yet."""
    family, kind, proto, *_ = address
    return OwnSocket(family, kind, proto)


def shut_down(connected: socket.socket) -> None:
    """End a connection for both sides; the owner of the socket then closes it."""
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
