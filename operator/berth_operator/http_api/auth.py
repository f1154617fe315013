"""Authentication and authorization of requests.

At a loopback address, all requests from this machine are allowed (also from the pod, and by port
forwarding, for which the cluster has a right of its own). At any other address a bearer token is
needed: the API server says whose it is and whether the user may `get` the path. Its answers are
cached for a few seconds. Without a clear answer the request is denied.
"""

import asyncio
import dataclasses
import hashlib
import http
import ipaddress
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from berth_crds import text
from berth_crds.client import errors

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
# Returns a token's user and whether they may get a path; None for an unauthorized token.
# Raises ClientError if no answer can be had.
Review = Callable[[str, str], Awaitable[tuple[str, bool] | None]]

CACHE_SECONDS: Final = 5.0
MOST_CACHED: Final = 1024
REVIEWS_AT_ONCE: Final = 4  # Clients with invalid tokens must not load the API server through us.
MOST_WAITING: Final = 16  # For a review: more would take the connections of other clients.
REVIEW_SECONDS: Final = 15.0  # For both reviews, and for the wait before them.
SCHEME: Final = "bearer"
RIGHTS: Final = "manifests/listen/rbac.yaml"  # Needed only at an address that is not loopback.


@dataclasses.dataclass(frozen=True, slots=True)
class Denial:
    """Why a request is denied: the status code, and a sentence."""

    status: http.HTTPStatus
    sentence: str


Cached = tuple[float, Denial | None]  # Until when a review counts, and why it denies, if it does.


class Guard:
    """Allows or denies requests."""

    def __init__(self, review: Review, *, clock: Callable[[], float], local: bool) -> None:
        self._review = review
        self._clock = clock
        self._local = local
        self._cache: dict[tuple[str, str], Cached] = {}
        self._reviews = asyncio.Semaphore(REVIEWS_AT_ONCE)
        self._waiting = 0

    def protect(self, path: str, handler: Handler) -> web.RouteDef:
        """Return the route of a page behind this guard."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            denial = await self.denial(request, path)
            return await handler(request) if denial is None else denied(denial)

        return web.get(path, guarded, allow_head=False)

    async def denial(self, request: web.Request, path: str) -> Denial | None:
        """Return why a request is denied; None if it is allowed."""
        if self._local and is_from_loopback(request):
            return None
        if not (token := bearer(request.headers.get("Authorization", ""))):
            return Denial(http.HTTPStatus.UNAUTHORIZED, f"{path} needs a bearer token.")
        key = hashlib.sha256(token.encode()).hexdigest(), path
        until, denial = self._cache.get(key, (0.0, None))
        if until <= self._clock():
            if self._waiting >= MOST_WAITING:
                return Denial(http.HTTPStatus.SERVICE_UNAVAILABLE, "Too many tokens are being reviewed.")
            until = self._clock() + CACHE_SECONDS
            try:
                denial = await self._reviewed(token, path)
            except (errors.ClientError, TimeoutError) as error:
                return Denial(http.HTTPStatus.SERVICE_UNAVAILABLE, review_failed(error))
            self._remember(key, (until, denial))
        return denial

    async def _reviewed(self, token: str, path: str) -> Denial | None:
        self._waiting += 1
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                return await self._denial_of(token, path)
        finally:
            self._waiting -= 1

    async def _denial_of(self, token: str, path: str) -> Denial | None:
        async with self._reviews:
            found = await self._review(token, path)
        if found is None:
            return Denial(http.HTTPStatus.UNAUTHORIZED, "The API server does not know this token.")
        user, allowed = found
        if not allowed:
            return Denial(
                http.HTTPStatus.FORBIDDEN,
                f"{user} may not get {path}: no role of theirs has it among its nonResourceURLs.",
            )
        log.info("%s reads %s", user, path)
        return None

    def _remember(self, key: tuple[str, str], cached: Cached) -> None:
        if len(self._cache) >= MOST_CACHED:
            self._cache.clear()
        self._cache[key] = cached


def review_failed(error: Exception) -> str:
    """Return the sentence for a token that cannot be reviewed."""
    if isinstance(error, errors.Forbidden):
        return f"The operator may not ask the API server whose token this is: kubectl apply -f {RIGHTS}."
    return f"The API server cannot be asked about the token: {str(error) or 'no answer in time'}."


def denied(denial: Denial) -> web.Response:
    """Return the response to a denied request."""
    return web.Response(
        text=f"{text.line(denial.sentence)}\n",
        status=denial.status,
        headers={"WWW-Authenticate": "Bearer"} if denial.status == http.HTTPStatus.UNAUTHORIZED else {},
    )


def bearer(header: str) -> str:
    """Return the bearer token of an Authorization header; empty without a valid one."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == SCHEME and token.isascii() else ""


def is_from_loopback(request: web.Request) -> bool:
    """Whether a request comes from this machine and was sent to a name of this machine.

    A web page in a browser on this machine can send requests to a name of its own that resolves to
    this machine (DNS rebinding), so the Host header is checked as well.
    """
    # Not `request.host`: without the header that would resolve our own name, and block.
    return is_loopback(request.remote or "") and is_loopback(request.headers.get("Host", ""))


def is_loopback(address: str) -> bool:
    """Whether HOST or HOST:PORT is a loopback address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        pass
    host = address.rpartition(":")[0] if address.rpartition(":")[2].isdecimal() else address
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
