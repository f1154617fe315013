"""Asks one Prometheus one query at a time, within limits, and says in words what goes wrong.

A redirect is not followed, an encoded answer not decoded, and a token never sent in clear. Files are
read for each session, for they are renewed while the operator runs.
"""

import asyncio
import contextlib
import dataclasses
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import aiohttp

from berth_crds import text
from berth_crds.client import api, connection, errors, sockets
from berth_operator.prometheus import answers, faults, queries

DEADLINE_SECONDS: Final = 5.0
LONGEST_ANSWER: Final = 32 << 20  # Bytes: 80,000 cards take no more.
LONGEST_ERROR: Final = 1 << 16
TOKEN_FLAG: Final = "prometheus-token-file"  # noqa: S105  the name of a flag
CA_FLAG: Final = "prometheus-ca-file"
AGENT: Final = "berth-operator"
OK, REDIRECT, ERROR, UNAUTHORIZED, FORBIDDEN, NOT_FOUND = 200, 300, 400, 401, 403, 404


@dataclasses.dataclass(frozen=True, slots=True)
class Credentials:
    """The files of the token and of the certificates of who may have signed; empty for none."""

    token_file: str = ""
    ca_file: str = ""


NONE: Final = Credentials()


class Session:
    """A session with one Prometheus."""

    def __init__(self, url: str, http: aiohttp.ClientSession, header: str) -> None:
        self._url = url + queries.PATH
        self._http = http
        self._header = header

    async def query(self, query: str) -> bytes:
        """Return the answer to a query, or raise `Fault`."""
        headers = {"Authorization": self._header} if self._header else {}
        try:
            async with self._http.get(
                self._url, params={"query": query}, headers=headers, allow_redirects=False
            ) as answer:
                return await self._read(answer)
        except TimeoutError as error:
            raise faults.Fault(f"no whole answer came within {DEADLINE_SECONDS:g} s") from error
        except aiohttp.ClientConnectorError as error:
            why = getattr(error, "certificate_error", None) or error.os_error
            raise faults.Fault(f"it cannot be reached: {text.cause(why)}") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise faults.Fault(f"it cannot be asked: {text.cause(error) or type(error).__name__}") from error

    async def _read(self, answer: aiohttp.ClientResponse) -> bytes:
        if answer.status != OK:
            raise self._fault(answer, await api.read_beginning(answer.content, LONGEST_ERROR))
        coding = answer.headers.get("Content-Encoding", "")
        if not api.is_plain(coding):
            raise faults.Fault(f"its answer is encoded ({coding}), though nobody asked for that")
        body = await api.read_beginning(answer.content, LONGEST_ANSWER)
        if len(body) > LONGEST_ANSWER:
            raise faults.Fault(f"its answer has more than {LONGEST_ANSWER >> 20} MiB")
        return body

    def _fault(self, answer: aiohttp.ClientResponse, body: bytes) -> faults.Fault:
        """Return what an answer that is no success means."""
        code = answer.status
        if REDIRECT <= code < ERROR:
            # Behind the question mark may be what only we are to know.
            to = text.quoted(
                answer.headers.get("Location", "").partition("?")[0], most=answers.LONGEST_REASON
            )
            return faults.Fault(
                f"it redirects to {to} ({code}), and redirects are not followed: name the address behind it"
            )
        if code in {UNAUTHORIZED, FORBIDDEN}:
            asked = (
                f"the token of --{TOKEN_FLAG} is not taken" if self._header else f"--{TOKEN_FLAG} is not set"
            )
            return faults.Fault(f"it wants credentials ({code}), and {asked}")
        if code == NOT_FOUND:
            return faults.Fault(f"it serves no {queries.PATH} (404): is the path before that missing?")
        return answers.refusal(body) or faults.Fault(f"it answers with {code}")


@contextlib.asynccontextmanager
async def session(url: str, credentials: Credentials = NONE) -> AsyncIterator[Session]:
    """Open a session with the Prometheus at an address, or raise `Fault`."""
    secure = url.startswith("https://")
    trust = await _trust(credentials.ca_file) if secure else None
    header = await _header(credentials.token_file, secure=secure)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=1, ssl=trust or True, socket_factory=sockets.new_socket),
        timeout=aiohttp.ClientTimeout(total=DEADLINE_SECONDS),
        headers={"User-Agent": AGENT, **api.ACCEPTED},
        # A few bytes may unfold to gigabytes.
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as http:
        yield Session(url, http, header)


async def _header(file: str, *, secure: bool) -> str:
    if not file:
        return ""
    if not secure:
        raise faults.Fault(f"the token of --{TOKEN_FLAG} is sent over https:// alone")
    try:
        return await connection.TokenFile(Path(file))()
    except errors.ClientError as error:
        raise faults.Fault(f"--{TOKEN_FLAG}: {error}") from error


async def _trust(file: str) -> ssl.SSLContext:
    try:
        return await asyncio.to_thread(ssl.create_default_context, cafile=file or None)
    except (OSError, ssl.SSLError) as error:
        raise faults.Fault(f"--{CA_FLAG} {file} cannot be used: {text.cause(error)}") from error
