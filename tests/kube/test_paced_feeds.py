"""What takes long to be read and changes all the time is read seldom, and as it is then."""

import sys
from collections.abc import Sequence

import pytest

from berth_crds import names, wire
from berth_operator.engine import paced_wakes
from berth_operator.scheduling.devices import device_facts
from berth_operator.translate import gpupods, raw
from kube.sinks import NODE, Sinks, feed, pod, read, with_node
from support import builders, clock, ledgers, manifests


def published_cards(sinks: Sinks) -> Sequence[device_facts.PhysicalDevice]:
    """Return the cards that count as those of the node."""
    info = sinks.ledger.inventory.node(NODE)
    return info.published.cards if info is not None and info.published is not None else ()


def read_slowly(sinks: Sinks) -> None:
    """Have an agent publish ever more cards, each time in a way that takes long to be read."""
    sinks.ledger.paced_wakes.cpu_clock = clock.Ticking(0.05)
    for count in range(1, 50):
        feed(sinks.devices, builders.published(cards=[{}] * count))


def later(sinks: Sinks) -> int:
    """Return how many cards count once the time of what was put off has come."""
    sinks.time.advance(60.0)
    sinks.ledger.paced_wakes.wake_delayed()
    return len(published_cards(sinks))


def test_a_device_that_takes_long_and_changes_all_the_time_is_read_seldom() -> None:
    """At first each time, and then as it is when its time has come."""
    sinks = Sinks()

    read_slowly(sinks)
    at_first = len(published_cards(sinks))

    assert 2 <= at_first <= paced_wakes.WAKES_IN_A_ROW
    assert [later(sinks), later(sinks)] == [49, 49]


def test_a_device_that_takes_no_time_is_read_each_time() -> None:
    """However often a node's cards change."""
    sinks = Sinks()

    for count in range(1, 50):
        feed(sinks.devices, builders.published(cards=[{}] * count))

    assert len(published_cards(sinks)) == 49


def test_a_device_that_was_deleted_before_it_was_read_never_comes() -> None:
    """It is gone."""
    sinks = Sinks()
    read_slowly(sinks)

    feed(sinks.devices, wire.Meta(NODE))

    assert [len(published_cards(sinks)), later(sinks)] == [0, 0]


@pytest.mark.parametrize(("node", "expected"), [(NODE, 0), ("other", 1)], ids=["its own", "of another"])
def test_gpupods_of_an_agent_that_takes_long_are_read_seldom(node: str, expected: int) -> None:
    """All that one agent writes takes a part of the time together, and that of others none of it."""
    sinks = Sinks()
    read_slowly(sinks)
    written = builders.gpupod("p", node, main=[0])

    feed(sinks.gpupods, written)
    known = sinks.ledger.unreadable_pods
    found = [len(known._gpupods)]
    later(sinks)

    feed(sinks.gpupods, written)

    assert [*found, len(known._gpupods)] == [expected, 1]


def test_of_a_gpupod_that_is_late_only_the_title_is_kept() -> None:
    """An agent may write thousands of a megabyte each; one that comes again or goes is late no more."""
    sinks = Sinks()
    read_slowly(sinks)
    written = [builders.gpupod(name, NODE, main=[0]) for name in "abc"]
    titles = [gpupods.title(one.metadata) for one in written]
    late = sinks.ledger.late_gpupods
    references = [sys.getrefcount(written[2])]

    feed(sinks.gpupods, *written)
    references.append(sys.getrefcount(written[2]))
    later(sinks)
    assert [title in late for title in titles] == [True, True, True]
    feed(sinks.gpupods, written[0], written[1].metadata)

    assert [title in late for title in titles] == [False, False, True]
    assert references[0] == references[1]


def test_a_gpupod_that_is_late_is_no_drift() -> None:
    """An audit does not read everything anew because of what is to be read soon in any case."""
    sinks, fresh = with_node(), with_node()
    lost = pod(metadata={"annotations": {names.ALLOCATION: "{"}})
    named = read(manifests.gpupod("p", "u-1", NODE, 2, namespace="ml"), wire.GpuPod)
    feed(fresh.gpupods, named)
    feed(fresh.pods, lost)
    feed(sinks.pods, lost)
    sinks.ledger.paced_wakes.charge(paced_wakes.agent(NODE), 60.0)

    differences = [ledgers.differences(sinks.ledger, fresh.ledger)]
    feed(sinks.gpupods, named)
    differences.append(ledgers.differences(sinks.ledger, fresh.ledger))
    later(sinks)
    differences.append(ledgers.differences(sinks.ledger, fresh.ledger))

    assert [bool(some) for some in differences] == [True, False, False]


def test_a_node_whose_agent_takes_long_is_read_seldom() -> None:
    """It may give its Node a thousand labels, and others as often as it likes; other Nodes come at once."""
    sinks = Sinks()
    read_slowly(sinks)
    labelled = [raw.Node(wire.Meta(name, labels={"berth.dev/gpu.a": "b"})) for name in (NODE, "other")]

    feed(sinks.nodes, *labelled)
    found = [known_nodes(sinks)]
    later(sinks)
    found.append(known_nodes(sinks))
    feed(sinks.nodes, labelled[0].metadata)
    found.append(known_nodes(sinks))

    assert found == [["other"], [NODE, "other"], ["other"]]


def known_nodes(sinks: Sinks) -> list[str]:
    """Return the names of the Nodes that count."""
    return sorted(info.node.name for info in sinks.ledger.inventory.each() if info.node is not None)
