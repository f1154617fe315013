"""The server: probes for everybody, the metrics, and whatever pages it is given.

`/healthz` answers as long as the loop that binds pods turns; `/readyz` once everything
has been read. Both tell the state in words, and are open, for a kubelet has no token.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from aiohttp import web

from berth_operator import metrics
from berth_operator.http_api import auth

METRICS: Final = "/metrics"
GOODBYE_SECONDS: Final = 1.0  # Whoever waits for a long page must not keep the process from ending.


@contextlib.asynccontextmanager
async def serve(
    address: str,
    *,
    ready: Callable[[], bool],
    state: Callable[[], str],
    more: Sequence[web.RouteDef] = (),
) -> AsyncIterator[None]:
    """Serve at HOST:PORT while the block runs; with an empty address, serve nothing."""
    if not address:
        yield
        return
    host, _, port = address.rpartition(":")
    app = application(ready=ready, state=state, more=more)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=GOODBYE_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, host.strip("[]"), int(port)).start()
        yield
    finally:
        await runner.cleanup()


def application(
    *, ready: Callable[[], bool], state: Callable[[], str], more: Sequence[web.RouteDef] = ()
) -> web.Application:
    """Make the application: the probes, and more routes."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text=f"{state()}\n")

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(text=f"{state()}\n", status=200 if ready() else 503)

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_routes(more)
    return app


def metrics_route(measured: metrics.Metrics, guard: auth.Guard | None) -> web.RouteDef:
    """Give the route of the metrics: without a guard they are open, for they name no pod."""

    async def show(_: web.Request) -> web.Response:
        return web.Response(body=measured.text(), headers={"Content-Type": metrics.CONTENT_TYPE})

    return web.get(METRICS, show) if guard is None else guard.protect(METRICS, show)
