"""What people are told of nodes: one line for each change, and an Event where a cordon names nothing."""

import dataclasses
import logging

import pytest

from berth_operator.engine import node_summaries
from berth_operator.kube import events, node_log

WELL = node_summaries.NodeSummary("n1", 4, 0, 4, silent=False)
SILENT = dataclasses.replace(WELL, silent=True)
FAILED = dataclasses.replace(WELL, failed="NVMLDown")
CORDONED = dataclasses.replace(WELL, cordoned=("GPU-1", "GPU-2"))
ASTRAY = dataclasses.replace(WELL, unmatched_cordon=("9", "GPU-x"))


class Ear:
    """Collects news of nodes."""

    def __init__(self, *begin: node_summaries.NodeSummary) -> None:
        self.notes: list[events.Event] = []
        self.news = node_log.NodeLog(self.notes.append, "uid-{}".format)
        self.news.begin(begin)


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (WELL, SILENT, "node n1: its agent is silent; no pod gets a card of it"),
        (SILENT, WELL, "node n1: its agent renews its Lease again"),
        (WELL, FAILED, "node n1: no pod gets a card of it: NVMLDown"),
        (FAILED, WELL, "node n1: the sources of its agent work again"),
        (WELL, CORDONED, "node n1: cordoned: GPU-1, GPU-2"),
        (CORDONED, WELL, "node n1: uncordoned: GPU-1, GPU-2"),
        (WELL, ASTRAY, "node n1: cordon names no device: 9, GPU-x"),
        (WELL, dataclasses.replace(WELL, free=1, used=3), None),
    ],
)
def test_each_change_is_told_once(
    before: node_summaries.NodeSummary,
    now: node_summaries.NodeSummary,
    said: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """How often a node is summed up does not matter."""
    caplog.set_level(logging.INFO)
    ear = Ear(before)
    caplog.clear()

    ear.news.update([now])
    ear.news.update([now])

    assert [record.getMessage() for record in caplog.records] == ([said] if said else [])


def test_how_things_stand_is_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """A leader that begins does not write thousands."""
    caplog.set_level(logging.INFO)
    nodes = [dataclasses.replace(SILENT, node=f"n{at}") for at in range(100)]

    Ear(*nodes, dataclasses.replace(CORDONED, node="m"))

    (record,) = caplog.records
    assert "nodes with devices: 101; with a silent agent: 100;" in record.getMessage()


def test_a_cordon_that_names_nothing_is_an_event_on_the_device() -> None:
    """Told when it comes to be so, when it changes, and by each new leader."""
    ear = Ear(ASTRAY)
    ear.news.update([ASTRAY])
    ear.news.update([dataclasses.replace(ASTRAY, unmatched_cordon=("9",))])
    ear.news.update([WELL])

    assert [one.involved for one in ear.notes] == [ear.notes[0].involved] * 2
    found = events.manifest(ear.notes[0], "e", moment="", instance="")
    assert found["involvedObject"] == {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "Device",
        "name": "n1",
        "uid": "uid-n1",
    }
    assert found["metadata"]["namespace"] == "default"
    assert found["message"].startswith("The cordon names no device: 9, GPU-x. Write the uuid")


def test_nodes_that_come_later_are_no_news(caplog: pytest.LogCaptureFixture) -> None:
    """But for what somebody wrote in vain."""
    caplog.set_level(logging.INFO)
    ear = Ear()
    caplog.clear()

    ear.news.update([SILENT, dataclasses.replace(ASTRAY, node="n2")])

    assert [record.getMessage() for record in caplog.records] == ["node n2: cordon names no device: 9, GPU-x"]
