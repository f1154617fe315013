"""Serves the agent's metrics, and an answer to whoever asks whether it lives.

Imported only where it is wanted: a server takes memory that most agents of a small cluster
can do without.
"""

import contextlib
from collections.abc import AsyncIterator

from aiohttp import web

from berth_agent import metrics, settings

GOODBYE_SECONDS = 1.0


@contextlib.asynccontextmanager
async def serving(address: str, collector: metrics.Collector) -> AsyncIterator[str]:
    """Serve at HOST:PORT while the block runs, and tell where; an address that cannot be had is refused."""
    host, _, port = address.rpartition(":")

    async def measured(_: web.Request) -> web.Response:
        return web.Response(body=metrics.text(collector), headers={"Content-Type": metrics.CONTENT_TYPE})

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="alive\n")

    app = web.Application()
    app.router.add_get("/metrics", measured)
    app.router.add_get("/healthz", alive)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=GOODBYE_SECONDS)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host.strip("[]"), int(port)).start()
        except (OSError, UnicodeError) as error:
            raise settings.Refused(
                f"--listen {address}: {getattr(error, 'strerror', '') or error}"
            ) from error
        where, chosen = runner.addresses[0][:2]
        yield f"{where}:{chosen}"
    finally:
        await runner.cleanup()
