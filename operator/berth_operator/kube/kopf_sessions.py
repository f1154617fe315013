"""The HTTP sessions of Kopf with the API server.

Kopf reads the responses itself. These sessions give it the guarantees of our own client: each
request is authorized, responses are not compressed, bodies are limited as lists are, and a run of
Kopf that is over sends no request.
"""

import asyncio
import functools
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Self, cast

import aiohttp

from berth_crds.client import api, connection, errors, parser, sockets, watch
from berth_operator.kube import slim_objects

# Kopf computes long for each object, and binds need the processor, too. So it pauses after each page of a
# list but the last, and after so many events of a watch, which delays none where they are few.
PAUSE_SECONDS: Final = 0.05
EVENTS_IN_A_ROW: Final = 50


class WatchContent:
    """The body of a watch, with each of its events reduced for Kopf."""

    def __init__(self, path: str, content: aiohttp.StreamReader) -> None:
        self._path = path
        self._content = content

    def __getattr__(self, name: str) -> Any:
        """Return all other attributes of the wrapped content."""
        return getattr(self._content, name)

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        """Yield event after event, as far as a handler needs them."""
        passed = itertools.count(1)
        try:
            async for line in watch.lines(self._content):
                if reduced := slim_objects.event(self._path, line):
                    yield reduced + b"\n"
                    if next(passed) % EVENTS_IN_A_ROW == 0:
                        await asyncio.sleep(PAUSE_SECONDS)
        except errors.TooLarge as error:
            raise aiohttp.ClientPayloadError(str(error)) from error


class KopfResponse(aiohttp.ClientResponse):
    """A response whose body is limited, and whose watch events are reduced."""

    async def start(self, connection: aiohttp.connector.Connection) -> Self:
        """Read the headers, and wrap the body of a watch."""
        await super().start(connection)
        if self.ok and self.url.query.get("watch") == "true":
            self.content = cast("aiohttp.StreamReader", WatchContent(self.url.path, self.content))
        return self

    async def read(self) -> bytes:
        """Return the whole body; raise ClientPayloadError if it is too long."""
        if self._body is None:
            body = await api.read_beginning(self.content, parser.LONGEST_BODY)
            if len(body) > parser.LONGEST_BODY:
                self.close()
                raise aiohttp.ClientPayloadError(f"the answer has more than {parser.LONGEST_BODY} bytes")
            self._body = body
        return self._body

    async def json(
        self,
        *,
        encoding: str | None = None,
        loads: Callable[[str], Any] | None = None,
        content_type: str | None = "application/json",
    ) -> Any:
        """Return the decoded body; by default with our own decoder."""
        loads = loads or functools.partial(slim_objects.read, self.url.path if self.ok else "")
        found = await super().json(encoding=encoding, loads=loads, content_type=content_type)
        if slim_objects.has_more(found):
            await asyncio.sleep(PAUSE_SECONDS)
        return found


def session(
    link: connection.Connection, sockets_: sockets.Sockets, *, closed: Callable[[], bool] = lambda: False
) -> aiohttp.ClientSession:
    """Return a session that asks for the Authorization header anew for each request.

    Once `closed` returns true, it sends nothing.
    """

    async def authorize(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if header := await link.authorization():
            request.headers["Authorization"] = header
        request.server_hostname = link.server_name
        if closed():
            raise aiohttp.ClientConnectionError("this run of Kopf is over")
        answer = await handler(request)
        if not api.is_plain(answer.headers.get("Content-Encoding", "")):
            answer.close()
            raise aiohttp.ClientPayloadError("the answer is encoded, though nobody asked for that")
        return answer

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=link.trust or True, socket_factory=sockets_.make),
        headers=api.ACCEPTED,
        middlewares=(authorize,),
        proxy=link.proxy,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        response_class=KopfResponse,
    )
