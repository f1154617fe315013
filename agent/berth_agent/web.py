"""Serves the agent's metrics and its liveness probe over HTTP.

Imported only where the settings ask for it: a server takes memory that most agents do not need.
The metrics have a library of their own, and are a parameter.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

from aiohttp import web

from berth_crds import flags, http_connections, http_server, text

ABOUT: Final = {"/healthz": "whether it is alive", "/metrics": "for Prometheus"}


@contextlib.asynccontextmanager
async def serving(
    address: str,
    *more: web.RouteDef,
    flag: str = "--listen",
    limits: http_connections.Limits = http_server.USUAL,
) -> AsyncIterator[str]:
    """Serve at HOST:PORT during the block, and yield the address; raise `Refused` if it cannot be used."""
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


async def _alive(_: web.Request) -> web.Response:
    return web.Response(text="alive\n")
