"""Answers become types: by their code, whatever stands in their body."""

import json
from typing import Final

import hypothesis
import pytest
from hypothesis import strategies

from berth_crds import text
from berth_crds.client import errors
from support import stub

TABLE = {
    300: errors.ApiError,
    302: errors.ApiError,
    400: errors.BadRequest,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.ApiError,
    409: errors.Conflict,
    410: errors.Gone,
    413: errors.BadRequest,
    415: errors.BadRequest,
    418: errors.ApiError,
    422: errors.Invalid,
    429: errors.Throttled,
    500: errors.Unavailable,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.Unavailable,
    599: errors.Unavailable,
}


@pytest.mark.parametrize(("code", "kind"), TABLE.items())
def test_a_code_has_one_type(code: int, kind: type[errors.ApiError]) -> None:
    """Callers catch types, so each code maps to exactly one."""
    reason = "NotFound" if code == 404 else "Because"
    body = json.dumps(stub.failure(code, "no", reason=reason)).encode()

    error = errors.from_answer(code, body)

    assert type(error) is kind
    assert (error.code, error.reason, error.message) == (code, reason, "no")
    assert str(error) == f"{code} {reason}: no"


BIND: Final = 'cannot be fulfilled on pods/binding "p": etcdserver: request is too large'
QUOTED: Final = 'the webhook cannot read the label "etcdserver: request is too large": no answer in time'


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        pytest.param(500, "etcdserver: request is too large", errors.Oversized, id="a patch"),
        pytest.param(409, BIND, errors.Oversized, id="a bind"),
        pytest.param(500, QUOTED, errors.Unavailable, id="quoted words of an author"),
    ],
)
def test_what_etcd_does_not_take_is_not_the_servers_fault(
    code: int, message: str, kind: type[errors.ApiError]
) -> None:
    """It was surely not written, whatever code comes with it; words that a server quotes do not count."""
    error = errors.from_answer(code, json.dumps(stub.failure(code, message)).encode())

    assert type(error) is kind
    assert not errors.is_systemic(error)


@pytest.mark.parametrize(
    "body",
    [
        b"404 page not found\n",
        b"default backend - 404",
        b"",
        b'{"code": 404}',
        b'{"reason": "NotFoundation"}',
    ],
)
def test_a_404_in_other_words_proves_nothing(body: bytes) -> None:
    """A proxy without a backend, and a server without the kind, say nothing of the object."""
    assert type(errors.from_answer(404, body)) is errors.AmbiguousNotFound


GARBAGE = {
    "nothing": b"",
    "a page of a proxy": b"<html><body>502 Bad Gateway</body></html>",
    "a bare word of JSON": b'"no"',
    "a list": b"[]",
    "nulls": b'{"message": null, "details": null, "code": null}',
    "no UTF-8": b"\xff\xfe\x00",
    "no UTF-8 inside JSON": b'{"message": "\xff"}',
    "half of JSON": b'{"message": "too ear',
    "nested without end": b"[" * 200_000,
    "wrong types": b'{"message": 7, "details": {"retryAfterSeconds": "soon"}}',
}


@pytest.mark.parametrize("body", GARBAGE.values(), ids=GARBAGE.keys())
def test_the_code_counts_whatever_the_body(body: bytes) -> None:
    """A body that is no Status costs the message at most, never the type of the error."""
    error = errors.from_answer(409, body)

    assert type(error) is errors.Conflict
    assert error.message
    assert len(error.message) <= 500


@hypothesis.given(body=strategies.binary(max_size=200), code=strategies.integers(300, 599))
def test_no_answer_makes_the_reader_fail(body: bytes, code: int) -> None:
    """Whatever comes back, the caller gets an ApiError of that code."""
    assert errors.from_answer(code, body).code == code


@pytest.mark.parametrize(
    ("header", "hint", "seconds"),
    [
        pytest.param("3", None, 3.0, id="header"),
        pytest.param(None, 7, 7.0, id="body"),
        pytest.param("3", 7, 3.0, id="the header wins"),
        pytest.param("Fri, 20 Nov 2026 10:00:00 GMT", None, None, id="a date is not read"),
        pytest.param("Fri, 20 Nov 2026 10:00:00 GMT", 2, 2.0, id="a date, and the body knows"),
        pytest.param("-5", None, 0.0, id="the past"),
        pytest.param("86400", None, 60.0, id="a day is too much to ask"),
        pytest.param("inf", None, 60.0, id="for ever is too much to ask"),
        pytest.param("nan", None, None, id="not a number"),
        pytest.param(None, 1e9, 60.0, id="the body asks too much"),
        pytest.param("1e400", None, 60.0, id="beyond all numbers"),
        pytest.param("-inf", None, 0.0, id="since ever"),
        pytest.param("9" * 60_000, None, 60.0, id="many digits"),
        pytest.param("soon\x1b[2J", 4, 4.0, id="words"),
        pytest.param(None, -1e300, 0.0, id="the body asks for the past"),
        pytest.param(None, None, None, id="nothing said"),
    ],
)
def test_patience_asked_for(header: str | None, hint: float | None, seconds: float | None) -> None:
    """Retry-After is honoured within reason, from the header or from the Status."""
    details = {} if hint is None else {"details": {"retryAfterSeconds": hint}}
    body = json.dumps(stub.failure(429, "slow down") | details).encode()

    error = errors.from_answer(429, body, retry_after=header)

    assert error.retry_after == seconds


NASTY = "no\x1b[31m\r\n2026 ERROR forged\u202e\u200b\x00\x7f\x9b" + "!" * 100_000
TOLD = r"no\x1b[31m 2026 ERROR forged\u202e\u200b\x00\x7f\x9b!!"


def test_an_error_is_one_short_line() -> None:
    """What a server says of its errors lands in logs and conditions: nothing of it steers or floods them."""
    status = errors.from_answer(409, json.dumps(stub.failure(409, NASTY, reason=NASTY)).encode())
    event = errors.from_status(errors.Status(message=NASTY, reason=NASTY, code=500))
    page = errors.from_answer(502, NASTY.encode())

    for error in (status, event, page):
        assert error.message.startswith(TOLD)
        for told in (str(error), error.message, error.reason):
            assert told.isprintable()
            assert len(told) <= text.LONGEST


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(errors.Unreachable(NASTY, ambiguous=True), id="no answer"),
        pytest.param(errors.Unusable(NASTY), id="no login"),
        pytest.param(errors.ApiError(400, NASTY), id="an answer"),
    ],
)
def test_every_error_is_one_line(error: errors.ClientError) -> None:
    """Whoever words an error may quote what came from elsewhere."""
    assert str(error).isprintable()
    assert len(str(error)) <= text.LONGEST


@pytest.mark.parametrize(
    ("error", "systemic"),
    [
        (errors.Unreachable("gone", ambiguous=True), True),
        (errors.Unusable("no token"), True),
        (errors.from_answer(401, b""), True),
        (errors.from_answer(429, b""), True),
        (errors.from_answer(500, b""), False),
        (errors.from_answer(409, b""), False),
        (errors.from_answer(403, b""), False),
    ],
    ids=["no answer", "no login", "401", "429", "500", "409", "403"],
)
def test_some_errors_are_systemic(error: errors.ClientError, *, systemic: bool) -> None:
    """When the server is away or does not know us, other requests would fare no better."""
    assert errors.is_systemic(error) is systemic


def test_a_status_inside_a_watch_is_an_error_too() -> None:
    """An ERROR event carries its code inside; one without a code may have had effects."""
    gone = errors.from_status(errors.Status(message="too old", reason="Expired", code=410))
    unknown = errors.from_status(errors.Status(message="?"))

    assert type(gone) is errors.Gone
    assert type(unknown) is errors.Unavailable
