"""What others wrote becomes one printable line of bounded length, and stays what it was where it can."""

import errno
import logging
import re
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import hypothesis
import pytest
from hypothesis import strategies

from berth_crds import logs, text

ROOT: Final = Path(__file__).resolve().parents[2]


PLAIN: Final = ("", "two  blanks, and a \\ backslash", "Größe, 大きさ, Размер", "x" * text.LONGEST)


@pytest.mark.parametrize(
    ("written", "line"),
    [
        *(pytest.param(line, line, id=f"plain: {line[:10]}") for line in PLAIN),
        pytest.param("a\x1b[31mb\x07", r"a\x1b[31mb\x07", id="escape sequences"),
        pytest.param("a\r\n\tb\n", "a b", id="line breaks"),
        pytest.param("a\x85b\u2028c\u2029d\x0be\x0cf", "a b c d e f", id="line separators"),
        pytest.param("a\x00\x7f\x9bb", r"a\x00\x7f\x9bb", id="controls of old and new"),
        pytest.param("a\u202eb\u2066c\u200fd", r"a\u202eb\u2066c\u200fd", id="marks of direction"),
        pytest.param("a\u200bb\ufeffc\u2060d", r"a\u200bb\ufeffc\u2060d", id="marks without width"),
        pytest.param("a\u3164b\u115fc\u034fd", r"a\u3164b\u115fc\u034fd", id="letters that nobody sees"),
        pytest.param("a\ud800b", r"a\ud800b", id="half of a pair"),
        pytest.param("a\xa0b\u3000c", "a b c", id="blanks of other kinds"),
    ],
)
def test_what_steers_the_output_is_spelt_out(written: str, line: str) -> None:
    """Nothing that moves a cursor or begins a line gets through; a plain line stays as it is."""
    assert text.line(written) == line


def test_what_is_too_long_is_cut() -> None:
    """A line has a bound, with its marks of omission, however much the escapes take."""
    assert text.line("x" * 11, most=10) == "xxxxxxx..."
    assert text.line("\x1b" * 5, most=10) == r"\x1b\x1..."
    assert len(text.line("\u202e" * 10_000_000)) == text.LONGEST


@hypothesis.given(written=strategies.text(), most=strategies.integers(3, 40))
def test_a_line_is_a_line(written: str, most: int) -> None:
    """Whatever is written, it is printable, bounded, can be sent, and is not changed twice."""
    shown = text.line(written, most=most)

    assert shown.isprintable()
    assert len(shown) <= most
    assert shown.encode().decode() == shown
    assert text.line(shown, most=most) == shown


def test_no_sentence_is_written_as_python_writes_values() -> None:
    """Values are shown in Python's own form only where a person debugs Python."""
    programs = [path for folder in ("operator", "agent", "crds") for path in (ROOT / folder).rglob("*.py")]
    lines = [line.strip() for path in programs for line in path.read_text().splitlines()]

    # What begins so is the answer of a `__repr__`.
    assert [line for line in lines if re.search("!r}|%r", line) and 'return f"<' not in line] == []


@pytest.mark.parametrize(
    ("write", "word", "shown"),
    [
        pytest.param(text.quoted, "half", "'half'", id="a word"),
        pytest.param(text.quoted, "it's", "'it's'", id="an apostrophe"),
        pytest.param(text.quoted, "a\\b", "'a\\b'", id="a backslash"),
        pytest.param(text.quoted, "a\u202eb", r"'a\u202eb'", id="marks of direction"),
        pytest.param(text.name, "A100-SXM4-80GB", "A100-SXM4-80GB", id="a model"),
        pytest.param(text.name, "team/web.0", "team/web.0", id="a pod"),
        pytest.param(text.name, "/usr/bin/python3", "/usr/bin/python3", id="a program"),
        pytest.param(text.name, "p) v1: GPU dead (", "'p) v1: GPU dead ('", id="a sentence for a name"),
        pytest.param(text.name, "a\u2800b", r"'a\u2800b'", id="a letter that is not seen"),
        pytest.param(text.name, "x') v1: dead ('", r"'x\x27) v1: dead (\x27'", id="quotes in a name"),
    ],
)
def test_what_people_wrote_is_quoted_as_they_wrote_it(
    write: Callable[[str], str], word: str, shown: str
) -> None:
    """Quotes are all that is added: no backslash is doubled, and no quote chosen by what stands inside."""
    assert write(word) == shown


ADDRESS: Final = "Connect call failed ('127.0.0.1', 1)"


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        pytest.param(OSError(errno.ECONNREFUSED, ADDRESS), "Connection refused", id="refused"),
        pytest.param(FileNotFoundError(errno.ENOENT, "-", "a"), "No such file or directory", id="a file"),
        pytest.param(
            socket.gaierror(-2, "Name or service not known"), "Name or service not known", id="a name"
        ),
        pytest.param(ssl.SSLError(1, "[SSL] x (_ssl.c:12)"), "[SSL] x", id="a handshake"),
        pytest.param(
            ssl.SSLCertVerificationError(1, "self-signed (_ssl.c:12)"),
            "the server's certificate is not accepted (CERTIFICATE_VERIFY_FAILED: self-signed)",
            id="a certificate",
        ),
        pytest.param(ValueError("no number"), "no number", id="words of ours"),
        pytest.param(TimeoutError(), "", id="nothing"),
    ],
)
def test_the_cause_of_an_error_is_in_words_of_the_system(error: Exception, cause: str) -> None:
    """No number, no pair of an address and no place in Python's own code is shown to people."""
    assert text.cause(error) == cause


# ---------------------------------------------------------------- logs

MOST: Final = logs.LONGEST_MESSAGE


@pytest.mark.parametrize(
    ("arguments", "fault", "lines"),
    [
        pytest.param(
            ("a\nERROR b", "\x1b[2J"), None, [r"WARNING pod a ERROR b: \x1b[2J"], id="a forged record"
        ),
        pytest.param(
            ("a", "b"),
            "bad\x1b[31m\nvalue",
            ["WARNING pod a: b", r"ValueError: bad\x1b[31m", "value"],
            id="a traceback",
        ),
        pytest.param(
            ("a", "b" * 1_000_000),
            None,
            [f"WARNING pod a: {'b' * MOST}"[: MOST - 3] + "..."],
            id="a long record",
        ),
    ],
)
def test_a_record_is_one_line(arguments: tuple[str, str], fault: str | None, lines: list[str]) -> None:
    """No name and no error can forge a second record or steer a terminal; a traceback keeps its lines."""
    error = (ValueError, ValueError(fault), None) if fault else None
    record = logging.LogRecord("x", logging.WARNING, "x.py", 1, "pod %s: %s", arguments, error)

    assert logs.PlainFormatter("%(levelname)s %(message)s").format(record).splitlines() == lines
