"""Nodes and Devices that say too much on their way from the watch to the ledger."""

import msgspec
import pytest

from berth_crds import logs, wire
from berth_crds.client import watch
from berth_operator.engine import node_summaries
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import Watchdog
from berth_operator.kube import feeds
from berth_operator.translate import raw
from support import builders, clock


def node(labels: int) -> raw.Node:
    """Make a node with so many labels."""
    return raw.Node(wire.Meta("n1", labels=dict.fromkeys(map(str, range(labels)), "")))


def test_a_node_that_says_too_much_takes_no_pod(caplog: pytest.LogCaptureFixture) -> None:
    """It is told once in the log, and read again as soon as it says less."""
    ledger = Ledger(clock.Clock())
    sink = feeds.NodeSink(ledger)
    known = []

    for labels in (5, 5000, 5000, 5):
        sink.upserted(node(labels))
        info = ledger.inventory.node("n1")
        known.append(info is not None and info.node is not None)

    assert known == [True, False, False, True]
    assert len([one for one in caplog.messages if "node n1 takes no pod: it has 5000 labels" in one]) == 1


def test_a_device_that_says_too_much_gets_no_pod(caplog: pytest.LogCaptureFixture) -> None:
    """It is told once in the log, in the summary while it lasts, and read again as soon as it says less."""
    ledger = Ledger(clock.Clock())
    sink = feeds.DeviceSink(ledger, Watchdog(ledger, clock=clock.Clock()))
    known = []

    for labels in (5, 5000, 6000, 5):
        said = {"labels": dict.fromkeys(map(str, range(labels)), "")}
        sink.upserted(builders.published(cards=[said]))
        ledger.agent_silent("n1", silent=False)
        (found,) = node_summaries.summarize(ledger.inventory, {"n1"})
        known.append((found.free, found.reason, len(found.claims)))

    assert known == [(1, "", 1), (0, "more than 1024 labels", 1), (0, "more than 1024 labels", 1), (1, "", 1)]
    said_once = "Device n1 gets no pod: it has more than 1024 labels"
    assert [one for one in caplog.messages if "Device" in one] == [said_once]


def test_a_device_that_is_too_large_gets_no_pod(caplog: pytest.LogCaptureFixture) -> None:
    """It is measured as it comes; the log tells of it once, and the summary while it lasts."""
    ledger = Ledger(clock.Clock())
    sink = feeds.DeviceSink(ledger, Watchdog(ledger, clock=clock.Clock()))
    codec = watch.Codec(raw.Device)
    known = []

    for length in (5, 1 << 20, 1 << 21, 5):
        said = {**msgspec.to_builtins(builders.published(cards=[{}])), "more": "x" * length}
        thing = codec.decode_object(msgspec.Raw(msgspec.json.encode(said)))
        assert isinstance(thing, raw.Device)
        sink.upserted(thing)
        ledger.agent_silent("n1", silent=False)
        (found,) = node_summaries.summarize(ledger.inventory, {"n1"})
        known.append((found.free, found.reason, len(found.claims)))

    large = (0, "more than 1048576 bytes as an object", 0)
    assert known == [(1, "", 1), large, large, (1, "", 1)]
    said_once = "Device n1 gets no pod: it has more than 1048576 bytes as an object"
    assert [one for one in caplog.messages if "Device" in one] == [said_once]


def test_a_device_of_very_many_uuids_claims_its_cards_alone() -> None:
    """What is to be recorded of it is no more than its status takes, or the server would refuse all of it."""
    ledger = Ledger(clock.Clock())
    sink = feeds.DeviceSink(ledger, Watchdog(ledger, clock=clock.Clock()))
    lists = [
        [{"uuid": f"M{at}-{one}", "profile": "1g.5gb", "memory": 1} for one in range(64)] for at in range(64)
    ]

    sink.upserted(
        builders.published(cards=[{"mig": {"enabled": True, "instances": those}} for those in lists])
    )

    (found,) = node_summaries.summarize(ledger.inventory, {"n1"})
    assert len(found.claims) == 64


def test_objects_that_change_their_faults_have_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Written a hundred times, each time wrong in another way, each of them has a few lines a minute."""
    ledger = Ledger(clock.Clock())
    nodes_, gpupods = feeds.NodeSink(ledger), feeds.GpuPodSink(ledger)
    limiter = logs.Limiter(clock.Clock())

    for turn in range(100):
        nodes_.upserted(node(5000 + turn))
        twice = (wire.HoldingContainer(f"c{turn}"),) * 2
        gpupods.upserted(wire.GpuPod(wire.Meta("p", "ml"), wire.GpuPodSpec("n1", "u", twice)))

    assert len(caplog.records) == 200
    assert (
        len([one for record in caplog.records for one in limiter.admitted(record)]) == 2 * logs.MOST_ABOUT_ONE
    )
