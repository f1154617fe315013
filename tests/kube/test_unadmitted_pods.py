"""What is told of pods that their kubelet cannot admit, and what becomes of those that cannot be read."""

from collections.abc import Mapping

import msgspec
import pytest

from berth_crds import names, wire
from berth_crds.client import watch
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import auditor, feeds
from support import builders, inventories, ledgers

POD = builders.pod("p", gpus=2, nodeName="n1", schedulerName="other", nodeSelector={"zone": "a"})


@pytest.fixture
def ledger() -> Ledger:
    """Lend a ledger that knows a node without labels, whose device plugin serves four cards."""
    lent = ledgers.with_nodes()
    lent.node_seen(builders.node("n1", extra={names.NVIDIA_GPU: 4}))
    return lent


@pytest.fixture
def sink(ledger: Ledger) -> feeds.PodSink:
    """Lend what tells that ledger of pods."""
    return feeds.PodSink(ledger, auditor.NullObserver())


def unreadable(spec: Mapping[str, object]) -> watch.Undecodable:
    """Return the same pod as it arrives when it cannot be read."""
    meta = wire.Meta("p", "ml", "uid-p")
    return watch.Undecodable(meta, "it is odd", msgspec.json.encode({"metadata": meta, "spec": spec}))


def test_it_withholds_nothing_and_nobody_is_told(
    ledger: Ledger, sink: feeds.PodSink, caplog: pytest.LogCaptureFixture
) -> None:
    """Once it was admitted all the same it withholds what it asks for, and the log says so."""
    sink.upserted(POD)
    before, told = inventories.free_cards(ledger.inventory), caplog.text

    sink.upserted(builders.admitted(POD))

    assert (before, told) == (4, "")
    assert inventories.free_cards(ledger.inventory) == 2
    assert "ml/p withholds cards of its node" in caplog.text


def test_if_it_cannot_be_read_any_more_it_withholds_everything(ledger: Ledger, sink: feeds.PodSink) -> None:
    """It may have been admitted meanwhile."""
    sink.upserted(POD)

    sink.undecodable(unreadable({"nodeName": "n1"}))

    assert inventories.free_cards(ledger.inventory) == 0


def test_of_a_node_that_offers_no_card_nobody_is_told(
    ledger: Ledger, sink: feeds.PodSink, caplog: pytest.LogCaptureFixture
) -> None:
    """A pod there cannot have been given one, and the log does not say that it keeps any from others."""
    ledger.node_seen(builders.node("n1"))

    sink.upserted(builders.admitted(POD))

    assert (inventories.free_cards(ledger.inventory), caplog.text) == (4, "")
