"""The log's lines of binds: each has one as long as they are few, and none is left uncounted."""

import dataclasses
import logging
from typing import Final

import pytest

from berth_crds import json_lines, logs
from berth_operator.engine import rate_limiter
from berth_operator.kube import bind_log, events, pod_status
from berth_operator.scheduling import decisions
from support import builders, clock, timeless, voices

POD: Final = builders.candidate()
SHARES: Final = (
    decisions.Share("GPU-0", 0, 100, 8 << 30),
    decisions.Share("MIG-3", 3, 14, 5 << 30, profile="1g.5gb"),
    decisions.Share("rdma-0", 0, 100, 0, type="rdma"),
)
PLACEMENT: Final = decisions.Placement("n1", (decisions.Grant("main", SHARES),))
WHERE: Final = "ml/p to n1 with card 0 and 1g.5gb of card 3"


class Scene:
    """A log of binds, its clock, and all records that were made."""

    def __init__(self, level: int = logging.INFO) -> None:
        self.time = clock.Clock()
        voice = voices.Voice(level=level)
        self._voice, self.records = voice, voice.records
        self.log = bind_log.BindLog(self.time, voice)

    def bind(self, count: int = 1, *, namespace: str = "ml") -> None:
        """Bind so many pods at one time."""
        pod = dataclasses.replace(POD, namespace=namespace)
        for _ in range(count):
            self.log.bound(pod, PLACEMENT, WHERE)

    @property
    def said(self) -> list[str]:
        """All messages."""
        return self._voice.said


@pytest.fixture
def scene() -> Scene:
    """Lend a log in which nothing stands yet."""
    return Scene()


def test_a_bind_is_a_line(scene: Scene) -> None:
    """It says which pod went where, and in JSON each of its cards."""
    scene.bind()

    assert scene.said == [f"bound {WHERE}"]
    assert getattr(scene.records[0], json_lines.FIELDS) == {
        "namespace": "ml",
        "pod": POD.name,
        "uid": POD.uid,
        "node": "n1",
        "cards": [
            {"uuid": "GPU-0", "minor": 0, "core": 100, "memory": 8 << 30},
            {"uuid": "MIG-3", "minor": 3, "core": 14, "memory": 5 << 30, "profile": "1g.5gb"},
        ],
    }


def test_of_many_the_first_have_a_line_and_the_others_are_counted(scene: Scene) -> None:
    """A line that sums up says how many there were, and of which namespaces."""
    scene.bind(bind_log.BURST_LINES)
    for count, namespace in ((1, "a"), (300, "ml"), (20, "web"), (3, "b"), (4, "c")):
        scene.bind(count, namespace=namespace)
    scene.log.sum_up()
    scene.log.sum_up()

    assert scene.said[bind_log.BURST_LINES :] == [
        "328 more pods were bound: 300 of ml, 20 of web, 4 of c, 4 of 2 other namespaces"
    ]
    fields = getattr(scene.records[-1], json_lines.FIELDS)
    assert fields["pods"] == 328
    assert fields["namespaces"] == {"ml": 300, "web": 20, "c": 4, "b": 3, "a": 1}


def test_who_comes_later_has_a_line_again(scene: Scene) -> None:
    """After a crowd one has a line each two seconds, and after a minute as many as at first."""
    scene.bind(100)
    scene.records.clear()

    scene.time.advance(bind_log.SECONDS_A_LINE)
    scene.bind(2)
    assert len(scene.records) == 1

    scene.time.advance(logs.WINDOW_SECONDS)
    scene.bind(100)
    assert len(scene.records) == 1 + bind_log.BURST_LINES


def test_a_flood_fills_no_disk_and_each_bind_is_counted(scene: Scene) -> None:
    """At 400 pods a second the log grows by some lines a minute, of which its own limit leaves out none."""
    limiter, written = logs.Limiter(scene.time), []
    for _ in range(180):
        scene.records.clear()
        scene.bind(400)
        if scene.time() % bind_log.PERIOD_SECONDS == 0:
            scene.log.sum_up()
        written += [one for record in scene.records for one in limiter.admitted(record)]
        scene.time.advance(1.0)
    scene.log.sum_up()
    written.append(scene.records[-1])

    assert not any("were not written" in one.getMessage() for one in written)
    assert len(written) < 3 * (logs.MOST_OF_A_KIND + 10)
    assert sum(getattr(one, json_lines.FIELDS).get("pods", 1) for one in written) == 180 * 400


def test_no_record_is_made_of_what_has_no_line(scene: Scene) -> None:
    """What a bind costs beyond the first is a number."""
    scene.bind(10_000)

    assert len(scene.records) == bind_log.BURST_LINES


def test_who_wants_all_details_finds_each_bind() -> None:
    """At level debug each bind has its line, and the sum says how many were of that level."""
    scene = Scene(logging.DEBUG)
    scene.bind(100)
    scene.log.sum_up()

    levels = [record.levelno for record in scene.records]
    assert levels.count(logging.DEBUG) == 100 - bind_log.BURST_LINES
    assert scene.said[-1] == "70 more pods were bound: 70 of ml"


def test_a_log_of_errors_has_none() -> None:
    """Neither a bind nor a sum is written where only what is graver is wanted."""
    scene = Scene(logging.WARNING)
    scene.bind(100)
    scene.log.sum_up()

    assert scene.said == []


@timeless.scenario
async def test_what_had_no_line_is_summed_up_by_and_by() -> None:
    """A crowd is told of within ten seconds, also if no pod is bound after it."""
    scene = Scene()
    async with timeless.beside(scene.log.run()):
        scene.bind(100)
        await timeless.passing(bind_log.PERIOD_SECONDS)
        told = len(scene.records)
        await timeless.passing(5 * bind_log.PERIOD_SECONDS)

    assert scene.said[-1] == "70 more pods were bound: 70 of ml"
    assert told == len(scene.records) == bind_log.BURST_LINES + 1


async def test_where_a_pod_went_is_said_alike_in_the_event_and_in_the_log() -> None:
    """Whoever has one finds the other by its words."""
    scene, notes = Scene(), _Notes()
    nobody = object()
    writer = pod_status.PodStatusWriter(
        nobody,  # type: ignore[arg-type]  # nothing is written to the API
        notes,  # type: ignore[arg-type]
        rate_limiter.unlimited(),
        wall=scene.time.wall,
        bound=scene.log.bound,
    )

    writer.bound(POD, PLACEMENT)

    assert scene.said == [f"bound {WHERE}"]
    assert [one.message for one in notes.told] == [f"Assigned {WHERE}"]


class _Notes:
    """Keeps Events instead of posting them."""

    def __init__(self) -> None:
        self.told: list[events.Event] = []

    def record(self, note: events.Event) -> None:
        """Keep one."""
        self.told.append(note)
