"""Answers become types: by their code, whatever stands in their body."""

import json
from typing import Final

import hypothesis
import pytest
from hypothesis import strategies

from berth_crds import text
from berth_crds.client import errors
from support import stub


def status(code: int, message: str, reason: str = "Because") -> bytes:
    """Write an answer as the API server words it."""
    return json.dumps(stub.failure(code, message, reason=reason)).encode()


TOO_LARGE: Final = "etcdserver: request is too large"
BIND: Final = f'cannot be fulfilled on pods/binding "p": {TOO_LARGE}'
QUOTED: Final = f'the webhook cannot read the label "{TOO_LARGE}": no answer in time'


@pytest.mark.parametrize(
    ("code", "body", "kind"),
    [
        *(
            pytest.param(code, status(code, "no"), kind)
            for code, kind in errors.BY_CODE.items()
            if code != 404
        ),
        *(pytest.param(code, status(code, "no"), errors.ApiError) for code in (300, 302, 405, 418)),
        *(pytest.param(code, status(code, "no"), errors.Unavailable) for code in (500, 502, 503, 504, 599)),
        pytest.param(404, status(404, "no", "NotFound"), errors.NotFound),
        pytest.param(404, b"404 page not found\n", errors.AmbiguousNotFound, id="404, no backend"),
        pytest.param(404, b"", errors.AmbiguousNotFound, id="404, nothing"),
        pytest.param(404, b'{"code": 404}', errors.AmbiguousNotFound, id="404, no reason"),
        pytest.param(
            404, status(404, "no", "NotFoundation"), errors.AmbiguousNotFound, id="404, other reason"
        ),
        pytest.param(500, status(500, TOO_LARGE), errors.Oversized, id="etcd refuses a patch"),
        pytest.param(409, status(409, BIND), errors.Oversized, id="etcd refuses a bind"),
        pytest.param(500, status(500, QUOTED), errors.Unavailable, id="words that an author had quoted"),
        pytest.param(409, b"", errors.Conflict, id="nothing"),
        pytest.param(409, b"<html><body>502 Bad Gateway</body></html>", errors.Conflict, id="a proxy's page"),
        pytest.param(409, b'"no"', errors.Conflict, id="a bare word of JSON"),
        pytest.param(409, b"[]", errors.Conflict, id="a list"),
        pytest.param(409, b'{"message": null, "details": null, "code": null}', errors.Conflict, id="nulls"),
        pytest.param(409, b"\xff\xfe\x00", errors.Conflict, id="no UTF-8"),
        pytest.param(409, b'{"message": "\xff"}', errors.Conflict, id="no UTF-8 inside JSON"),
        pytest.param(409, b'{"message": "too ear', errors.Conflict, id="half of JSON"),
        pytest.param(409, b"[" * 200_000, errors.Conflict, id="nested without end"),
        pytest.param(
            409, b'{"message": 7, "details": {"retryAfterSeconds": "soon"}}', errors.Conflict, id="types"
        ),
    ],
)
def test_the_type_of_an_error_is_that_of_its_code(
    code: int, body: bytes, kind: type[errors.ApiError]
) -> None:
    """Callers catch types; a body costs the message at most, but for what makes another error of it."""
    error = errors.from_answer(code, body)

    assert (type(error), error.code) == (kind, code)
    assert 0 < len(error.message) <= 500


ANONYMOUS: Final = 'pods is forbidden: User "system:anonymous" cannot list resource "pods"'


@pytest.mark.parametrize(
    ("code", "message", "sentence"),
    [
        pytest.param(409, "no", "409 Because: no", id="as the server words it"),
        pytest.param(403, ANONYMOUS, f"403 Because: {errors.NO_CREDENTIALS} ({ANONYMOUS})", id="anonymous"),
    ],
)
def test_an_error_has_the_words_of_the_server(code: int, message: str, sentence: str) -> None:
    """Who is anonymous reads first that no credentials arrived."""
    error = errors.from_answer(code, status(code, message))

    assert (str(error), error.reason) == (sentence, "Because")


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
    body = json.dumps(stub.failure(429, "slow down") | {"details": {"retryAfterSeconds": hint}}).encode()

    error = errors.from_answer(429, body, retry_after=header)

    assert error.retry_after == seconds


NASTY = "no\x1b[31m\r\n2026 ERROR forged\u202e\u200b\x00\x7f\x9b" + "!" * 100_000
SHOWN = r"no\x1b[31m 2026 ERROR forged\u202e\u200b\x00\x7f\x9b!!"


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(errors.from_answer(409, status(409, NASTY, NASTY)), id="a Status"),
        pytest.param(errors.from_status(errors.Status(NASTY, NASTY, 500)), id="a Status in a watch"),
        pytest.param(errors.from_answer(502, NASTY.encode()), id="a page"),
        pytest.param(errors.Unreachable(NASTY, ambiguous=True), id="no answer"),
        pytest.param(errors.Unusable(NASTY), id="no login"),
    ],
)
def test_an_error_is_one_short_line(error: errors.ClientError) -> None:
    """Errors land in logs and conditions: nothing of what a server sent steers or floods them."""
    for part in (str(error), getattr(error, "message", ""), getattr(error, "reason", "")):
        assert part.isprintable()
        assert len(part) <= text.LONGEST
    assert SHOWN in str(error)


@pytest.mark.parametrize(
    ("error", "systemic"),
    [
        (errors.Unreachable("gone", ambiguous=True), True),
        (errors.Unusable("no token"), True),
        (errors.from_answer(401, b""), True),
        (errors.from_answer(429, b""), True),
        (errors.from_answer(500, b""), False),
        (errors.from_answer(500, status(500, TOO_LARGE)), False),
        (errors.from_answer(409, b""), False),
        (errors.from_answer(403, b""), False),
    ],
    ids=["no answer", "no login", "401", "429", "500", "too large", "409", "403"],
)
def test_some_errors_are_systemic(error: errors.ClientError, *, systemic: bool) -> None:
    """When the server is away or does not know us, other requests would fare no better."""
    assert errors.is_systemic(error) is systemic
