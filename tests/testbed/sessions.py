"""Sessions of aiohttp of which no connection is left when they end."""

import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from berth_crds.client import sockets


@contextlib.asynccontextmanager
async def session(
    *server: str, tls: ssl.SSLContext | None, limit: int = 0, **options: Any
) -> AsyncIterator[aiohttp.ClientSession]:
    """Yield a session with so many connections, without a bound where that is 0."""
    mine = sockets.Sockets()
    connector = aiohttp.TCPConnector(ssl=tls or True, limit=limit, socket_factory=mine.make)
    try:
        async with aiohttp.ClientSession(*server, connector=connector, **options) as lent:
            yield lent
    finally:
        await mine.close()
