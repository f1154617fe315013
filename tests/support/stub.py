"""A server that answers what a test scripts: for what a real API server shows too rarely.

    async with stub.Stub() as server:
        server.on("GET", "/api/v1/pods", stub.status(503, "overloaded"))
        async with api.Api(server.link, agent="test") as session: ...

Every route has a script of answers, of which the last is repeated. It speaks plain HTTP,
or TLS if it is given a context, and remembers the requests in the order in which they came.
"""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from berth_crds.client import connection

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
Thing = Mapping[str, Any]


class Stub:
    """One server, its scripts, and what it was asked."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self._scripts: dict[tuple[str, str], Answer] = {}
        self._url = ""

    async def __aenter__(self) -> Self:
        """Listen on a free port of this machine."""
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._serve)
        # Handlers end when their client is gone: a watch that nobody reads must not keep the test waiting.
        self._runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        scheme = "https" if self._tls else "http"
        self._url = f"{scheme}://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening, and end what is under way."""
        await self._runner.cleanup()

    @property
    def link(self) -> connection.Connection:
        """The way to this server, as nobody in particular."""
        return connection.Connection(server=self._url)

    def on(self, method: str, path: str, *answers: Answer) -> None:
        """Write the script of one route."""
        self._scripts[method, path] = in_turn(answers)

    def asked(self, **query: str) -> list[web.Request]:
        """Return the requests whose query has all these parameters."""
        return [request for request in self.requests if query.items() <= dict(request.query).items()]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        unscripted = status(404, "the test has no answer for this", reason="NotFound")
        return await self._scripts.get((request.method, request.path), unscripted)(request)


# ---------------------------------------------------------------- answers


def thing(body: Any, *, code: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Answer with this JSON."""
    return raw(json.dumps(body).encode(), code=code, headers=headers)


def raw(body: bytes, *, code: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Answer with these bytes, whatever they are."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body, status=code, headers=headers, content_type="application/json")

    return answer


def status(code: int, message: str, *, reason: str = "", headers: Mapping[str, str] | None = None) -> Answer:
    """Answer with an error, as the API server words it."""
    return thing(failure(code, message, reason=reason), code=code, headers=headers)


def failure(code: int, message: str, *, reason: str = "") -> dict[str, Any]:
    """Make a Status of a failure."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def page(*items: Thing, version: str, more: str = "") -> Answer:
    """Answer with one page of a list; `more` is the token of the next."""
    meta = {"resourceVersion": version, "continue": more}
    return thing({"kind": "List", "apiVersion": "v1", "metadata": meta, "items": list(items)})


def paged(items: Sequence[Thing], *, version: str) -> Answer:
    """Answer with as many items as the limit says, as the API server does, or with their metadata alone."""

    async def answer(request: web.Request) -> web.StreamResponse:
        start, limit = int(request.query.get("continue") or 0), int(request.query.get("limit") or 0)
        end = min(start + limit, len(items)) if limit else len(items)
        found = items[start:end]
        if "PartialObjectMetadata" in request.headers["Accept"]:
            found = [{"metadata": item["metadata"]} for item in found]
        return await page(*found, version=version, more=str(end) if end < len(items) else "")(request)

    return answer


def later(event: asyncio.Event, answer: Answer) -> Answer:
    """Answer when the event has happened."""

    async def delayed(request: web.Request) -> web.StreamResponse:
        await event.wait()
        return await answer(request)

    return delayed


def watch(*frames: Thing, until: asyncio.Event | None = None) -> Answer:
    """Answer with a stream of events; it ends at once, or when the event has happened."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for frame in frames:
            await response.write(json.dumps(frame).encode() + b"\n")
        if until is not None:
            await until.wait()
        return response

    return answer


def reset() -> Answer:
    """Hang up without an answer, when the request has been read."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return answer


def by_query(name: str, answers: Mapping[str, Answer]) -> Answer:
    """Choose the answer by a parameter of the query; an absent one is the empty word."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return await answers[request.query.get(name, "")](request)

    return answer


def in_turn(answers: Sequence[Answer]) -> Answer:
    """Answer with one after the other, and with the last for ever."""
    left = list(answers)

    async def answer(request: web.Request) -> web.StreamResponse:
        return await (left.pop(0) if len(left) > 1 else left[0])(request)

    return answer


def event(change: str, body: Any) -> dict[str, Any]:
    """Make one event of a watch."""
    return {"type": change, "object": body}
