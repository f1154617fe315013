"""A listening socket that knows who came in, so that a server can end without losing anybody."""

import asyncio
import contextlib
import socket
import weakref
from typing import Any, Final

LINGER_SECONDS: Final = 10.0


class Door(socket.socket):
    """A socket that listens, and remembers who came in: who is still greeting when it closes is nobody's."""

    def __init__(self) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_STREAM)
        self._guests: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._shut = False

    def accept(self) -> tuple[socket.socket, Any]:
        """Let somebody in."""
        if self._shut:
            raise BlockingIOError
        guest, address = super().accept()
        self._guests.add(guest)
        return guest, address

    async def shut(self) -> None:
        """Let nobody in any more, and wait until who came last has been received.

        Who comes in while a server ends is received by nobody: asyncio loses the connection.
        """
        self._shut = True
        for _ in range(3):
            await asyncio.sleep(0)

    async def empty(self) -> None:
        """Hang up on whoever is left, and wait until that is done."""
        for guest in list(self._guests):
            with contextlib.suppress(OSError):
                guest.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await self._emptied()

    async def _emptied(self) -> None:
        while any(guest.fileno() >= 0 for guest in list(self._guests)):  # noqa: ASYNC110  no event tells it
            await asyncio.sleep(0.005)
