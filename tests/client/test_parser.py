"""An answer is read the same however it is cut up, costs no more for it, and nothing of it is without end."""

import contextlib
import itertools
import time
from collections.abc import Iterable, Iterator

import hypothesis
import pytest
from hypothesis import strategies

from berth_crds.client import parser

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
FAILED = b"HTTP/1.1 500 Internal Server Error\r\n"
GENEROUS_SECONDS = 20.0  # What was quadratic took minutes.

ANSWERS = {
    "of known length": OK + b"Content-Length: 5\r\nA: b\r\n\r\nhello",
    "empty": OK + b"Content-Length: 0\r\n\r\n",
    "chunks": CHUNKED + b'3\r\nhel\r\n02;x="y"\r\nlo\r\n0\r\n\r\n',
    "trailed": CHUNKED + b"5 ; a\r\nhello\r\n000\r\nA: b\r\nC: d\r\n\r\n",
    "after interim ones": b"HTTP/1.1 100 \r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\n"
    + OK
    + b"Content-Length: 1\r\n\r\n.",
    "without a body": b"HTTP/1.1 204\r\n\r\n",
    "old": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "an error": FAILED + b"Content-Length: 2\r\nRetry-After: 1\r\n\r\n{}",
}


def read(pieces: Iterable[bytes]) -> parser.Response | None:
    """Feed pieces until there is an answer."""
    reader = parser.Parser()
    return next(filter(None, map(reader.feed, pieces)), None)


def cut(text: bytes, places: Iterable[int]) -> list[bytes]:
    """Cut a text at these places."""
    edges = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


def endless(head: bytes, piece: bytes, *, most: int) -> Iterator[bytes]:
    """Yield a head, and then one piece again and again, until `most` bytes were yielded."""
    yield head
    yield from itertools.repeat(piece, most // len(piece))
    pytest.fail(f"{most} bytes were taken")


# ---------------------------------------------------------------- one answer, however it comes


@hypothesis.given(
    text=strategies.sampled_from(list(ANSWERS.values())),
    places=strategies.lists(strategies.integers(0, 120)),
)
def test_an_answer_is_the_same_however_it_is_cut_up(text: bytes, places: list[int]) -> None:
    """Where the network ends its pieces means nothing."""
    assert read(cut(text, places)) == read([text])
    assert read([text]) is not None


@pytest.mark.parametrize("text", ANSWERS.values(), ids=ANSWERS.keys())
def test_no_answer_is_ready_before_its_last_byte(text: bytes) -> None:
    """What ends early would leave its rest to the next exchange."""
    assert read([text[:-1]]) is None


@hypothesis.given(
    text=strategies.sampled_from(list(ANSWERS.values())),
    changes=strategies.lists(
        strategies.tuples(strategies.integers(0, 120), strategies.binary(max_size=4)), min_size=1, max_size=4
    ),
    places=strategies.lists(strategies.integers(0, 120), max_size=5),
)
def test_a_damaged_answer_raises_nothing_else(
    text: bytes, changes: list[tuple[int, bytes]], places: list[int]
) -> None:
    """Damaged answers are answers, are waited for, or are malformed; the same however they come."""
    for at, other in changes:
        text = text[:at] + other + text[at + 1 :]

    def outcome(pieces: list[bytes]) -> tuple[int, bytes] | str | None:
        try:
            found = read(pieces)
        except parser.MalformedResponse:
            return "malformed"
        return (found.status, found.body) if found else None

    assert outcome(cut(text, places)) == outcome([text])


@hypothesis.given(pieces=strategies.lists(strategies.binary(max_size=50), max_size=5))
def test_noise_raises_nothing_else(pieces: list[bytes]) -> None:
    """Bytes of any kind are malformed or not enough."""
    with contextlib.suppress(parser.MalformedResponse):
        assert read(pieces) is None


def test_headers_are_found_by_their_name() -> None:
    """Case and blanks around a value mean nothing; a header given twice is one with a comma."""
    answer = read([OK + b"cOntent-length:\t1 \r\nVia: a\r\nVIA:b\r\nEmpty:\r\n\r\n."])

    assert answer is not None
    assert answer.headers == {b"content-length": b"1", b"via": b"a, b", b"empty": b""}


# ---------------------------------------------------------------- what two readers could read in two ways

MALFORMED = {
    "a length beside chunks": OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks beside a length": OK + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two codings": OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "chunked twice": OK + b"Transfer-Encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks of chunks": OK + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "packed chunks": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "the length twice": OK + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\n.",
    "two lengths": OK + b"Content-Length: 1, 2\r\n\r\n..",
    "a length with a sign": OK + b"Content-Length: +1\r\n\r\n.",
    "a negative length": OK + b"Content-Length: -1\r\n\r\n.",
    "a length with a gap": OK + b"Content-Length: 1_0\r\n\r\n..........",
    "a length in other digits": OK + "Content-Length: \u0661\r\n\r\n.".encode(),
    "a length in the sixteens": OK + b"Content-Length: 0x1\r\n\r\n.",
    "a length of many digits": OK + b"Content-Length: " + b"0" * 5000 + b"\r\n\r\n",
    "an empty length": OK + b"Content-Length:\r\n\r\n",
    "a chunk of 0x2": CHUNKED + b"0x2\r\nab\r\n0\r\n\r\n",
    "a chunk of +2": CHUNKED + b"+2\r\nab\r\n0\r\n\r\n",
    "a chunk of -2": CHUNKED + b"-2\r\nab\r\n0\r\n\r\n",
    "a chunk of 1_0": CHUNKED + b"1_0\r\n" + b"a" * 16 + b"\r\n0\r\n\r\n",
    "a chunk in other digits": CHUNKED + "\u0662\r\nab\r\n0\r\n\r\n".encode(),
    "a chunk after a blank": CHUNKED + b" 2\r\nab\r\n0\r\n\r\n",
    "a chunk of no length": CHUNKED + b"\r\nab\r\n0\r\n\r\n",
    "a chunk that goes on": CHUNKED + b"2\r\nabc\r\n0\r\n\r\n",
    "a chunk with a bare end": CHUNKED + b"2\nab\r\n0\r\n\r\n",
    "a folded header": OK + b"A: b\r\n c\r\nContent-Length: 0\r\n\r\n",
    "a folded length": OK + b"Content-Length: 0\r\n\t1\r\n\r\n.",
    "a folded trailer": CHUNKED + b"0\r\nA: b\r\n c\r\n\r\n",
    "a bare LF": OK + b"A: b\nContent-Length: 0\r\n\r\n",
    "bare line ends all along": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n" + OK + b"Content-Length: 0\r\n\r\n",
    "a bare CR": OK + b"A: b\rContent-Length: 1\r\nContent-Length: 0\r\n\r\n",
    "a NUL": OK + b"A: b\0\r\nContent-Length: 0\r\n\r\n",
    "a NUL in a name": OK + b"A\0: b\r\nContent-Length: 0\r\n\r\n",
    "a blank before the colon": OK + b"Content-Length : 0\r\n\r\n",
    "a name with a blank": OK + b"A b: c\r\nContent-Length: 0\r\n\r\n",
    "no name": OK + b": b\r\nContent-Length: 0\r\n\r\n",
    "no colon": OK + b"nothing\r\nContent-Length: 0\r\n\r\n",
    "no end told": OK + b"\r\n",
    "another version": b"HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n",
    "a code of four digits": b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
    "a code in other digits": "HTTP/1.1 \u0662\u0660\u0660 OK\r\nContent-Length: 0\r\n\r\n".encode(),
    "an empty line at first": b"\r\n" + OK + b"Content-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_could_be_read_in_two_ways_is_refused(text: bytes) -> None:
    """Whoever stands between us and the server must not be able to read another answer than we do."""
    with pytest.raises(parser.MalformedResponse):
        read([text])


BODILESS = b"HTTP/1.1 %d OK\r\n%s\r\n\r\n"


@pytest.mark.parametrize(
    ("text", "keep"),
    [
        pytest.param(ANSWERS["chunks"], True, id="chunks"),
        pytest.param(ANSWERS["of known length"], True, id="of known length"),
        pytest.param(ANSWERS["without a body"], True, id="without a body"),
        pytest.param(ANSWERS["of known length"] + b"H", False, id="with more behind it"),
        pytest.param(ANSWERS["old"], False, id="old"),
        pytest.param(
            OK + b"Content-Length: 0\r\nConnection: keep-alive\r\nConnection: Close\r\n\r\n",
            False,
            id="closed",
        ),
        pytest.param(BODILESS % (204, b"Content-Length: 5"), False, id="a body where there is none"),
        pytest.param(
            BODILESS % (304, b"Transfer-Encoding: chunked"), False, id="chunks where there are none"
        ),
    ],
)
def test_a_connection_is_kept_where_the_answer_has_ended(text: bytes, keep: bool) -> None:  # noqa: FBT001
    """The rest of one answer must never be the beginning of the next."""
    answer = read([text])

    assert answer is not None
    assert answer.keep is keep


# ---------------------------------------------------------------- bounds

LITTLE = 4 * parser.LONGEST_HEAD


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        pytest.param(b"", b"HTTP/1.1 100 Continue\r\n\r\n", id="interim answers"),
        pytest.param(b"HTTP/1.1 200 ", b"a" * 100, id="a status line"),
        pytest.param(OK, b"A: b\r\n", id="headers"),
        pytest.param(OK, b"A: b\n", id="headers with bare ends"),
        pytest.param(OK, b"a" * 1000, id="a name"),
        pytest.param(OK + b"A: ", b"b" * 100, id="a header"),
        pytest.param(CHUNKED, b"0" * 100, id="the size of a chunk"),
        pytest.param(CHUNKED + b"1;", b"a" * 100, id="what is said beside a chunk"),
        pytest.param(CHUNKED, b"1;" + b"a" * 1000 + b"\r\n.\r\n", id="what is said beside many chunks"),
        pytest.param(CHUNKED + b"1\r\n.", b"a" * 100, id="the end of a chunk"),
        pytest.param(CHUNKED + b"0\r\n", b"A: b\r\n", id="trailers"),
        pytest.param(CHUNKED + b"0\r\nA: ", b"b" * 100, id="a trailer"),
    ],
)
def test_what_is_no_body_has_an_end(head: bytes, piece: bytes) -> None:
    """Whatever is said without end is refused long before it fills the memory."""
    with pytest.raises(parser.MalformedResponse):
        read(endless(head, piece, most=LITTLE))


def test_a_body_beyond_reason_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A length that nobody could keep is refused before its body comes, and chunks when they exceed it."""
    monkeypatch.setattr(parser, "LONGEST_BODY", 10_000)

    with pytest.raises(parser.MalformedResponse, match="more than 10000 bytes"):
        read([OK + b"Content-Length: 10001\r\n\r\n"])
    with pytest.raises(parser.MalformedResponse, match="more than 10000 bytes"):
        read(endless(CHUNKED, b"10\r\n" + b"a" * 16 + b"\r\n", most=LITTLE))


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        pytest.param(FAILED + b"Content-Length: 9999999999\r\n\r\n", b"no " * 100, id="of known length"),
        pytest.param(
            FAILED + b"Transfer-Encoding: chunked\r\n\r\n", b"12c\r\n" + b"no " * 100 + b"\r\n", id="chunks"
        ),
    ],
)
def test_of_an_error_the_beginning_is_enough(head: bytes, piece: bytes) -> None:
    """The code of an error counts, however much is said of it; the rest of it is not waited for."""
    answer = read(endless(head, piece, most=LITTLE))

    assert answer is not None
    assert (answer.status, len(answer.body), answer.keep) == (500, parser.LONGEST_ERROR, False)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        pytest.param(CHUNKED + b"1\r\na\r\n" * 40_000 + b"0\r\n\r\n", 50, id="many chunks in many pieces"),
        pytest.param(OK + b"Content-Length: 400000\r\n\r\n" + b"a" * 400_000, 1, id="byte by byte"),
        pytest.param(
            OK + b"A: b\r\n" * 8000 + b"Content-Length: 0\r\n\r\n", 1, id="a long head byte by byte"
        ),
    ],
)
def test_pieces_cost_no_more_than_the_whole(text: bytes, size: int) -> None:
    """Reading takes up where it was: an answer in pieces must not hold up everything else."""
    started = time.process_time()

    answer = read(text[at : at + size] for at in range(0, len(text), size))

    assert answer is not None
    assert time.process_time() - started < GENEROUS_SECONDS
