"""The log's lines of binds: each has one as long as they are few, and none is left uncounted."""

import dataclasses
import json
import logging
import re
from pathlib import Path
from typing import Any, Final

import pytest

from berth_crds import logs, wire
from berth_operator.engine import node_summaries
from berth_operator.kube import bind_log, events, pod_status, policy_sink, summary_reporter
from berth_operator.scheduling import decisions
from kube import servers
from support import builders, clock, ledgers, timeless

POD: Final = builders.pod_info()
SHARES: Final = (
    decisions.Share("GPU-0", 0, 100, 8 << 30),
    decisions.Share("MIG-3", 3, 14, 5 << 30, profile="1g.5gb"),
    decisions.Share("rdma-0", 0, 100, 0, type="rdma"),
)
PLACEMENT: Final = decisions.Placement("n1", (decisions.Grant("main", SHARES),))
WHERE: Final = "ml/p to n1 with card 0 and 1g.5gb of card 3"
LOGGER: Final = logging.getLogger("test.binds")


class BindLog(bind_log.BindLog):
    """A log of binds, and its clock."""

    def __init__(self, logger: logging.Logger = LOGGER) -> None:
        self.time = clock.Clock()
        super().__init__(self.time, logger)

    def bind(self, count: int = 1, *, namespace: str = "ml") -> None:
        """Bind so many pods at one time."""
        pod = dataclasses.replace(POD, namespace=namespace)
        for _ in range(count):
            self.bound(pod, PLACEMENT, WHERE)


@pytest.fixture(autouse=True)
def at_level_info(caplog: pytest.LogCaptureFixture) -> None:
    """Write what is written at level info."""
    caplog.set_level(logging.INFO)


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return what a record has in JSON."""
    found: dict[str, Any] = getattr(record, logs.FIELDS)
    return found


def test_a_bind_is_a_line(caplog: pytest.LogCaptureFixture) -> None:
    """It says which pod went where, and in JSON each of its cards."""
    BindLog().bind()

    assert caplog.messages == [f"bound {WHERE}"]
    assert fields(caplog.records[0]) == {
        "namespace": "ml",
        "pod": POD.name,
        "uid": POD.uid,
        "node": "n1",
        "cards": [
            {"uuid": "GPU-0", "minor": 0, "core": 100, "memory": 8 << 30},
            {"uuid": "MIG-3", "minor": 3, "core": 14, "memory": 5 << 30, "profile": "1g.5gb"},
        ],
    }


def test_of_many_the_first_have_a_line_and_the_others_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    """A line that sums up says how many there were, and of which namespaces."""
    log = BindLog()
    log.bind(bind_log.BURST_LINES)
    for count, namespace in ((1, "a"), (300, "ml"), (20, "web"), (3, "b"), (4, "c")):
        log.bind(count, namespace=namespace)
    log.sum_up()
    log.sum_up()

    assert caplog.messages[bind_log.BURST_LINES :] == [
        "328 more pods were bound: 300 of ml, 20 of web, 4 of c, 4 of 2 other namespaces"
    ]
    namespaces = {"ml": 300, "web": 20, "c": 4, "b": 3, "a": 1}
    assert fields(caplog.records[-1]) == {"pods": 328, "namespaces": namespaces}


def test_who_comes_later_has_a_line_again(caplog: pytest.LogCaptureFixture) -> None:
    """After a crowd one has a line each two seconds, and after a minute as many as at first."""
    log, counts = BindLog(), []
    for seconds, binds in ((0, 100), (bind_log.SECONDS_A_LINE, 2), (logs.WINDOW_SECONDS, 100)):
        caplog.clear()
        log.time.advance(seconds)
        log.bind(binds)
        counts.append(len(caplog.records))

    assert counts == [bind_log.BURST_LINES, 1, bind_log.BURST_LINES]


def test_a_flood_fills_no_disk_and_each_bind_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    """At 400 pods a second the log grows by some lines a minute, of which its own limit leaves out none."""
    log = BindLog()
    limiter, written = logs.Limiter(log.time), []
    for _ in range(180):
        caplog.clear()
        log.bind(400)
        if log.time() % bind_log.PERIOD_SECONDS == 0:
            log.sum_up()
        written += [admitted for record in caplog.records for admitted in limiter.admitted(record)]
        log.time.advance(1.0)
    log.sum_up()
    written.append(caplog.records[-1])

    assert not any("were not written" in record.getMessage() for record in written)
    assert len(written) < 3 * (logs.MOST_OF_A_KIND + 10)
    assert sum(fields(record).get("pods", 1) for record in written) == 180 * 400


@pytest.mark.parametrize(
    ("level", "lines", "last"),
    [
        pytest.param(logging.DEBUG, 101, ["70 more pods were bound: 70 of ml"], id="all details"),
        pytest.param(logging.WARNING, 0, [], id="errors alone"),
    ],
)
def test_a_level_is_heeded(caplog: pytest.LogCaptureFixture, level: int, lines: int, last: list[str]) -> None:
    """At level debug each bind has its line; neither a bind nor a sum is graver than info."""
    caplog.set_level(level)
    log = BindLog()
    log.bind(100)
    log.sum_up()

    assert len(caplog.messages) == lines
    assert caplog.messages[-1:] == last


@timeless.scenario
async def test_what_had_no_line_is_summed_up_by_and_by(caplog: pytest.LogCaptureFixture) -> None:
    """A crowd is told of within ten seconds, also if no pod is bound after it."""
    log, counts = BindLog(), []
    async with timeless.beside(log.run()):
        log.bind(100)
        for periods in (1, 5):
            await timeless.passing(periods * bind_log.PERIOD_SECONDS)
            counts.append(len(caplog.records))

    assert caplog.messages[-1] == "70 more pods were bound: 70 of ml"
    assert counts == [bind_log.BURST_LINES + 1] * 2


def test_where_a_pod_went_is_said_alike_in_the_event_and_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever has one finds the other by its words."""
    unused: Any = None
    writer = servers.StatusWriter(unused, bound=BindLog().bound)

    writer.bound(POD, PLACEMENT)

    assert caplog.messages == [f"bound {WHERE}"]
    assert writer.events.recorded == [("Scheduled", f"Successfully assigned {WHERE}")]


# ---------------------------------------------------------------- the page for operators

PAGE: Final = (Path(__file__).resolve().parents[2] / "manifests" / "operating.md").read_text()
SECTION: Final = PAGE.split("## What the log says")[1]


def test_the_pages_line_of_json_is_that_of_a_bind(caplog: pytest.LogCaptureFixture) -> None:
    """The example has all fields of such a line, in their order."""
    (line,) = re.findall(r"^```json\n(.*)\n```$", SECTION, re.MULTILINE)
    example = json.loads(line)
    pod = dataclasses.replace(builders.pod_info(example["pod"]), uid=example["uid"])
    shares = tuple(decisions.Share(*card.values()) for card in example["cards"])
    placement = decisions.Placement(example["node"], (decisions.Grant("main", shares),))

    log = BindLog(logging.getLogger(example["logger"]))
    log.bound(pod, placement, pod_status.placement_text(pod, placement))

    (record,) = caplog.records
    made = json.loads(logs.JsonFormatter().format(record))
    assert list(made) == list(example)
    assert {**made, "time": example["time"]} == example


def test_the_pages_lines_of_binds_are_those_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The line of one bind and the line that sums up are quoted as they are."""
    log, pod = BindLog(), builders.pod_info("train")
    shares = tuple(
        decisions.Share(f"GPU-{minor}", minor, core, 1) for minor, core in ((0, 100), (1, 100), (3, 40))
    )
    placement = decisions.Placement("dgx", (decisions.Grant("main", shares),))

    log.bound(pod, placement, pod_status.placement_text(pod, placement))
    for count, namespace in ((bind_log.BURST_LINES - 1, "ml"), (3900, "ml"), (40, "web")):
        log.bind(count, namespace=namespace)
    log.sum_up()

    assert f"| `{caplog.messages[0]}` |" in SECTION
    assert f"| `{caplog.messages[-1]}` |" in SECTION


def test_the_pages_lines_of_policies_and_nodes_are_those_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """So are those of a policy that changes, a silent agent, and cards that are cordoned."""
    policies, default = policy_sink.PolicySink(ledgers.with_nodes()), wire.Meta(name="default")
    policies.upserted(wire.PlacementPolicy(default))
    nodes = summary_reporter.NodeLog(list[events.Event]().append, "uid-{}".format)
    well = node_summaries.NodeSummary("n2", 1, 0, 1, silent=False)
    nodes.begin([well])
    caplog.clear()

    policies.upserted(wire.PlacementPolicy(default, wire.PolicySpec(strategy="binpack")))
    nodes.update([dataclasses.replace(well, silent=True, cordoned=("GPU-…",))])
    nodes.update([well])

    changed, silent, cordoned, renewed, _ = caplog.messages
    for line in (changed, silent.partition("; ")[0], cordoned):
        assert f"| `{line}` |" in SECTION
    assert f"`{renewed.removeprefix('node n2: ')}`" in SECTION
