"""A log of JSON: one object a line, whoever wrote what it tells of, and whoever writes the record."""

import datetime as dt
import json
import logging
import math
import subprocess
import sys
from typing import Any, Final

import pytest

from berth_crds import logs

NASTY: Final = "a\x1b[2J\r\n2026 forged\u202e\u200b\x9b\u2028\x00é漢"
SHOWN: Final = r"a\x1b[2J 2026 forged\u202e\u200b\x9b \x00é漢"


def line(form: object, *arguments: object, level: int = logging.INFO, fault: Any = None, **extra: Any) -> str:
    """Format a record, which must be one line that is safe to print anywhere."""
    record = logging.LogRecord("berth.test", level, "x.py", 1, form, arguments, fault)
    record.__dict__.update(extra)
    made = logs.JsonFormatter().format(record)
    assert made.isascii()
    assert made.isprintable()
    return made


def fault(words: str) -> logs.ExceptionInfo:
    """Return an error of these words, as a record has it."""
    with pytest.raises(ValueError) as caught:
        raise ValueError(words)
    return caught.type, caught.value, caught.tb


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


CARDS: Final = [{"minor": 0, "uuid": "GPU-0"}]


@pytest.mark.parametrize(
    ("extra", "fields"),
    [
        pytest.param(logs.pod("ml/a"), {"about": "ml/a", "namespace": "ml", "pod": "a"}, id="a pod"),
        pytest.param(
            logs.node("n1", devices=("GPU-0",)),
            {"about": "n1", "node": "n1", "devices": ["GPU-0"]},
            id="a node",
        ),
        pytest.param(logs.about("Device n1"), {"about": "Device n1"}, id="another object"),
        pytest.param(
            logs.fields(node=None, share=0.4, alive=True, cards=CARDS),
            {"node": None, "share": 0.4, "alive": True, "cards": CARDS},
            id="values of all kinds",
        ),
        pytest.param(
            logs.fields(most=math.inf, none=math.nan, kind=logging.Logger, why=OSError("no")),
            {"most": "inf", "none": "nan", "kind": "<class 'logging.Logger'>", "why": "no"},
            id="what JSON has no word for",
        ),
        pytest.param(
            logs.fields(message="forged", level="debug", logger="forged", time="then"),
            {},
            id="names of what each line has",
        ),
        pytest.param({"fields": ["a", "b"]}, {}, id="a field of a library"),
        pytest.param({"fields": {1: "a", "b\n": "c"}}, {"1": "a", "b": "c"}, id="names of a library"),
    ],
)
def test_what_a_record_is_about_are_fields(extra: dict[str, Any], fields: dict[str, Any]) -> None:
    """Values stay what they are, take the place of nothing that each line has, and spoil no line."""
    found = read("x", **extra)

    assert found.pop("time").endswith("Z")
    assert found == {"level": "info", "logger": "berth.test", "message": "x", **fields}


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
    assert all(line.isprintable() for line in found["traceback"].split("\n"))


def test_there_is_no_traceback_where_there_is_no_error() -> None:
    """Who writes an error that is none has a line all the same."""
    assert "traceback" not in read("x", fault=(None, None, None))


def test_a_line_has_a_limit() -> None:
    """However long a message, a list or a traceback is."""
    extra: dict[str, Any] = logs.fields(list=["z"] * 10_000, map=dict.fromkeys(map(str, range(10_000))))

    made = line("y" * 1_000_000, fault=fault("x\n" * 100_000), **extra)

    assert len(made) < 2 * logs.LONGEST_TRACEBACK
    assert len(json.loads(made)["list"]) == logs.MOST_ITEMS


@pytest.mark.parametrize(
    ("form", "arguments"), [("%d pods", ("many",)), ("%s %s", ("one",)), (ValueError("v"), ())]
)
def test_a_library_that_writes_nonsense_has_its_line(form: object, arguments: tuple[object, ...]) -> None:
    """Arguments that do not suit a message are left out of it."""
    assert read(form, *arguments)["message"] == str(form)


PROGRAM: Final = """
import logging, sys, threading, warnings
from berth_crds import logs
logs.start("info", "%(message)s", sys.argv[1])
def fail(): raise ValueError("in a thread")
thread = threading.Thread(target=fail, name="helper")
thread.start()
thread.join()
class Failing:
    def __del__(self): raise ValueError("too late")
Failing()
warnings.warn("old\\nways", RuntimeWarning)
logging.getLogger("kopf.objects").error("Handler failed", exc_info=ValueError("no"))
logs.report_exit("berth-test", "there is\\nno server")
raise ValueError("at last")
"""


def run(style: str) -> str:
    """Run it with a log of this style until it fails, and return what it writes to stderr."""
    command = [sys.executable, "-c", PROGRAM, style]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    return ended.stderr


def test_nothing_but_json_comes_from_a_program() -> None:
    """What Python itself would write to stderr, and a program's last words, are lines of the same form."""
    found = [json.loads(line) for line in run("json").splitlines()]

    assert [(line["level"], line["logger"]) for line in found] == [
        ("critical", "berth_crds.logs"),
        ("error", "berth_crds.logs"),
        ("warning", "py.warnings"),
        ("error", "kopf.objects"),
        ("critical", "berth-test"),
        ("critical", "berth_crds.logs"),
    ]
    assert (found[0]["message"], found[4]["message"]) == ("the thread helper failed", "there is no server")
    for at, error in ((0, "in a thread"), (1, "too late"), (3, "no"), (5, "at last")):
        assert found[at]["traceback"].endswith(f"ValueError: {error}")


def test_the_last_words_are_a_sentence_where_the_log_is_text() -> None:
    """People read what went wrong without a time before it."""
    assert "\nberth-test: there is no server\n" in run("text")
