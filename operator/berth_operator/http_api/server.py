"""Probes: is the process alive, and is its picture complete.

`/healthz` answers as long as the loop that binds pods turns; `/readyz` once everything
has been read. Both tell the state in words.
"""

import contextlib
from collections.abc import AsyncIterator, Callable

from aiohttp import web


@contextlib.asynccontextmanager
async def serve(address: str, *, ready: Callable[[], bool], state: Callable[[], str]) -> AsyncIterator[None]:
    """Serve the probes at HOST:PORT while the block runs; with an empty address, serve nothing."""
    if not address:
        yield
        return
    host, _, port = address.rpartition(":")
    runner = web.AppRunner(application(ready=ready, state=state), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host.strip("[]"), int(port)).start()
        yield
    finally:
        await runner.cleanup()


def application(*, ready: Callable[[], bool], state: Callable[[], str]) -> web.Application:
    """Make the application."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text=f"{state()}\n")

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(text=f"{state()}\n", status=200 if ready() else 503)

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app
