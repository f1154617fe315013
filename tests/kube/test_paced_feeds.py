"""What takes long to be read and changes all the time is read seldom, and as it is then."""

import sys
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest

from berth_crds import names, wire
from berth_crds.client import watch
from berth_operator.engine import paced_calls
from berth_operator.scheduling.devices import device_facts
from berth_operator.translate import gpupods, raw
from kube.sinks import NODE, Sinks, feed, named, pod, read, with_node
from support import builders, clock, ledgers, manifests


def published_cards(sinks: Sinks) -> Sequence[device_facts.PhysicalDevice]:
    """Return the cards that count as those of the node."""
    info = sinks.ledger.inventory.node(NODE)
    return info.published.cards if info is not None and info.published is not None else ()


def read_slowly(sinks: Sinks) -> None:
    """Have an agent publish ever more cards, each time in a way that takes long to be read."""
    sinks.ledger.paced_calls.cpu_clock = clock.Ticking(0.05)
    for count in range(1, 50):
        feed(sinks.devices, builders.published(cards=[{}] * count))


def later(sinks: Sinks) -> int:
    """Return how many cards count once the time of what was put off has come."""
    sinks.time.advance(60.0)
    sinks.ledger.paced_calls.make_delayed()
    return len(published_cards(sinks))


def test_a_device_that_takes_long_and_changes_all_the_time_is_read_seldom() -> None:
    """At first each time, and then as it is when its time has come."""
    sinks = Sinks()

    read_slowly(sinks)
    at_first = len(published_cards(sinks))

    assert 2 <= at_first <= paced_calls.CALLS_IN_A_ROW
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


def drifts(sinks: Sinks, fresh: Sinks, sink: Any, thing: Any) -> list[bool]:
    """Return whether the ledgers differ before an object comes, while it is put off, and until it is read."""

    def differ() -> bool:
        return bool(ledgers.differences(sinks.ledger, fresh.ledger))

    found = [differ()]
    feed(sink, thing)
    found.append(differ())
    later(sinks)
    return [*found, differ()]


def test_a_gpupod_that_is_late_is_no_drift() -> None:
    """An audit does not read everything anew because of what is to be read soon in any case."""
    sinks, fresh = with_node(), with_node()
    lost = pod(metadata={"annotations": {names.ALLOCATION: "{"}})
    spoken = read(manifests.gpupod("p", "u-1", NODE, 2, namespace="ml"), wire.GpuPod)
    feed(fresh.gpupods, spoken)
    feed(fresh.pods, lost)
    feed(sinks.pods, lost)
    sinks.ledger.paced_calls.charge(paced_calls.agent(NODE), 60.0)

    assert drifts(sinks, fresh, sinks.gpupods, spoken) == [True, False, False]


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


# ---------------------------------------------------------------- long pods

WAITS: Final[dict[str, Any]] = {"nodeName": "", "schedulerName": names.SCHEDULER_NAME}


def labelled(
    label: str, *, waits: bool = False, long: bool = True, phase: str = "Running", **fields: Any
) -> raw.Pod:
    """Return a pod with a label, which waits or is on a node, and says much of others if it is long."""
    phase = "Pending" if waits else phase
    spec = {"schedulerName": "other"} | (manifests.LONG if long else {}) | (WAITS if waits else {})
    found = pod(metadata={"labels": {"app": label}} | fields, spec=spec, status={"phase": phase})
    assert isinstance(found, raw.Pod)
    return found


def label_of(sinks: Sinks) -> str:
    """Return the label that the pod counts with."""
    known = sinks.ledger.inventory.hold("u-1") or sinks.ledger.backlog.get("u-1")
    assert known is not None
    return dict(known.labels)["app"]


@pytest.fixture
def edited() -> Sinks:
    """Lend sinks that know a long pod on a node, whose namespace has no time left."""
    sinks = with_node()
    feed(sinks.pods, labelled("0"))
    sinks.ledger.paced_calls.charge(paced_calls.long_pods("ml"), 60.0)
    return sinks


def test_edits_of_a_long_pod_are_read_seldom(edited: Sinks) -> None:
    """It is read again when there is time; only that is remembered meanwhile."""
    late, found = edited.ledger.late_pods, []

    feed(edited.pods, labelled("1"))
    found.append((label_of(edited), "u-1" in late))
    later(edited)
    found.append((label_of(edited), "u-1" in late))
    assert late.next() == ("ml", "p")
    feed(edited.pods, labelled("2"))
    found.append((label_of(edited), "u-1" in late))

    assert found == [("0", False), ("0", True), ("2", False)]


def test_an_edit_of_a_long_pod_that_is_late_is_no_drift(edited: Sinks) -> None:
    """An audit does not read everything anew because of it."""
    fresh, recorded = with_node(), labelled("1", annotations=manifests.allocated(NODE, 2))
    feed(fresh.pods, recorded)

    assert drifts(edited, fresh, edited.pods, recorded) == [True, False, False]


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(wire.Meta("p", "ml", "u-1"), id="it is deleted"),
        pytest.param(labelled("1", phase="Succeeded"), id="it has finished"),
        pytest.param(
            watch.Undecodable(wire.Meta("p", "ml", "u-1"), "odd", b'{"spec":{"nodeName":"n1"}}'),
            id="it cannot be read",
        ),
    ],
)
def test_the_end_of_a_long_pod_is_never_late(
    end: wire.Meta | raw.Pod | watch.Undecodable, edited: Sinks
) -> None:
    """Nor does an earlier state of it come back."""
    feed(edited.pods, labelled("1"))
    feed(edited.pods, end)
    later(edited)

    assert "u-1" not in edited.ledger.late_pods
    hold = edited.ledger.inventory.hold("u-1")
    assert hold is None or dict(hold.labels)["app"] == "0"


def test_what_a_long_pod_takes_of_its_node_is_never_late(edited: Sinks) -> None:
    """Other pods would be bound to a node that has no room for them any more, and be rejected there."""
    found = labelled("1")
    (main,) = found.spec.containers
    resources = raw.ContainerResources(requests={"cpu": "7"})
    resized = msgspec.structs.replace(main, resources=resources)
    spec = msgspec.structs.replace(found.spec, containers=(resized,))

    feed(edited.pods, msgspec.structs.replace(found, spec=spec))

    hold = edited.ledger.inventory.hold("u-1")
    assert hold is not None
    assert dict(hold.amounts)["cpu"] == 7000


@pytest.mark.parametrize("waits", [True, False], ids=["it waits", "it was bound"])
def test_a_pod_that_waits_is_never_late(*, waits: bool) -> None:
    """It is bound as what it was read as, in that revision; and what it was bound to counts at once."""
    sinks = with_node()
    feed(sinks.pods, labelled("0", waits=True))
    sinks.ledger.paced_calls.charge(paced_calls.long_pods("ml"), 60.0)

    feed(sinks.pods, labelled("1", waits=waits, annotations=manifests.allocated(NODE, 2)))

    assert label_of(sinks) == "1"
    assert waits or sinks.held == named(2)


def test_that_a_long_pod_was_admitted_is_never_late() -> None:
    """What it asks for counts from then on; as long as it is not, its edits are read seldom, too."""
    sinks, found = with_node(), []
    unadmitted = sinks.ledger.unadmitted_pods
    feed(sinks.pods, labelled("0", phase="Pending"))
    sinks.ledger.paced_calls.charge(paced_calls.long_pods("ml"), 60.0)

    for label, phase in (("1", "Pending"), ("2", "Running")):
        feed(sinks.pods, labelled(label, phase=phase))
        found.append((label_of(sinks), "u-1" in unadmitted))

    assert found == [("0", True), ("2", False)]


def test_edits_of_a_pod_that_is_not_long_are_read_each_time() -> None:
    """However many there are, and whatever else its namespace does."""
    sinks = with_node()
    feed(sinks.pods, labelled("0", long=False))
    sinks.ledger.paced_calls.charge(paced_calls.long_pods("ml"), 60.0)

    feed(sinks.pods, labelled("1", long=False))

    assert label_of(sinks) == "1"
