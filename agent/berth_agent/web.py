"""Serves the agent's metrics and its probes over HTTP.

Imported only where the settings ask for it: a server takes memory that most agents do not need.
The metrics have a library of their own, and are a parameter.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

from aiohttp import web

from berth_crds import flags, http_connections, http_server, text

ABOUT: Final = {
    "/healthz": "whether it is alive",
    "/readyz": "200 while what it publishes is current",
    "/metrics": "for Prometheus",
}


@contextlib.asynccontextmanager
async def serving(
    address: str,
    *more: web.RouteDef,
    flag: str = "--listen",
    limits: http_connections.Limits = http_server.USUAL,
) -> AsyncIterator[str]:
    """Serve at HOST:PORT during the block, and yield the address; raise `UsageError` if it cannot be used."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            routes = [web.get("/healthz", _alive), *more]
            index = http_server.listing("/", {route.path: ABOUT[route.path] for route in routes})
            where = await stack.enter_async_context(
                http_server.serving(address, [index, *routes], limits=limits)
            )
        except OSError as error:
            raise flags.UsageError(f"{flag} {address}: {text.cause(error)}") from error
        yield where


def metrics_route(text: Callable[[], bytes], content: str) -> web.RouteDef:
    """Return the route of the metrics."""
    recent = http_server.cached(text)

    async def measured(_: web.Request) -> web.Response:
        return web.Response(body=recent(), headers={"Content-Type": content})

    return web.get("/metrics", measured)


def ready_route(unready: Callable[[], str]) -> web.RouteDef:
    """Return the route that tells whether what is published is current, and why not (`NodeView.unready`)."""

    async def readyz(_: web.Request) -> web.Response:
        why = unready()
        return web.Response(text=f"{why or 'ready'}\n", status=503 if why else 200)

    return web.get("/readyz", readyz)


async def _alive(_: web.Request) -> web.Response:
    return web.Response(text="alive\n")
