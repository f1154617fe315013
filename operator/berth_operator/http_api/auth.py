"""Who may ask: nobody is trusted for where they come from, unless only this machine can come at all.

Behind a loopback address whoever is on the machine (or in the pod, or forwards a port to
it, for which the cluster has its own right) is let in. Anywhere else a bearer token is
needed: the API server says whose it is and whether they may `get` the path. Its answers
are remembered for a few seconds. What it does not say is a no.
"""

import asyncio
import dataclasses
import hashlib
import http
import ipaddress
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from aiohttp import web

from berth_crds import text
from berth_crds.client import errors

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

REMEMBERED_SECONDS: Final = 5.0
MOST_REMEMBERED: Final = 1024
ASKED_AT_ONCE: Final = 4  # Strangers with made-up tokens must not keep the API server busy through us.
MOST_WAITING: Final = 16  # For their turn: more strangers than that would hold the places of others.
REVIEW_SECONDS: Final = 15.0  # For both questions, and for the turn to ask them.
SCHEME: Final = "bearer"
RIGHTS: Final = (
    "manifests/listen/rbac.yaml"  # Only those need it who serve elsewhere than at a loopback address.
)


class Reviewer(Protocol):
    """Who knows tokens and rights."""

    async def judge(self, token: str, path: str) -> tuple[str, bool] | None:
        """Return whose token it is and whether they may get the path; None where it is nobody's.

        Raises a ClientError where that cannot be found out.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """A no: the status code, and a sentence."""

    status: http.HTTPStatus
    sentence: str


@dataclasses.dataclass(frozen=True, slots=True)
class _Known:
    until: float
    refusal: Refusal | None


class Guard:
    """Lets requests in, or says why not."""

    def __init__(self, reviewer: Reviewer, *, clock: Callable[[], float], local: bool) -> None:
        self._reviewer = reviewer
        self._clock = clock
        self._local = local
        self._known: dict[tuple[str, str], _Known] = {}
        self._turns = asyncio.Semaphore(ASKED_AT_ONCE)
        self._waiting = 0

    def protect(self, path: str, handler: Handler) -> web.RouteDef:
        """Return the route of a page that only those may read whom the guard lets in."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            refusal = await self.refusal(request, path)
            return await handler(request) if refusal is None else refused(refusal)

        return web.get(path, guarded, allow_head=False)

    async def refusal(self, request: web.Request, path: str) -> Refusal | None:
        """Return why a request is not let in; None where it is."""
        if self._local and from_here(request):
            return None
        token = bearer(request.headers.get("Authorization", ""))
        if not token:
            return Refusal(http.HTTPStatus.UNAUTHORIZED, f"{path} needs a bearer token.")
        key = hashlib.sha256(token.encode()).hexdigest(), path
        known = self._known.get(key)
        if known is None or known.until <= self._clock():
            if self._waiting >= MOST_WAITING:
                return Refusal(http.HTTPStatus.SERVICE_UNAVAILABLE, "Too many tokens are being reviewed.")
            try:
                known = await self._asked(token, path)
            except (errors.ClientError, TimeoutError) as error:
                return Refusal(http.HTTPStatus.SERVICE_UNAVAILABLE, cannot_ask(error))
            self._remember(key, known)
        return known.refusal

    async def _asked(self, token: str, path: str) -> _Known:
        self._waiting += 1
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                return _Known(self._clock() + REMEMBERED_SECONDS, await self._review(token, path))
        finally:
            self._waiting -= 1

    async def _review(self, token: str, path: str) -> Refusal | None:
        async with self._turns:
            found = await self._reviewer.judge(token, path)
        if found is None:
            return Refusal(http.HTTPStatus.UNAUTHORIZED, "The API server does not know this token.")
        user, allowed = found
        if not allowed:
            sentence = f"{user} may not get {path}: no role of theirs has it among its nonResourceURLs."
            return Refusal(http.HTTPStatus.FORBIDDEN, sentence)
        log.info("%s reads %s", user, path)
        return None

    def _remember(self, key: tuple[str, str], known: _Known) -> None:
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[key] = known


def cannot_ask(error: Exception) -> str:
    """Return why nothing can be found out about a token."""
    if isinstance(error, errors.Forbidden):
        return f"The operator may not ask the API server whose token this is: kubectl apply -f {RIGHTS}."
    return f"The API server cannot be asked about the token: {str(error) or 'no answer in time'}."


def refused(refusal: Refusal) -> web.Response:
    """Return the answer to somebody who is refused."""
    unknown = refusal.status == http.HTTPStatus.UNAUTHORIZED
    headers = {"WWW-Authenticate": "Bearer"} if unknown else {}
    return web.Response(text=f"{text.line(refusal.sentence)}\n", status=refusal.status, headers=headers)


def bearer(header: str) -> str:
    """Read the token of an Authorization header; nothing where there is none that could be one."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == SCHEME and token.isascii() else ""


def from_here(request: web.Request) -> bool:
    """Return whether a request comes from this machine and means it.

    A page in somebody's browser can be made to ask a name of its own that leads here, so
    the name that was asked for counts too.
    """
    # Not `request.host`: without the header that would look our own name up, and block.
    return loopback(request.remote or "") and loopback(request.headers.get("Host", ""))


def loopback(address: str) -> bool:
    """Return whether HOST or HOST:PORT is this machine and nothing else."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        pass
    host = address.rpartition(":")[0] if address.rpartition(":")[2].isdecimal() else address
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
