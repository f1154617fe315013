"""A log of JSON: one object a line, whoever wrote what it tells of, and whoever writes the record."""

import datetime as dt
import io
import json
import logging
import subprocess
import sys
from typing import Any, Final

import pytest

from berth_crds import json_lines, logs
from support import clock

NASTY: Final = "a\x1b[2J\r\n2026 forged\u202e\u200b\x9b\u2028\x00é漢"
SHOWN: Final = r"a\x1b[2J 2026 forged\u202e\u200b\x9b \x00é漢"


def line(form: object, *arguments: object, level: int = logging.INFO, fault: Any = None, **extra: Any) -> str:
    """Format a record, which must be one line that is safe to print anywhere."""
    record = logging.LogRecord("berth.test", level, "x.py", 1, form, arguments, fault)
    record.__dict__.update(extra)
    made = json_lines.Formatter().format(record)
    assert made.isascii()
    assert made.isprintable()
    return made


def fault(words: str) -> logs.ExceptionInfo:
    """Fail with these words, and return how that went."""
    with pytest.raises(ValueError) as caught:
        _fail(words)
    return caught.type, caught.value, caught.tb


def _fail(words: str) -> None:
    raise ValueError(words)


def read(form: object, *arguments: object, **rest: Any) -> dict[str, Any]:
    """Format a record and read its line."""
    found: dict[str, Any] = json.loads(line(form, *arguments, **rest))
    return found


def test_a_record_is_an_object() -> None:
    """When, how grave, who, what; the time is UTC and says so."""
    found = read("bound %s", "ml/train", level=logging.WARNING)

    assert list(found) == ["time", "level", "logger", "message"]
    assert (found["level"], found["logger"]) == ("warning", "berth.test")
    assert found["message"] == "bound ml/train"
    assert found["time"].endswith("Z")
    assert abs(dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(found["time"])) < dt.timedelta(minutes=5)


def test_what_a_record_is_about_are_fields() -> None:
    """Names, numbers, lists and objects stay what they are."""
    fields = logs.fields(pod="train", node=None, share=0.4, alive=True, cards=[{"minor": 0, "uuid": "GPU-0"}])

    found = read("bound", **fields)

    assert found["pod"] == "train"
    assert (found["node"], found["share"], found["alive"]) == (None, 0.4, True)
    assert found["cards"] == [{"minor": 0, "uuid": "GPU-0"}]


@pytest.mark.parametrize(
    ("extra", "fields"),
    [
        (logs.pod("ml/train"), {"about": "ml/train", "namespace": "ml", "pod": "train"}),
        (logs.node("n1", devices=("GPU-0",)), {"about": "n1", "node": "n1", "devices": ["GPU-0"]}),
        (logs.about("Device n1"), {"about": "Device n1"}),
    ],
    ids=["pod", "node", "another object"],
)
def test_the_object_of_a_record_is_a_field(extra: dict[str, object], fields: dict[str, object]) -> None:
    """What bounds the lines about one object names it, too."""
    assert read("x", **extra).items() >= fields.items()


def test_no_field_takes_the_place_of_what_each_line_has() -> None:
    """A field of that name is left out."""
    found = read("the message", **logs.fields(message="forged", level="debug", logger="x", time="then"))

    assert (found["message"], found["level"], found["logger"]) == ("the message", "info", "berth.test")
    assert found["time"] != "then"


def test_whatever_somebody_wrote_is_clean_when_it_is_read_again() -> None:
    """Neither the line nor what a collector makes of it steers a terminal."""
    found = read("pod %s", NASTY, **logs.about(NASTY, pod=NASTY, list=[NASTY], map={NASTY: NASTY}))

    assert found["message"] == f"pod {SHOWN}"
    assert found["pod"] == found["about"] == SHOWN
    assert (found["list"], found["map"]) == ([SHOWN], {SHOWN: SHOWN})


def test_an_error_is_one_line() -> None:
    """The traceback is a field, clean in each of its lines, with the error at its end."""
    found = read("it failed", fault=fault(NASTY))

    first, *_, last = found["traceback"].split("\n")
    assert found["message"] == "it failed"
    assert first == "Traceback (most recent call last):"
    assert last.endswith("é漢")
    assert all(one.isprintable() for one in found["traceback"].split("\n"))


def test_there_is_no_traceback_where_there_is_no_error() -> None:
    """Who writes an error that is none has a line all the same."""
    assert "traceback" not in read("x", fault=(None, None, None))


def test_a_line_has_a_limit() -> None:
    """However long a message, a list or a traceback is."""
    extra: dict[str, Any] = logs.fields(list=["z"] * 10_000, map=dict.fromkeys(map(str, range(10_000))))

    made = line("y" * 1_000_000, fault=fault("x\n" * 100_000), **extra)

    assert len(made) < 2 * json_lines.LONGEST_TRACEBACK
    assert len(json.loads(made)["list"]) == json_lines.MOST_ITEMS


def test_what_json_has_no_word_for_is_written_in_words() -> None:
    """A number that is none, or a value of any other kind, spoils no line."""
    found = read(
        "x", **logs.fields(most=float("inf"), none=float("nan"), kind=logging.Formatter, why=OSError("no"))
    )

    assert (found["most"], found["none"], found["why"]) == ("inf", "nan", "no")


@pytest.mark.parametrize(
    ("form", "arguments"), [("%d pods", ("many",)), ("%s %s", ("one",)), (ValueError("v"), ())]
)
def test_a_library_that_writes_nonsense_has_its_line(form: object, arguments: tuple[object, ...]) -> None:
    """Arguments that do not suit a message are left out of it."""
    assert read(form, *arguments)["message"] == str(form)


def test_fields_of_a_library_spoil_no_line() -> None:
    """What it means by that word may be anything."""
    assert list(read("x", fields=["a", "b"])) == ["time", "level", "logger", "message"]
    assert read("x", fields={1: "a", "b\n": "c"}).items() >= {"1": "a", "b": "c"}.items()


def test_lines_of_json_have_the_same_limit() -> None:
    """The summary of what was left out is an object, too."""
    stream, time = io.StringIO(), clock.Clock()
    handler = logs.Handler(logs.Limiter(time))
    handler.setStream(stream)
    handler.setFormatter(json_lines.Formatter())

    for at in range(100):
        handler.handle(logging.LogRecord("x", logging.INFO, "x.py", 1, "pod %s", (at,), None))
    time.advance(logs.WINDOW_SECONDS)
    handler.handle(logging.LogRecord("x", logging.INFO, "x.py", 1, "late", (), None))

    told = [json.loads(one)["message"] for one in stream.getvalue().splitlines()]
    assert told[logs.MOST_OF_A_KIND :] == ["40 more like this were not written: pod 99", "late"]


PROGRAM: Final = """
import logging, sys, threading, warnings
from berth_crds import logs
logs.start("info", "%(message)s", sys.argv[1])
def fail(): raise ValueError("in a thread")
thread = threading.Thread(target=fail, name="helper")
thread.start()
thread.join()
class Odd:
    def __del__(self): raise ValueError("too late")
Odd()
warnings.warn("old\\nways", RuntimeWarning)
logging.getLogger("kopf.objects").error("Handler failed", exc_info=ValueError("no"))
logs.report_exit("berth-test", "there is\\nno server")
raise ValueError("at last")
"""


def test_nothing_but_json_comes_from_a_program() -> None:
    """What Python itself would write to stderr, and a program's last word, are lines of the same form."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, "json"], capture_output=True, text=True, timeout=60, check=False
    )

    found = [json.loads(one) for one in ended.stderr.splitlines()]
    assert ended.returncode == 1
    assert [one["level"] for one in found] == [
        "critical",
        "error",
        "warning",
        "error",
        "critical",
        "critical",
    ]
    assert [one["logger"] for one in found[3:5]] == ["kopf.objects", "berth-test"]
    assert (found[0]["message"], found[4]["message"]) == ("the thread helper failed", "there is no server")
    for at, error in ((0, "in a thread"), (1, "too late"), (3, "no"), (5, "at last")):
        assert found[at]["traceback"].endswith(f"ValueError: {error}")


def test_a_last_word_is_a_sentence_where_the_log_is_text() -> None:
    """People read what went wrong without a time before it."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, "text"], capture_output=True, text=True, timeout=60, check=False
    )

    assert "\nberth-test: there is no server\n" in ended.stderr
