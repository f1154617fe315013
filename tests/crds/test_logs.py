"""However often others are wrong in ever new ways, the log grows by so much a minute, and counts the rest."""

import io
import logging
from typing import Final

import pytest

from berth_crds import logs
from support import clock

KIND: Final = "GpuPod %s names nothing: %s"


class Scene:
    """A limiter, its clock, and what it has written."""

    def __init__(self) -> None:
        self.time = clock.Clock()
        self.limiter = logs.Limiter(self.time)
        self.written: list[str] = []

    def say(self, kind: str, *arguments: object, about: str = "", level: int = logging.WARNING) -> None:
        """Make a record, and keep what is written of it."""
        record = logging.LogRecord("x", level, "x.py", 1, kind, arguments, None)
        record.__dict__.update(logs.about(about))
        self.written += [one.getMessage() for one in self.limiter.admitted(record)]


@pytest.fixture
def scene() -> Scene:
    """Return a limiter that has written nothing."""
    return Scene()


def test_one_object_has_few_lines_of_a_kind(scene: Scene) -> None:
    """What is wrong with one object in ever new ways hides nothing of the same kind about another."""
    for at in range(1000):
        scene.say(KIND, "ml/noisy", f"fault {at}", about="ml/noisy")
    scene.say(KIND, "ml/quiet", "a fault", about="ml/quiet")

    assert scene.written == [
        *(f"GpuPod ml/noisy names nothing: fault {at}" for at in range(logs.MOST_ABOUT_ONE)),
        "GpuPod ml/quiet names nothing: a fault",
    ]


def test_many_objects_have_some_lines_of_a_kind(scene: Scene) -> None:
    """A crowd in which each is wrong once fills its part, and other kinds are written as ever."""
    for at in range(1000):
        scene.say(KIND, at, "a fault", about=str(at))
    scene.say("node %s takes no pod", "n1", about="n1")

    assert len(scene.written) == logs.MOST_OF_A_KIND + 1
    assert scene.written[-1] == "node n1 takes no pod"


def test_what_was_left_out_is_counted(scene: Scene) -> None:
    """The next record a minute later comes after the number of those left out, and all is as at first."""
    for at in range(100):
        scene.say(KIND, at, "a fault")
    scene.written.clear()

    scene.time.advance(logs.WINDOW_SECONDS)
    scene.say(KIND, "ml/late", "a fault")
    scene.time.advance(logs.WINDOW_SECONDS)
    scene.say(KIND, "ml/later", "a fault")

    left_out = 100 - logs.MOST_OF_A_KIND
    assert scene.written == [
        f"{left_out} more like this were not written: GpuPod 99 names nothing: a fault",
        "GpuPod ml/late names nothing: a fault",
        "GpuPod ml/later names nothing: a fault",
    ]


def test_the_number_has_the_level_of_what_it_counts() -> None:
    """Who looks for warnings finds no line that only counts what is no warning."""
    time = clock.Clock()
    limiter = logs.Limiter(time)
    info, error = (
        [logging.LogRecord("x", level, "x.py", 1, kind, (at,), None) for at in range(100)]
        for level, kind in ((logging.INFO, "labelled %s"), (logging.ERROR, "failed %s"))
    )
    for one in (*info, *error):
        list(limiter.admitted(one))
    time.advance(logs.WINDOW_SECONDS)

    told = [(one.levelno, one.getMessage()) for one in limiter.admitted(info[0])]

    assert told[:2] == [
        (logging.INFO, "40 more like this were not written: labelled 99"),
        (logging.ERROR, "40 more like this were not written: failed 99"),
    ]


def test_all_kinds_together_have_a_limit(scene: Scene) -> None:
    """Sentences of ever new kinds, as libraries make them, fill neither the log nor the memory."""
    for at in range(5000):
        scene.say(f"a sentence of its own: {at}", level=logging.ERROR)
    written = len(scene.written)
    scene.written.clear()
    scene.time.advance(logs.WINDOW_SECONDS)
    scene.say("at last")

    assert written == logs.MOST_OF_ALL
    assert scene.written == [
        f"{5000 - written} more like this were not written: records of other kinds",
        "at last",
    ]


def test_an_error_is_written_however_much_else_is(scene: Scene) -> None:
    """Whoever can fill the log cannot keep out of it why a program ends."""
    for at in range(5000):
        scene.say(f"a sentence of its own: {at}")
    scene.say("leadership lost: %s", "somebody deleted the Lease", level=logging.ERROR)

    assert scene.written[-1] == "leadership lost: somebody deleted the Lease"


def test_who_wants_all_details_gets_them(scene: Scene) -> None:
    """What is told at level DEBUG has no limit, and takes nothing from what has."""
    for at in range(1000):
        scene.say(KIND, at, "a detail", level=logging.DEBUG)
    scene.say(KIND, "ml/train", "a fault")

    assert len(scene.written) == 1001


def test_the_programs_write_through_the_limit() -> None:
    """A handler of theirs writes the records that are admitted, each as one clean line."""
    stream = io.StringIO()
    handler = logs.Handler(logs.Limiter(clock.Clock()))
    handler.setStream(stream)
    handler.setFormatter(logs.Formatter("%(levelname)s %(message)s"))

    for at in range(1000):
        handler.handle(logging.LogRecord("x", logging.WARNING, "x.py", 1, "pod %s\n", (at,), None))

    assert stream.getvalue().splitlines() == [f"WARNING pod {at}" for at in range(logs.MOST_OF_A_KIND)]
