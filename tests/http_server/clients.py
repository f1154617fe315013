"""Clients that do what a browser never would: they stay idle, drip, send too much, or do not read."""

import asyncio
import contextlib
import re
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
        """Ask and read the answer; return its status line, or nothing where the connection was closed."""
        await self.send(head or REQUEST % path.encode())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            async with asyncio.timeout(SOON):
                answer = (await self._reader.readuntil(b"\r\n\r\n")).decode()
                length = re.search("\r\nContent-Length: (.+)\r\n", answer, re.IGNORECASE)
                await self._reader.readexactly(int(length[1]) if length else 0)
                return answer.partition("\r\n")[0].partition(" ")[2]
        return ""

    async def rest(self) -> int:
        """Read until the other side closes, and give how many bytes came."""
        count = 0
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(SOON):
                while part := await self._reader.read(1 << 16):
                    count += len(part)
        return count


@contextlib.asynccontextmanager
async def connected(address: str, count: int = 1) -> AsyncIterator[list[Client]]:
    """Open so many connections, one after the other, and close them in the end."""
    host, _, port = address.rpartition(":")
    async with contextlib.AsyncExitStack() as closing:
        made: list[Client] = []
        while len(made) < count:
            # A small buffer, so that an answer that is not read stays with its sender.
            reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 12)
            closing.callback(writer.close)
            made.append(Client(reader, writer))
        yield made


async def ask(address: str, path: str = "/healthz") -> str:
    """Ask on a connection of its own, and give the status line."""
    async with connected(address) as [client]:
        return await client.ask(path)
