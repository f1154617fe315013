"""The session with the API server that Kopf is lent.

Kopf reads what the server says by itself. What holds for our own client is seen to from
here: each request is logged in, answers come as they are, none has more than a list may
have, and a run of Kopf that is over asks nothing more.
"""

import functools
from collections.abc import AsyncIterator, Callable
from typing import Any, Self, cast

import aiohttp

from berth_crds.client import api, connection, errors, parser, watch
from berth_operator.kube import device_lists


class Events:
    """What a watch says, with each of its events as Kopf is to read it."""

    def __init__(self, path: str, content: aiohttp.StreamReader) -> None:
        self._path = path
        self._content = content

    def __getattr__(self, name: str) -> Any:
        """Be in all else the content that it stands for."""
        return getattr(self._content, name)

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        """Yield event after event."""
        try:
            async for line in watch.lines(self._content):
                yield device_lists.event(self._path, line) + b"\n"
        except errors.TooLarge as error:
            raise aiohttp.ClientPayloadError(str(error)) from error


class Answer(aiohttp.ClientResponse):
    """An answer of which no more is read than any list has, and of a watch nothing that is deep."""

    async def start(self, connection: aiohttp.connector.Connection) -> Self:
        """Begin to read it."""
        await super().start(connection)
        if self.ok and self.url.query.get("watch") == "true":
            self.content = cast("aiohttp.StreamReader", Events(self.url.path, self.content))
        return self

    async def read(self) -> bytes:
        """Return the whole body, or raise what Kopf takes for a body that broke off."""
        if self._body is None:
            body = await api.beginning(self.content, parser.LONGEST_BODY)
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
        """Return what the body says, where nobody says how to read it."""
        loads = loads or functools.partial(device_lists.read, self.url.path if self.ok else "")
        return await super().json(encoding=encoding, loads=loads, content_type=content_type)


def session(
    link: connection.Connection, *, closed: Callable[[], bool] = lambda: False
) -> aiohttp.ClientSession:
    """Make a session that is always logged in, because each request asks for its header anew.

    Once `closed` says so, it sends nothing.
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
        connector=aiohttp.TCPConnector(limit=0, ssl=link.trust or True),
        headers=api.ACCEPTED,
        middlewares=(authorize,),
        proxy=link.proxy,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        response_class=Answer,
    )
