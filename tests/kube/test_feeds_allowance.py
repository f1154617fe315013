"""Bound pods that say much together take no more memory than there is for that, and no card is lost by it."""

import dataclasses

import msgspec
import pytest

from berth_crds import names, wire
from berth_operator.engine import drift, waiting_pod_memory
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import auditor, feeds
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import pods, raw
from support import builders, inventories, ledgers

VALUES = 900
CONTAINERS = 400


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make room for what two such pods of a namespace say, and three of all."""
    weight = pods.read_bound(pod("any")).byte_size
    monkeypatch.setattr(waiting_pod_memory, "NAMESPACE_BYTES", 2 * weight + weight // 2)
    monkeypatch.setattr(waiting_pod_memory, "TOTAL_BYTES", 3 * weight + weight // 2)


@pytest.fixture
def ledger() -> Ledger:
    """Lend a ledger that knows a node whose device plugin serves four cards."""
    lent = ledgers.with_nodes()
    lent.node_seen(builders.node("n1", extra={names.NVIDIA_GPU: 4}, labels={"zone": "a"}))
    return lent


@pytest.fixture
def sink(ledger: Ledger) -> feeds.PodSink:
    """Lend what tells that ledger of pods."""
    return feeds.PodSink(ledger, auditor.NullObserver())


def pod(name: str, namespace: str = "ml") -> raw.Pod:
    """Make a foreign pod that its kubelet could admit, that asks for a card and says much."""
    values = ("a", *(f"{name}-{at}" for at in range(VALUES)))
    term = raw.SelectorTerm((raw.Expression("zone", "In", values),))
    affinity = raw.Affinity(raw.NodeAffinity(raw.NodeSelector((term,))))
    made = builders.pod(name, gpus=1, nodeName="n1", schedulerName="other")
    more = tuple(raw.Container(f"{name}-{at}") for at in range(CONTAINERS))
    return msgspec.structs.replace(
        made,
        metadata=msgspec.structs.replace(made.metadata, namespace=namespace),
        spec=msgspec.structs.replace(made.spec, affinity=affinity, containers=(*made.spec.containers, *more)),
    )


def test_pods_beyond_it_are_not_charged_before_they_are_admitted(ledger: Ledger, sink: feeds.PodSink) -> None:
    """Nothing that they say is kept until then; and once they are there, they have what they ask for."""
    for name in "abc":
        sink.upserted(pod(name))
    before = inventories.free_cards(ledger.inventory)
    hold = ledger.unadmitted_pods.full_hold(dataclasses.replace(pods.read_bound(pod("c")).hold))

    sink.upserted(builders.admitted(pod("c")))

    assert before == 2
    assert (hold.amounts, hold.withheld) == ((), 0)
    assert inventories.free_cards(ledger.inventory) == 1


def test_another_namespace_has_room_of_its_own(ledger: Ledger, sink: feeds.PodSink) -> None:
    """As long as there is room for all together."""
    for name, namespace in {"a": "ml", "b": "ml", "c": "ml", "d": "other", "e": "third"}.items():
        sink.upserted(pod(name, namespace))

    assert [ledger.unadmitted_pods.is_bare(f"uid-{name}") for name in "abcde"] == [
        False,
        False,
        True,
        False,
        True,
    ]


def test_a_pod_that_is_gone_makes_room(ledger: Ledger, sink: feeds.PodSink) -> None:
    """The next one that comes is charged."""
    for name in "ab":
        sink.upserted(pod(name))
    sink.deleted(wire.Meta("a", "ml", "uid-a"))

    sink.upserted(pod("c"))

    assert not ledger.unadmitted_pods.is_bare("uid-c")
    assert inventories.free_cards(ledger.inventory) == 2


def test_a_pod_that_was_there_stays_charged(ledger: Ledger, sink: feeds.PodSink) -> None:
    """Whatever its status says later, what a kubelet has admitted is there."""
    sink.upserted(builders.admitted(pod("c")))
    for name in "ab":
        sink.upserted(pod(name))
    before = inventories.free_cards(ledger.inventory)

    sink.upserted(pod("c"))

    assert ledger.inventory.hold("uid-c") is not None
    assert (before, inventories.free_cards(ledger.inventory)) == (1, 1)


def test_which_pods_there_is_room_for_is_no_drift(ledger: Ledger, sink: feeds.PodSink) -> None:
    """A ledger that heard of them in another order knows the same."""
    fresh = ledgers.with_nodes()
    fresh.node_seen(builders.node("n1", extra={names.NVIDIA_GPU: 4}, labels={"zone": "a"}))
    other = feeds.PodSink(fresh, auditor.NullObserver())
    for name in "abc":
        sink.upserted(pod(name))
    for name in "cba":
        other.upserted(pod(name))

    assert ledger.unadmitted_pods.is_bare("uid-c") and fresh.unadmitted_pods.is_bare("uid-a")
    assert drift.differences(ledger, fresh) == ()


def test_of_very_many_containers_those_that_ask_for_devices_are_known() -> None:
    """The names of all others can never matter."""
    found = pods.read_bound(pod("a"))

    assert found.nameless is not None
    assert found.nameless.starts == (("main", True),)
    assert found.unadmitted_where != facts.NOWHERE
