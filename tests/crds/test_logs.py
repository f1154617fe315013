"""However often others are wrong in ever new ways, the log grows by so much a minute, and counts the rest."""

import io
import logging
from typing import Final

import pytest

from berth_crds import logs
from support import clock

KIND: Final = "GpuPod %s names nothing: %s"


class Log:
    """A limiter, its clock, and the records that it has admitted."""

    def __init__(self) -> None:
        self.time = clock.Clock()
        self.limiter = logs.Limiter(self.time)
        self.records: list[logging.LogRecord] = []

    def write(self, kind: str, *arguments: object, about: str = "", level: int = logging.WARNING) -> None:
        """Make a record, and keep what is written of it."""
        record = logging.LogRecord("x", level, "x.py", 1, kind, arguments, None)
        record.__dict__.update(logs.about(about))
        self.records += self.limiter.admitted(record)

    def next_window(self) -> None:
        """Forget what was written, and begin the next minute."""
        self.records.clear()
        self.time.advance(logs.WINDOW_SECONDS)

    @property
    def messages(self) -> list[str]:
        """What was written."""
        return [record.getMessage() for record in self.records]


@pytest.fixture
def log() -> Log:
    """Return a limiter that has written nothing."""
    return Log()


def test_one_object_has_few_lines_of_a_kind(log: Log) -> None:
    """What is wrong with one object in ever new ways hides nothing of the same kind about another."""
    for at in range(1000):
        log.write(KIND, "ml/noisy", f"fault {at}", about="ml/noisy")
    log.write(KIND, "ml/quiet", "a fault", about="ml/quiet")

    assert log.messages == [
        *(f"GpuPod ml/noisy names nothing: fault {at}" for at in range(logs.MOST_ABOUT_ONE)),
        "GpuPod ml/quiet names nothing: a fault",
    ]


def test_many_objects_have_some_lines_of_a_kind(log: Log) -> None:
    """A crowd in which each is wrong once fills its part, and other kinds are written as ever."""
    for at in range(1000):
        log.write(KIND, at, "a fault", about=str(at))
    log.write("node %s takes no pod", "n1", about="n1")

    assert len(log.records) == logs.MOST_OF_A_KIND + 1
    assert log.messages[-1] == "node n1 takes no pod"


def test_what_was_left_out_is_counted(log: Log) -> None:
    """The next record a minute later comes after the number of those left out, and all is as at first."""
    for at in range(100):
        log.write("labelled %s", at, level=logging.INFO)
        log.write("failed %s", at, level=logging.ERROR)
    log.next_window()

    log.write("labelled %s", "late", level=logging.INFO)
    log.time.advance(logs.WINDOW_SECONDS)
    log.write("labelled %s", "later", level=logging.INFO)

    left_out = 100 - logs.MOST_OF_A_KIND
    assert [(record.levelno, record.getMessage()) for record in log.records] == [
        (logging.INFO, f"{left_out} more like this were not written: labelled 99"),
        (logging.ERROR, f"{left_out} more like this were not written: failed 99"),
        (logging.INFO, "labelled late"),
        (logging.INFO, "labelled later"),
    ]


def test_all_kinds_together_have_a_limit(log: Log) -> None:
    """Sentences of ever new kinds, as libraries make them, fill neither the log nor the memory."""
    for at in range(5000):
        log.write(f"a sentence of its own: {at}", level=logging.ERROR)
    written = len(log.records)
    log.next_window()
    log.write("at last")

    left_out = f"{5000 - written} more like this were not written: records of other kinds"
    assert (written, log.messages) == (logs.MOST_OF_ALL, [left_out, "at last"])


def test_an_error_is_written_however_much_else_is(log: Log) -> None:
    """Whoever can fill the log cannot keep out of it why a program ends."""
    for at in range(5000):
        log.write(f"a sentence of its own: {at}")
    log.write("leadership lost: %s", "somebody deleted the Lease", level=logging.ERROR)

    assert log.messages[-1] == "leadership lost: somebody deleted the Lease"


def test_details_have_no_limit(log: Log) -> None:
    """All records of level DEBUG are written, and take nothing from what has a limit."""
    for at in range(1000):
        log.write(KIND, at, "a detail", level=logging.DEBUG)
    log.write(KIND, "ml/train", "a fault")

    assert len(log.records) == 1001


def test_the_programs_write_through_the_limit() -> None:
    """A handler of theirs writes the records that are admitted, each as one clean line."""
    stream = io.StringIO()
    handler = logs.Handler(logs.Limiter(clock.Clock()))
    handler.setStream(stream)
    handler.setFormatter(logs.PlainFormatter("%(levelname)s %(message)s"))

    for at in range(1000):
        handler.handle(logging.LogRecord("x", logging.WARNING, "x.py", 1, "pod %s\n", (at,), None))

    assert stream.getvalue().splitlines() == [f"WARNING pod {at}" for at in range(logs.MOST_OF_A_KIND)]
