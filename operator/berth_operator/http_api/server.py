"""The HTTP server: the probes, the metrics, and the pages.

`/healthz` answers as long as the loop that binds pods runs; `/readyz` is 200 once everything has
been read and the webhook, if there is one, can be asked. Both return the state in words (`app` finds
both out), and need no token, for a kubelet has none. `/` lists all paths.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from aiohttp import web

from berth_crds import http_connections, http_server, text
from berth_crds.client import errors
from berth_operator import metrics
from berth_operator.http_api import auth, pages

STATE_SECONDS: Final = 0.1  # The state is counted over all nodes, and anybody may request it.
METRICS: Final = "/metrics"
ABOUT: Final = {
    "/healthz": "whether it is alive, and its state in words",
    "/readyz": "the same; 200 once its picture is complete, and its webhook can be asked",
    METRICS: "for Prometheus",
    **pages.ABOUT,
}


@contextlib.asynccontextmanager
async def serve(
    address: str,
    *,
    ready: Callable[[], bool],
    state: Callable[[], str],
    more: Sequence[web.RouteDef] = (),
    limits: http_connections.Limits = http_server.USUAL,
) -> AsyncIterator[None]:
    """Serve the probes and more routes at HOST:PORT while the block runs; with an empty address, nothing."""
    if not address:
        yield
        return
    async with listening(address, all_routes(ready, state, more), limits=limits):
        yield


@contextlib.asynccontextmanager
async def listening(
    address: str,
    routes: Sequence[web.RouteDef],
    *,
    limits: http_connections.Limits,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[None]:
    """Serve routes at HOST:PORT while the block runs, or raise `Unusable` in one sentence."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(http_server.serving(address, routes, limits=limits, tls=tls))
        except OSError as error:
            raise errors.Unusable(f"{address} cannot be listened at: {text.cause(error)}.") from error
        yield


def all_routes(
    ready: Callable[[], bool], state: Callable[[], str], more: Sequence[web.RouteDef]
) -> list[web.RouteDef]:
    """Return the probes, more routes, and the page that lists them all."""
    routes = [*probes(ready, state), *more]
    paths = {route.path for route in routes}
    return [http_server.listing("/", {path: text for path, text in ABOUT.items() if path in paths}), *routes]


def probes(ready: Callable[[], bool], state: Callable[[], str]) -> list[web.RouteDef]:
    """Return the routes of the probes."""

    def line() -> bytes:
        return f"{state()}\n".encode()

    cached_line = http_server.cached(line, seconds=STATE_SECONDS)

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(body=cached_line(), content_type="text/plain", charset="utf-8")

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(
            body=cached_line(), content_type="text/plain", charset="utf-8", status=200 if ready() else 503
        )

    return [web.get("/healthz", healthz), web.get("/readyz", readyz)]


def metrics_route(measured: metrics.Metrics, guard: auth.Guard | None) -> web.RouteDef:
    """Return the route of the metrics: without a guard they are public, for they name no pod."""
    cached_text = http_server.cached(measured.text)

    async def show(_: web.Request) -> web.Response:
        return web.Response(body=cached_text(), headers={"Content-Type": metrics.CONTENT_TYPE})

    return web.get(METRICS, show) if guard is None else guard.protect(METRICS, show)
