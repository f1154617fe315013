"""What can go wrong between us and the API server, as types.

An answer of the server becomes the class its status code names, so that callers
`except errors.Conflict` and never compare numbers. No answer at all is `Unreachable`,
which tells whether the request can have had an effect: that is what decides between
trying again and looking first.
"""

import math
from typing import Final

import msgspec

from berth_crds import text

# All that decoding may raise: what is no JSON, what is no UTF-8, what is nested without end.
DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

# The longest Retry-After that is honoured.
LONGEST_RETRY_AFTER_SECONDS: Final = 60.0
THROTTLED_SECONDS: Final = 1.0  # For a server that throttles without a Retry-After.


class ClientError(Exception):
    """Anything that kept a request from succeeding; the message is always one line."""

    def __init__(self, message: str) -> None:
        super().__init__(text.line(message))


class Unusable(ClientError):
    """The configuration cannot be used; the message is one line for a person."""


class Unreachable(ClientError):
    """No answer came. `ambiguous` means that the server may have acted all the same."""

    def __init__(self, message: str, *, ambiguous: bool = True) -> None:
        super().__init__(message)
        self.ambiguous = ambiguous


class StreamIdle(Unreachable):
    """No data came on a stream: nothing happens, or the connection is dead."""


class TooLarge(Unreachable):
    """The answer has more bytes or values than are read."""


class ApiError(ClientError):
    """The server answered with an error."""

    def __init__(
        self, code: int, message: str, *, reason: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(f"{code} {reason}: {message}" if reason else f"{code}: {message}")
        self.code = code
        self.reason = text.line(reason)
        self.message = text.line(message)
        self.retry_after = retry_after


class BadRequest(ApiError):
    """The request itself is wrong (400, 413, 415)."""


class Unauthorized(ApiError):
    """The server does not know who we are (401)."""


class Forbidden(ApiError):
    """We may not do this (403)."""


class NotFound(ApiError):
    """The object surely does not exist (404)."""


class AmbiguousNotFound(ApiError):
    """A 404 that proves nothing, because it names no object: its kind is not served, or a proxy answered."""


class Conflict(ApiError):
    """A precondition failed, or another writer was first (409)."""


class Gone(ApiError):
    """The revision asked for is compacted away (410)."""


class Invalid(ApiError):
    """The object fails validation (422)."""


class Throttled(ApiError):
    """The server asks for a pause (429)."""

    @property
    def pause(self) -> float:
        """For how many seconds: also of a server that does not say."""
        return self.retry_after or THROTTLED_SECONDS


class Unavailable(ApiError):
    """The server failed or could not finish in time (5xx): it may have acted."""


class Oversized(ApiError):
    """The object would be longer than etcd takes: nothing was written."""


def is_systemic(error: ClientError) -> bool:
    """Whether other requests would fail too: the trouble is the server's, or our login's."""
    return isinstance(error, Unreachable | Throttled | Unauthorized | Unusable)


BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: BadRequest,
    415: BadRequest,
    422: Invalid,
    429: Throttled,
}


class _Details(msgspec.Struct, gc=False):
    retryAfterSeconds: float | None = None  # noqa: N815  the API's spelling


class Status(msgspec.Struct, gc=False):
    """How the API describes a failure, in a response or inside a watch."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


NOT_FOUND: Final = 404
FORBIDDEN: Final = 403
ANONYMOUS: Final = '"system:anonymous"'  # The user of a request without credentials.
NO_CREDENTIALS: Final = "no credentials reached the API server, so it knows us only as system:anonymous"
# Etcd's words, with which servers end the message of a 500 or a 409.
OVERSIZED: Final = "etcdserver: request is too large"
_decoder = msgspec.json.Decoder(Status)


def from_answer(code: int, body: bytes, *, retry_after: str | None = None) -> ApiError:
    """Turn a refused request's answer into its exception, whatever the body looks like."""
    try:
        status = _decoder.decode(body)
    except DECODE_ERRORS:
        status = Status(message=body[:500].decode(errors="replace").strip() or "no details given")
    return from_status(status, code=code, retry_after=_seconds(retry_after))


def from_status(status: Status, *, code: int = 0, retry_after: float | None = None) -> ApiError:
    """Turn a Status object into its exception."""
    code = code or status.code
    if code == NOT_FOUND and status.reason != "NotFound":
        return AmbiguousNotFound(code, status.message or "no details given", reason=status.reason)
    if code == FORBIDDEN and ANONYMOUS in status.message:
        return Forbidden(code, f"{NO_CREDENTIALS} ({status.message})", reason=status.reason)
    if status.message.endswith(OVERSIZED):
        return Oversized(code, status.message, reason=status.reason)
    if retry_after is None and status.details is not None:
        retry_after = _bounded(status.details.retryAfterSeconds)
    kind = BY_CODE.get(code, Unavailable if code >= 500 or code == 0 else ApiError)  # noqa: PLR2004
    return kind(
        code,
        status.message or "no details given",
        reason=status.reason,
        retry_after=retry_after,
    )


def _seconds(header: str | None) -> float | None:
    try:
        return _bounded(float(header)) if header is not None else None
    except ValueError:
        return None


def _bounded(seconds: float | None) -> float | None:
    if seconds is None or math.isnan(seconds):
        return None
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER_SECONDS)
