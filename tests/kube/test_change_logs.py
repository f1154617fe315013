"""What the log says of the policy and of nodes: one line for each change, in the words of their fields."""

import asyncio
import dataclasses
import logging
from typing import Any

import msgspec
import pytest

from berth_crds import logs, text, wire
from berth_crds.client import cooperative
from berth_operator.engine import node_summaries
from berth_operator.kube import auditor, events, policy_sink, summary_reporter
from support import clock, ledgers, timeless


@pytest.fixture(autouse=True)
def at_level_info(caplog: pytest.LogCaptureFixture) -> None:
    """Write what is written at level info."""
    caplog.set_level(logging.INFO)


# ---------------------------------------------------------------- the policy


DEFAULT = wire.Meta(name="default")


def spec(**rules: Any) -> wire.PolicySpec:
    """Return the rules of a policy as people write them."""
    return msgspec.convert(rules, wire.PolicySpec)


def policy(name: str = "default", **rules: Any) -> wire.PlacementPolicy:
    """Return a policy as it is read."""
    return wire.PlacementPolicy(wire.Meta(name=name), spec(**rules))


POLICY_CHANGES: dict[str, tuple[wire.PolicySpec | None, wire.PolicySpec, str]] = {
    "the first one": (None, spec(), "policy default is in force: all fields have their defaults"),
    "a first one that differs": (
        None,
        spec(strategy="spread"),
        "policy default is in force: strategy is spread (was fragmentation)",
    ),
    "another strategy": (
        spec(),
        spec(strategy="binpack"),
        "policy default: strategy is binpack (was fragmentation)",
    ),
    "several rules": (
        spec(weights={"core": 2}, agents={"graceSeconds": 60}),
        spec(weights={"core": 3}, sharing={"fractions": False}),
        (
            "policy default: weights.core is 3 (was 2); agents.graceSeconds is 40 (was 60); "
            "sharing.fractions is false (was true)"
        ),
    ),
    "errors": (
        spec(health={"ignoredXids": [13, 31]}),
        spec(health={"criticalXids": [79]}),
        "policy default: health.ignoredXids is not set (was 13, 31); health.criticalXids is 79 (was not set)",
    ),
    "models": (
        spec(models={"a100": "A100-SXM4-80GB", "old": "Tesla T4"}),
        spec(models={"a100": "A100-PCIE-40GB", "new": "L4"}),
        (
            "policy default: models.a100 is A100-PCIE-40GB (was A100-SXM4-80GB); "
            "models.old is not set (was Tesla T4); models.new is L4 (was not set)"
        ),
    ),
}


@pytest.mark.parametrize(("before", "now", "line"), POLICY_CHANGES.values(), ids=POLICY_CHANGES.keys())
def test_a_change_of_the_policy_says_what_is_other_than_before(
    before: wire.PolicySpec | None, now: wire.PolicySpec, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One line, however often the policy is read again; the first one is compared with the defaults."""
    sink = policy_sink.PolicySink(ledgers.with_nodes())
    if before is not None:
        sink.upserted(wire.PlacementPolicy(DEFAULT, before))
    caplog.clear()

    sink.upserted(wire.PlacementPolicy(DEFAULT, now))
    sink.upserted(wire.PlacementPolicy(DEFAULT, now))

    assert caplog.messages == [line]


def test_what_changed_are_fields(caplog: pytest.LogCaptureFixture) -> None:
    """In JSON each rule has what it was and what it is."""
    sink = policy_sink.PolicySink(ledgers.with_nodes())
    sink.upserted(policy())
    sink.upserted(policy(weights={"memory": 0}))

    fields = getattr(caplog.records[-1], logs.FIELDS)
    assert fields == {"policy": "default", "changed": {"weights.memory": {"from": 1, "to": 0}}}


def test_however_much_changes_the_line_stays_short(caplog: pytest.LogCaptureFixture) -> None:
    """Names of models are anybody's words, and there may be hundreds."""
    sink = policy_sink.PolicySink(ledgers.with_nodes())
    sink.upserted(policy())
    sink.upserted(policy(models={f"\x1b[2J{number}" + "m" * 1000: "x" * 1000 for number in range(256)}))

    line = caplog.messages[-1]
    assert line.endswith(f"; {256 - policy_sink.MOST_LOGGED} more")
    assert line == text.line(line, most=logs.LONGEST_MESSAGE)


def test_only_what_is_in_force_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Neither another policy nor one that makes no sense changes anything; the end is told once."""
    sink = policy_sink.PolicySink(ledgers.with_nodes())
    sink.upserted(policy())
    caplog.clear()

    for changed in (
        policy("other", strategy="binpack"),
        policy(strategy="nonsense"),
        policy(strategy="binpack"),
    ):
        sink.upserted(changed)
    for gone in ("other", "default", "default"):
        sink.deleted(wire.Meta(name=gone))

    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "INFO"]
    assert caplog.messages[1:] == [
        "policy default: strategy is binpack (was fragmentation)",
        "policy default is gone, defaults are in force: strategy is fragmentation (was binpack)",
    ]


def test_a_ledger_that_is_only_compared_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Each audit reads the policy once more."""
    policy_sink.PolicySink(ledgers.with_nodes(), auditor.SILENT).upserted(policy(strategy="binpack"))

    assert caplog.messages == []


# ---------------------------------------------------------------- nodes

WELL = node_summaries.NodeSummary("n1", 4, 0, 4, silent=False)
SILENT = dataclasses.replace(WELL, silent=True)
FAILED = dataclasses.replace(WELL, failed="NVMLDown")
CORDONED = dataclasses.replace(WELL, cordoned=("GPU-1", "GPU-2"))
ASTRAY = dataclasses.replace(WELL, unmatched_cordon=("9", "GPU-x"))


class NodeLog(summary_reporter.NodeLog):
    """A log of nodes, and its Events."""

    def __init__(self, *begin: node_summaries.NodeSummary) -> None:
        self.events: list[events.Event] = []
        super().__init__(self.events.append, "uid-{}".format)
        self.begin(begin)


@pytest.mark.parametrize(
    ("before", "now", "line"),
    [
        (WELL, SILENT, "node n1: its agent is silent; no new pod gets its cards"),
        (SILENT, WELL, "node n1: its agent renews its Lease again"),
        (WELL, FAILED, "node n1: no new pod gets its cards: NVMLDown"),
        (FAILED, WELL, "node n1: the sources of its agent work again"),
        (WELL, CORDONED, "node n1: cordoned: GPU-1, GPU-2"),
        (CORDONED, WELL, "node n1: uncordoned: GPU-1, GPU-2"),
        (WELL, ASTRAY, "node n1: cordon names no device: 9, GPU-x"),
        (WELL, dataclasses.replace(WELL, free=1, used=3), None),
        (None, SILENT, None),
        (None, ASTRAY, "node n1: cordon names no device: 9, GPU-x"),
    ],
)
def test_each_change_of_a_node_is_logged_once(
    before: node_summaries.NodeSummary | None,
    now: node_summaries.NodeSummary,
    line: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However often it is summed up. One that comes later is no news, but for what was written in vain."""
    log = NodeLog(*([before] if before else []))
    caplog.clear()

    log.update([now])
    log.update([now])

    assert caplog.messages == ([line] if line else [])


def test_the_state_of_all_nodes_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """A leader that begins does not write thousands."""
    nodes = [dataclasses.replace(SILENT, node=f"n{number}") for number in range(100)]

    NodeLog(*nodes, dataclasses.replace(CORDONED, node="m"))

    (message,) = caplog.messages
    assert "nodes with devices: 101; with a silent agent: 100;" in message


def test_nodes_that_are_gone_are_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    """One that comes later under such a name is not compared with it."""
    log = NodeLog(SILENT, dataclasses.replace(WELL, node="n2"))
    caplog.clear()

    log.keep_only(["n2"])
    log.update([WELL])

    assert caplog.messages == []


def test_a_cordon_that_names_nothing_is_an_event_on_the_device() -> None:
    """Recorded when it comes to be so, when it changes, and by each new leader."""
    log = NodeLog(ASTRAY)
    for summary in (ASTRAY, dataclasses.replace(ASTRAY, unmatched_cordon=("9",)), WELL):
        log.update([summary])

    first, second = log.events
    assert first.involved == second.involved
    found = events.manifest(first, "e", moment="", instance="")
    assert found["involvedObject"] == {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "Device",
        "name": "n1",
        "uid": "uid-n1",
    }
    assert found["metadata"]["namespace"] == "default"
    assert found["message"].startswith("The cordon names no device: 9, GPU-x. Use the uuid")


# ---------------------------------------------------------------- summaries of many nodes


class Reporter:
    """Reports some nodes, each of which takes a millisecond, and notes which were shown together."""

    def __init__(self, nodes: int) -> None:
        self.ledger = ledgers.with_nodes(nodes)
        self.shown: list[list[str]] = []
        self.log = summary_reporter.NodeLog(lambda _: None, str)

    async def run(self) -> None:
        """Report them for ever."""
        await summary_reporter.report_summaries(self.ledger, self.show, self.log, clock=clock.Ticking(0.001))

    def show(self, found: list[node_summaries.NodeSummary]) -> None:
        """Note which nodes were shown together."""
        self.shown.append([summary.node for summary in found])

    @property
    def names(self) -> list[str]:
        """The nodes that were shown, in this order."""
        return [name for portion in self.shown for name in portion]

    def silence(self) -> None:
        """Have all agents fall silent."""
        for info in self.ledger.inventory.each():
            self.ledger.agent_silent(info.name, silent=True)


@timeless.scenario
async def test_others_have_their_turn_between_portions() -> None:
    """However many nodes are touched, the loop is held for some milliseconds at a time."""
    reporter, turns = Reporter(100), 0

    async with timeless.beside(reporter.run()):
        while len(reporter.names) < 100:
            turns += 1
            await asyncio.sleep(0)

    assert sorted(reporter.names) == sorted(info.name for info in reporter.ledger.inventory.each())
    assert max(map(len, reporter.shown)) <= 1000 * cooperative.STEP_SECONDS + 1
    assert turns >= len(reporter.shown) - 1 >= 15


@pytest.mark.parametrize("nodes", [0, 1, 40])
@timeless.scenario
async def test_the_state_of_all_nodes_is_logged_once(nodes: int, caplog: pytest.LogCaptureFixture) -> None:
    """In one line, after all portions, and of what comes later each change."""
    reporter = Reporter(nodes)
    async with timeless.beside(reporter.run()):
        await timeless.at(1.1)
        reporter.silence()
        await timeless.at(2.1)

    first, *later = caplog.messages
    assert f"nodes with devices: {nodes}; with a silent agent: 0;" in first
    assert len(later) == nodes
    assert all("its agent is silent" in line for line in later)
    assert len(reporter.names) == 2 * nodes


@timeless.scenario
async def test_only_what_was_touched_is_summed_up_again() -> None:
    """What is touched while others are summed up is summed up with the next."""
    reporter = Reporter(20)

    async with timeless.beside(reporter.run()):
        await timeless.until(lambda: reporter.shown)
        reporter.ledger.agent_silent("n1", silent=True)
        await timeless.at(2.1)

    assert reporter.names.count("n1") == 2
    assert len(reporter.names) == 20 + 1
