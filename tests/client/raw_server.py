"""A server that answers bytes, whether they are HTTP or not."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Self

CREATED = b"HTTP/1.1 201 Created\r\n"


class RawServer:
    """Answers each request with these pieces, as long as its client reads, and keeps count."""

    def __init__(self, pieces: Callable[[], Iterable[bytes]], *, hang_up: bool = False) -> None:
        self.requests: list[bytes] = []
        self.connections: list[asyncio.Task[None] | None] = []
        self._pieces = pieces
        self._hang_up = hang_up

    async def __aenter__(self) -> Self:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop, when all clients have hung up."""
        self._server.close()
        await asyncio.wait_for(asyncio.gather(*filter(None, self.connections)), 5)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(2) if b"Content-Length: 2\r\n" in head else b""
                self.requests.append(head + body)
                for piece in self._pieces():
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if self._hang_up:
                    break
        writer.transport.abort()
