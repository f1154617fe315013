"""The sockets of a client, so that none of its connections outlives it.

asyncio closes a connection that is given up, while it is made or in the middle of an answer,
only later: TLS sends its last message and waits for the other side. A loop that ends before that
leaves the socket open.
"""

import asyncio
import contextlib
import socket
import weakref
from collections.abc import Iterator
from typing import Final

import aiohttp

LINGER_SECONDS: Final = 2.0
TURN_SECONDS: Final = 0.01
FEWEST_TURNS: Final = 3


class Sockets:
    """Makes the sockets of a client, and closes them all."""

    def __init__(self) -> None:
        self._made: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def __iter__(self) -> Iterator[socket.socket]:
        """Iterate over those that are still referenced."""
        return iter(self._made)

    def make(self, address: aiohttp.AddrInfoType) -> socket.socket:
        """Make a socket for a connection, and remember it."""
        made = new_socket(address)
        self._made.add(made)
        return made

    async def close(self) -> None:
        """Close all connections, also those that are only being made, and wait for that a short time."""
        for each in self._made:
            shut_down(each)
        for turn in range(int(LINGER_SECONDS / TURN_SECONDS)):
            if turn >= FEWEST_TURNS and all(each.fileno() < 0 for each in self._made):
                return
            await asyncio.sleep(TURN_SECONDS)


def new_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket that is not connected yet."""
    family, kind, proto, *_ = address
    return socket.socket(family, kind, proto)


def shut_down(connected: socket.socket) -> None:
    """End a connection for both sides; the owner of the socket then closes it."""
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
