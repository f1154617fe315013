"""What the harness asks of the API server, as its administrator."""

import asyncio
import contextlib
import http
import json
import ssl
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Final, Self

import aiohttp

from parity.scenes import Object
from testbed import cluster as clusters
from testbed import sessions

CONNECTIONS: Final = 12
LONGEST_LINE: Final = 1 << 22
WATCH_SECONDS: Final = 600
SOON: Final = {"gracePeriodSeconds": 0}
REFUSED: Final = {
    http.HTTPStatus.UNPROCESSABLE_ENTITY,
    http.HTTPStatus.BAD_REQUEST,
    http.HTTPStatus.FORBIDDEN,
}


class InvalidObject(Exception):
    """The API server takes no such object; the text is its own."""


class Requests:
    """A session of the administrator; use it as a context manager."""

    def __init__(self, testbed: clusters.Cluster) -> None:
        self._testbed = testbed
        self._close = contextlib.AsyncExitStack()
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        """Open the session."""
        tls = ssl.create_default_context(cafile=str(self._testbed.ca_file))
        tls.load_cert_chain(self._testbed.admin.certificate, self._testbed.admin.key)
        lent = sessions.session(self._testbed.server, tls=tls, limit=CONNECTIONS, read_bufsize=LONGEST_LINE)
        self._session = await self._close.enter_async_context(lent)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self._close.aclose()

    async def create(self, path: str, thing: Object) -> Object:
        """Create an object and return it as the API server does; raise InvalidObject if it is invalid."""
        return await self._send("POST", path, thing)

    async def ensure(self, path: str, thing: Object) -> None:
        """Create an object unless it is there."""
        await self._send("POST", path, thing, passing=http.HTTPStatus.CONFLICT)

    async def set_status(self, pod: Object, status: Object) -> Object:
        """Write the status of a pod as its kubelet would, and return the pod."""
        kind = "application/merge-patch+json"
        return await self._send("PATCH", f"{path_of(pod)}/status", {"status": status}, kind)

    async def terminate(self, pod: Object) -> Object:
        """Delete a pod that takes its time to end, and return it."""
        return await self._send("DELETE", path_of(pod), {"gracePeriodSeconds": 3600})

    async def delete_all(self, *paths: str) -> None:
        """Delete all objects of these collections at once."""
        await asyncio.gather(*(self._send("DELETE", path, SOON) for path in paths))

    async def events(self, path: str) -> AsyncIterator[Object]:
        """Yield the objects of a watch: first those that are there, then each that is created or changed."""
        asked = f"{path}&watch=true&timeoutSeconds={WATCH_SECONDS}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        while True:
            async with self._session.get(asked, timeout=timeout) as response:
                response.raise_for_status()
                async for line in response.content:
                    event = json.loads(line)
                    if event["type"] in {"ADDED", "MODIFIED"}:
                        yield event["object"]

    async def _send(
        self, method: str, path: str, body: Object, kind: str = "application/json", *, passing: int = 0
    ) -> Object:
        async with self._session.request(method, path, json=body, headers={"Content-Type": kind}) as response:
            answer: Any = await response.json()
            if response.status in REFUSED:
                raise InvalidObject(answer["message"])
            if not response.ok and response.status != passing:
                raise AssertionError(f"{method} {path}: {response.status} {answer}")
            found: Object = answer
            return found


def path_of(pod: Object) -> str:
    """Return the path of a pod."""
    return f"{pods_of(pod['metadata']['namespace'])}/{pod['metadata']['name']}"


def pods_of(namespace: str) -> str:
    """Return the path of the pods of a namespace."""
    return f"/api/v1/namespaces/{namespace}/pods"
