"""What others wrote becomes one printable line of bounded length, and stays what it was where it can."""

import logging

import hypothesis
import pytest
from hypothesis import strategies

from berth_crds import logs, text


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("", id="nothing"),
        pytest.param("two  blanks, and a \\ backslash", id="a plain line"),
        pytest.param("Größe, 大きさ, Размер", id="words of many languages"),
        pytest.param("x" * text.LONGEST, id="as long as may be"),
    ],
)
def test_a_printable_line_stays_as_it_is(said: str) -> None:
    """Who writes plainly is quoted to the letter."""
    assert text.line(said) == said


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        pytest.param("a\x1b[31mb\x07", r"a\x1b[31mb\x07", id="escape sequences"),
        pytest.param("a\r\n\tb\n", "a b", id="line breaks"),
        pytest.param("a\x85b\u2028c\u2029d\x0be\x0cf", "a b c d e f", id="line separators"),
        pytest.param("a\x00\x7f\x9bb", r"a\x00\x7f\x9bb", id="controls of old and new"),
        pytest.param("a\u202eb\u2066c\u200fd", r"a\u202eb\u2066c\u200fd", id="marks of direction"),
        pytest.param("a\u200bb\ufeffc\u2060d", r"a\u200bb\ufeffc\u2060d", id="marks without width"),
        pytest.param("a\ud800b", r"a\ud800b", id="half of a pair"),
        pytest.param("a\xa0b\u3000c", "a b c", id="blanks of other kinds"),
    ],
)
def test_what_steers_the_output_is_spelt_out(said: str, shown: str) -> None:
    """Nothing that moves a cursor, turns letters round or begins a line gets through."""
    assert text.line(said) == shown


def test_what_is_too_long_is_cut() -> None:
    """A line has a bound, with its marks of omission, however much the escapes take."""
    assert text.line("x" * 11, most=10) == "xxxxxxx..."
    assert text.line("\x1b" * 5, most=10) == r"\x1b\x1..."
    assert len(text.line("\u202e" * 10_000_000)) == text.LONGEST


@hypothesis.given(said=strategies.text(), most=strategies.integers(3, 40))
def test_a_line_is_a_line(said: str, most: int) -> None:
    """Whatever is said, it is printable, bounded, can be sent, and is not changed twice."""
    shown = text.line(said, most=most)

    assert shown.isprintable()
    assert len(shown) <= most
    assert shown.encode().decode() == shown
    assert text.line(shown, most=most) == shown


# ---------------------------------------------------------------- logs


def logged(*arguments: object, fault: str = "") -> str:
    """Format one record as the programs do."""
    kind = (ValueError, ValueError(fault), None) if fault else None
    record = logging.LogRecord("x", logging.WARNING, "x.py", 1, "pod %s: %s", arguments, kind)
    return logs.Formatter("%(levelname)s %(message)s").format(record)


def test_a_record_is_one_line() -> None:
    """No name and no error can forge a second record, or reach the terminal of who reads the log."""
    assert logged("a\nERROR b", "\x1b[2J") == r"WARNING pod a ERROR b: \x1b[2J"


def test_a_long_record_is_cut() -> None:
    """A record has a bound, too."""
    assert len(logged("a", "b" * 1_000_000)) == logs.LONGEST


def test_a_traceback_keeps_its_lines_and_nothing_else() -> None:
    """Faults of our own are told line by line, and each of these is clean."""
    told = logged("a", "b", fault="bad\x1b[31m\nvalue").splitlines()

    assert told == ["WARNING pod a: b", r"ValueError: bad\x1b[31m", "value"]
