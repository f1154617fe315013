"""Nodes that say too much on their way from the watch to the ledger."""

import pytest

from berth_crds import wire
from berth_operator.engine import ledger
from berth_operator.kube import feeds
from berth_operator.translate import raw
from support import clock


def node(labels: int) -> raw.Node:
    """Make a node with so many labels."""
    return raw.Node(wire.Meta("n1", labels=dict.fromkeys(map(str, range(labels)), "")))


def test_a_node_that_says_too_much_takes_no_pod(caplog: pytest.LogCaptureFixture) -> None:
    """It is told once in the log, and read again as soon as it says less."""
    book = ledger.Ledger(clock.Clock())
    sink = feeds.NodeSink(book)
    known = []

    for labels in (5, 5000, 5000, 5):
        sink.upserted(node(labels))
        row = book.picture.row("n1")
        known.append(row is not None and row.node is not None)

    assert known == [True, False, False, True]
    assert len([one for one in caplog.messages if "node n1 takes no pod: it has 5000 labels" in one]) == 1
