"""Carries connections between two networks, by way of sockets that are files.

    python relay.py 127.0.0.1:8443=/tmp/some.sock    # from this network to the file,
    python relay.py /tmp/some.sock=127.0.0.1:6443    # and in the other network on from there

A process sees only its own network, but all see the same files. It forwards bytes and looks at none of them.
"""

import asyncio
import contextlib
import sys
from collections.abc import Coroutine
from typing import Any

CHUNK = 65536
LISTENS = "listens"


async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes one way until their sender has no more, or either end is gone."""
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()


async def listen(address: str, target: str) -> asyncio.Server:
    """Forward whatever is connected to an address to the target."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            back, onward = await connect(target)
            with contextlib.closing(onward):
                await asyncio.gather(forward(reader, onward), forward(back, writer))

    if address.startswith("/"):
        return await asyncio.start_unix_server(serve, address)
    host, _, port = address.rpartition(":")
    return await asyncio.start_server(serve, host, int(port))


def connect(target: str) -> Coroutine[Any, Any, tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect to an address."""
    if target.startswith("/"):
        return asyncio.open_unix_connection(target)
    host, _, port = target.rpartition(":")
    return asyncio.open_connection(host, int(port))


async def main(pairs: list[str]) -> None:
    """Listen at all addresses, say so, and forward for ever."""
    servers = [await listen(*pair.split("=", 1)) for pair in pairs]
    print(LISTENS, flush=True)
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
