"""One session with the API server: requests out, bytes or typed errors back.

Nothing is retried here: only the caller knows whether a request may be sent twice.
Every request has a deadline of its own.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import aiohttp
import msgspec

from berth_crds import text, wire
from berth_crds.client import (
    connection,
    connection_pool,
    credentials,
    decoding,
    errors,
    history,
    idle_timeout,
    parser,
    sockets,
)
from berth_crds.client.resources import Resource

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
JSON_PATCH: Final = "application/json-patch+json"
ACCEPTED: Final = {"Accept": JSON, "Accept-Encoding": "identity"}

DEADLINE_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 5.0

T = TypeVar("T")
CountRequest = Callable[[str, str, int], None]  # Method, path and status; no status where no answer came.
NO_ANSWER: Final = 0


class WithMetadata(wire.Struct, frozen=True):
    """Any object, of which only the metadata is read."""

    metadata: wire.Meta


def count_nothing(_method: str, _path: str, _status: int) -> None:
    """Count nothing."""


class Api:
    """A pool of connections to one API server under one identity."""

    def __init__(
        self, link: connection.Connection, *, agent: str, count_request: CountRequest = count_nothing
    ) -> None:
        self.link = link
        self._agent = agent
        self._count_request = count_request
        self._session: aiohttp.ClientSession | None = None
        self._connection_pool: connection_pool.ConnectionPool | None = None
        self._sockets = sockets.Sockets()
        self.history = history.History()

    async def __aenter__(self) -> Self:
        """Open the pool."""
        self._session = aiohttp.ClientSession(
            # Watches hold a connection each for ever, so the pool itself sets no bound.
            connector=aiohttp.TCPConnector(
                limit=0, ssl=self.link.trust or True, keepalive_timeout=60, socket_factory=self._sockets.make
            ),
            timeout=aiohttp.ClientTimeout(total=DEADLINE_SECONDS, sock_connect=CONNECT_SECONDS),
            headers={"User-Agent": self._agent, **ACCEPTED},
            # A few bytes may unfold to gigabytes, and nothing that we ask for needs to be folded.
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        # Else a DELETE or a PUT is sent again where its connection breaks, though it may have had its effect.
        self._session._retry_connection = False  # noqa: SLF001  there is no public way
        if not self.link.proxy:
            self._connection_pool = connection_pool.ConnectionPool(
                self.link.server,
                self.link.trust,
                server_name=self.link.server_name,
                make_socket=self._sockets.make,
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the pool."""
        if self._connection_pool is not None:
            self._connection_pool.close()
        if self._session is not None:
            await self._session.close()
        await self._sockets.close()
        self._connection_pool = self._session = None

    async def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content: str = JSON,
        deadline: float = DEADLINE_SECONDS,
    ) -> bytes:
        """Send one request and return the body of a successful answer."""
        pool = self._connection_pool
        if body is None or pool is None:  # Most requests have a body.
            async with self._answer(
                method, path, params, data=body, content=content, timeout=_timeout(deadline)
            ) as streamed:
                return await _read_body(streamed, path, parser.LONGEST_BODY)
        headers = {"User-Agent": self._agent, **ACCEPTED, "Content-Type": content}
        if header := await self.link.authorization():
            headers["Authorization"] = header
        request = pool.request(method, path, params, headers, body)
        try:
            answer = await pool.send(request, connect=CONNECT_SECONDS, deadline=deadline)
        except errors.Unreachable as error:
            self._count_request(method, path, NO_ANSWER)
            raise errors.Unreachable(
                f"{self.link.server}{path}: {error}", ambiguous=error.ambiguous
            ) from error
        self._count_request(method, path, answer.status)
        coding = answer.headers.get(b"content-encoding", b"").decode("latin-1")
        hint = answer.headers.get(b"retry-after", b"").decode("latin-1")
        _check(answer.status, answer.body, coding=coding, hint=hint, path=path, header=header)
        return answer.body

    async def read(
        self,
        path: str,
        *,
        params: Mapping[str, str],
        most: int,
        accept: str = JSON,
        deadline: float = DEADLINE_SECONDS,
    ) -> bytes:
        """Return an answer that may be long; raise `TooLarge` where it has more than `most` bytes."""
        async with self._answer("GET", path, params, accept=accept, timeout=_timeout(deadline)) as answer:
            return await _read_body(answer, path, most)

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        params: Mapping[str, str],
        idle_seconds: float,
        head_seconds: float,
        total_seconds: float | None = None,
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """Open a response that goes on for long.

        `head_seconds` bounds the time until it begins, `idle_seconds` the pause between two pieces
        of it, and `total_seconds` the whole.
        """
        timeout = aiohttp.ClientTimeout(total=total_seconds, sock_connect=CONNECT_SECONDS)
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(head_seconds):
                    answer = await stack.enter_async_context(
                        self._answer("GET", path, params, timeout=timeout)
                    )
            except TimeoutError as error:
                self._count_request("GET", path, NO_ANSWER)
                raise errors.Unreachable(
                    f"{path}: no answer within {head_seconds:g} s", ambiguous=False
                ) from error
            with idle_timeout.limited(answer.content, idle_seconds):
                yield answer.content

    @contextlib.asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        *,
        content: str = "",
        accept: str = JSON,
        **rest: Any,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield a successful answer of which nothing is read yet."""
        assert self._session is not None, "the Api is used inside `async with`"  # noqa: S101
        headers = {"Accept": accept}
        if header := await self.link.authorization():
            headers["Authorization"] = header
        if rest.get("data") is not None:
            headers["Content-Type"] = content
        url = self.link.server + path
        rest |= {"server_hostname": self.link.server_name, "proxy": self.link.proxy}
        try:
            async with self._session.request(
                method, url, params=params, headers=headers, allow_redirects=False, **rest
            ) as answer:
                try:
                    self._count_request(method, path, answer.status)
                    await _check_streamed(answer, path, header)
                    yield answer
                finally:
                    _abort(answer)
        except aiohttp.ClientConnectorError as error:
            self._count_request(method, path, NO_ANSWER)
            raise errors.Unreachable(f"{url}: {_connect_failure(error)}", ambiguous=False) from error
        except idle_timeout.IdleTimeout as error:
            raise errors.StreamIdle(f"{url}: {error}") from error
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            # A body may also break off after the answer was counted: that is both.
            self._count_request(method, path, NO_ANSWER)
            what = text.cause(error) or "no answer in time"
            raise errors.Unreachable(f"{url}: {what}", ambiguous=True) from error

    # ------------------------------------------------------------ whole objects

    async def get(self, resource: Resource, name: str, *, into: type[T], namespace: str = "") -> T:
        """Read one object by a quorum read."""
        path = resource.path(name, namespace=namespace)
        return decode(await self.send("GET", path), into, path=path)

    async def find(self, resource: Resource, name: str, *, into: type[T], namespace: str = "") -> T | None:
        """Read one object; None where there surely is none."""
        try:
            return await self.get(resource, name, into=into, namespace=namespace)
        except errors.NotFound:
            return None

    async def create(self, resource: Resource, thing: Any, *, namespace: str = "", sub: str = "") -> bytes:
        """Create one object, or post to a subresource of the object it names."""
        name = thing["metadata"]["name"] if sub else ""
        path = resource.path(name, namespace=namespace, sub=sub)
        return await self.send("POST", path, body=msgspec.json.encode(thing))

    async def replace(self, resource: Resource, name: str, thing: Any, *, namespace: str = "") -> bytes:
        """Replace one object; its resourceVersion, if set, must still be the current one."""
        path = resource.path(name, namespace=namespace)
        return await self.send("PUT", path, body=msgspec.json.encode(thing))

    async def delete(self, resource: Resource, name: str, *, namespace: str = "", uid: str = "") -> None:
        """Delete one object; with a uid, only that very one."""
        body = msgspec.json.encode({"preconditions": {"uid": uid}}) if uid else None
        await self.send("DELETE", resource.path(name, namespace=namespace), body=body)

    async def apply(
        self,
        resource: Resource,
        thing: Mapping[str, Any],
        *,
        manager: str,
        sub: str = "",
        deadline: float = DEADLINE_SECONDS,
        force: bool = True,
    ) -> bytes:
        """Server-side apply: make the fields that `manager` owns be exactly these.

        Without `force`, one that another manager owns and that would change is a conflict.
        """
        meta = thing["metadata"]
        path = resource.path(meta["name"], namespace=meta.get("namespace", ""), sub=sub)
        return await self.send(
            "PATCH",
            path,
            params={"fieldManager": manager, "force": str(force).lower()},
            body=msgspec.json.encode({"apiVersion": resource.api_version, "kind": resource.kind, **thing}),
            content=APPLY,
            deadline=deadline,
        )


def _timeout(deadline: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=deadline, sock_connect=min(CONNECT_SECONDS, deadline))


async def _read_body(answer: aiohttp.ClientResponse, path: str, most: int) -> bytes:
    """Read the body of an answer, or raise `TooLarge`."""
    found = await read_beginning(answer.content, most)
    if len(found) > most:
        raise errors.TooLarge(f"{path}: the answer has more than {most} bytes")
    return found


async def _check_streamed(answer: aiohttp.ClientResponse, path: str, header: str) -> None:
    failed = answer.status >= parser.FIRST_ERROR_CODE
    body = await read_beginning(answer.content, parser.LONGEST_ERROR) if failed else b""
    coding, hint = answer.headers.get("Content-Encoding", ""), answer.headers.get("Retry-After", "")
    _check(answer.status, body, coding=coding, hint=hint, path=path, header=header)


def _check(status: int, body: bytes, *, coding: str, hint: str, path: str, header: str) -> None:
    """Raise the error of an answer that is an error, without its message where that is encoded."""
    if status >= parser.FIRST_ERROR_CODE:
        error = errors.from_answer(status, body if is_plain(coding) else b"", retry_after=hint or None)
        raise credentials.explained(error, header) if isinstance(error, errors.Unauthorized) else error
    if not is_plain(coding):
        raise errors.Unreachable(
            f"{path}: the answer is encoded ({coding}), though nobody asked for that", ambiguous=True
        )


def is_plain(coding: str) -> bool:
    """Whether a body with this Content-Encoding comes as it is."""
    return not coding or coding.strip().lower() in {"", "identity"}


async def read_beginning(content: aiohttp.StreamReader, most: int) -> bytes:
    """Read a body; where it has more than `most` bytes, only a beginning that also has more."""
    pieces, size = [], 0
    async for piece in content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > most:
            break
    return b"".join(pieces)


def _connect_failure(error: aiohttp.ClientConnectorError) -> str:
    """Return why no connection could be made."""
    why = getattr(error, "certificate_error", None) or error.os_error
    return f"Cannot connect to host {error.host}:{error.port}: {text.cause(why)}"


def _abort(answer: aiohttp.ClientResponse) -> None:
    """End the connection of an answer that was not read to its end, without waiting for the server."""
    line = answer.connection
    if line is not None and line.transport is not None:
        line.transport.abort()


def decode(body: bytes, into: type[T], *, path: str) -> T:
    """Decode an answer; one that is something else came from a proxy between us and the server."""
    try:
        return decoding.decode_object(msgspec.json.Decoder(into), body)
    except errors.DECODE_ERRORS as error:
        raise errors.Unreachable(
            f"{path}: the answer is no {into.__name__}: {error}", ambiguous=True
        ) from error
