"""A listening socket that knows what it accepted, so that a server can end without losing a connection."""

import asyncio
import contextlib
import socket
import weakref
from typing import Any, Final

LINGER_SECONDS: Final = 10.0


class ListeningSocket(socket.socket):
    """A socket that listens, and remembers what it accepted: whoever is still in the TLS handshake, too."""

    def __init__(self) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_STREAM)
        self._accepted: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._stopped = False

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection."""
        if self._stopped:
            raise BlockingIOError
        connection, address = super().accept()
        self._accepted.add(connection)
        return connection, address

    def stop(self) -> None:
        """Accept nothing any more; who connects now is reset when the socket is closed."""
        self._stopped = True

    async def stop_accepting(self) -> None:
        """Accept nothing any more, and wait until the server has what was accepted last.

        A connection that is accepted while a server ends is lost by asyncio.
        """
        self.stop()
        for _ in range(3):
            await asyncio.sleep(0)

    async def reset_accepted(self) -> None:
        """Reset the connections that are left, and wait until that is done."""
        for connection in list(self._accepted):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await self._all_closed()

    async def _all_closed(self) -> None:
        # No event tells of it.
        while any(socket_.fileno() >= 0 for socket_ in list(self._accepted)):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
