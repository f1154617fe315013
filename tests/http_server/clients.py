"""Clients that do what a browser never would: they stay idle, drip, send too much, or do not read."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

REQUEST = b"GET %s HTTP/1.1\r\nHost: here\r\n\r\n"
SOON = 20.0  # Seconds after which a test gives up, on a machine that is busy with other things.


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Send bytes, if the other side takes them."""
        with contextlib.suppress(ConnectionError):
            self._writer.write(data)
            await self._writer.drain()

    async def ask(self, path: str, head: bytes = b"") -> str:
        """Ask on this connection, and give the status line, or nothing where it was closed."""
        await self.send(head or REQUEST % path.encode())
        return await self.answer()

    async def answer(self) -> str:
        """Read the status line of an answer, and the answer; nothing where the connection was closed."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            async with asyncio.timeout(SOON):
                head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
                line, *fields = head.split("\r\n")
                lengths = [
                    one.partition(":")[2] for one in fields if one.lower().startswith("content-length:")
                ]
                await self._reader.readexactly(int(lengths[0]))
                return line.partition(" ")[2]
        return ""

    async def rest(self) -> int:
        """Read until the other side closes, and give how many bytes came."""
        count = 0
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(SOON):
                while part := await self._reader.read(1 << 16):
                    count += len(part)
        return count

    def close(self) -> None:
        """Go."""
        self._writer.close()


@contextlib.asynccontextmanager
async def connected(address: str, count: int = 1) -> AsyncIterator[list[Client]]:
    """Open so many connections, one after the other, and close them in the end."""
    host, _, port = address.rpartition(":")
    made: list[Client] = []
    try:
        while len(made) < count:
            # A small buffer, so that an answer that is not read stays with its sender.
            made.append(Client(*await asyncio.open_connection(host, int(port), limit=1 << 12)))
        yield made
    finally:
        for one in made:
            one.close()


async def ask(address: str, path: str = "/healthz") -> str:
    """Ask on a connection of its own, and give the status line."""
    async with connected(address) as [client]:
        return await client.ask(path)
