"""A pod that its kubelet gave other cards than its bind promised: both are kept from others (I1, N3)."""

import dataclasses

import msgspec
import pytest

from berth_crds import wire
from berth_operator.engine import given_otherwise, paced_calls
from berth_operator.engine.given_otherwise import MOST_CARDS
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling.decisions import ClusterEvent
from berth_operator.translate import gpupods
from support import builders, clock, inventories, ledgers

POD = builders.admitted(
    builders.pod("p", gpus=1, nodeName="n1", phase="Running", annotations=builders.record(main=[0]))
)


def said(*minors: int, source: str = "podresources", at: str = "n1", uid: str = "uid-p") -> wire.GpuPod:
    """Return the GpuPod of a pod that was promised card 0 and that was given these, as a source says."""
    gpupod = builders.gpupod(at=at, uid=uid, main=[0])
    grants = (wire.Grant("main", tuple(builders.uuid("n1", minor) for minor in minors), source),)
    return msgspec.structs.replace(gpupod, status=wire.GpuPodStatus(phase="Running", granted=grants))


def free(ledger: Ledger) -> int:
    """Return how many cards can be given."""
    return inventories.free_cards(ledger.inventory)


def test_what_was_given_otherwise_stays_marked_if_the_record_is_spoiled() -> None:
    """The pod keeps the card of its bind, and what its kubelet gave it."""
    ledger = ledgers.with_nodes()
    ledgers.pod_seen(ledger, POD)
    ledgers.gpupod_seen(ledger, said(2))

    ledgers.pod_seen(
        ledger, msgspec.structs.replace(POD, metadata=msgspec.structs.replace(POD.metadata, annotations={}))
    )

    assert free(ledger) == 2
    assert ledgers.holding(ledger) == ([0], 0)


@pytest.mark.parametrize("late", [False, True], ids=["the pod first", "the GpuPod first"])
def test_of_a_pod_without_cards_it_counts_whichever_comes_first(*, late: bool) -> None:
    """And it is taken back with the GpuPod."""
    ledger = ledgers.with_nodes()
    pod = builders.admitted(builders.pod("p", nodeName="n1", phase="Running"))
    ledgers.in_turn(
        lambda: ledgers.pod_seen(ledger, pod), lambda: ledgers.gpupod_seen(ledger, said(2)), late=late
    )
    before = free(ledger)

    ledger.gpupod_gone("ml/p")

    assert (before, free(ledger)) == (3, 4)


@pytest.mark.parametrize("late", [False, True], ids=["the pod first", "the GpuPod first"])
@pytest.mark.parametrize(
    ("gpupod", "expected"),
    [
        pytest.param(said(0), 3, id="what was promised"),
        pytest.param(said(2), 2, id="another card"),
        pytest.param(said(2, 3), 1, id="two others"),
        pytest.param(said(2, source="nvml"), 3, id="it is only seen there"),
        pytest.param(said(2, at="n2"), 3, id="an agent of another node says so"),
        pytest.param(said(2, uid="another"), 3, id="it is said of another pod"),
    ],
)
def test_what_was_given_otherwise_is_given_to_nobody(
    gpupod: wire.GpuPod, expected: int, *, late: bool
) -> None:
    """And what was promised is not, either: the environment of the pod may show it."""
    ledger = ledgers.with_nodes()
    ledgers.in_turn(
        lambda: ledgers.pod_seen(ledger, POD), lambda: ledgers.gpupod_seen(ledger, gpupod), late=late
    )

    assert free(ledger) == expected
    assert ledgers.holding(ledger) == ([0], 0)


def test_it_is_taken_back_when_the_agent_takes_it_back(caplog: pytest.LogCaptureFixture) -> None:
    """When it says otherwise, when its GpuPod goes, and when the pod ends; what is wrong is logged once."""
    ledger = ledgers.with_nodes()
    ledgers.pod_seen(ledger, POD)
    found = []
    for gpupod in (said(2), said(3), said(3), said(0), said(1)):
        ledgers.gpupod_seen(ledger, gpupod)
        found.append(free(ledger))
    ledger.gpupod_gone("ml/p")
    found.append(free(ledger))
    ledgers.gpupod_seen(ledger, said(2))
    ledgers.pod_seen(ledger, POD)
    found.append(free(ledger))
    ledgers.pod_seen(ledger, None, "uid-p")
    found.append(free(ledger))

    assert found == [2, 2, 2, 3, 2, 3, 2, 4]
    assert [record.getMessage() for record in caplog.records] == [
        f"pod ml/p was given {builders.uuid('n1', minor)} on n1, which is not in its allocation;"
        " no more of that is given out"
        for minor in (2, 3, 1, 2)
    ]


def test_what_the_record_itself_marks_stays_marked() -> None:
    """The marks of the agent come and go beside it."""
    kept = given_otherwise.GivenOtherwise()
    hold = builders.hold("p", "n1", (0,), marked=frozenset({"GPU-x", 3}))
    named = ledgers.named(said(2))

    kept.gpupod_seen(named)
    once = kept.marked(hold)
    twice = kept.marked(once)
    kept.gpupod_gone(named.title)

    assert once.marked == twice.marked == {"GPU-x", 3, builders.uuid("n1", 2)}
    assert kept.marked(twice) == hold


def test_more_cards_than_a_node_has_are_not_believed() -> None:
    """An agent that says so is not well."""
    ledger = ledgers.with_nodes()
    ledgers.pod_seen(ledger, POD)

    ledgers.gpupod_seen(ledger, said(*range(1, MOST_CARDS + 2)))

    assert free(ledger) == 3


def test_what_agents_of_other_nodes_say_takes_nothing_back() -> None:
    """Not even while their GpuPod stands beside the right one, nor when it goes."""
    ledger = ledgers.with_nodes()
    ledgers.pod_seen(ledger, POD)
    ledgers.gpupod_seen(ledger, said(2))
    beside_it = builders.gpupod("uid-p.n2", "n2", uid="uid-p", main=[0])
    forged = msgspec.structs.replace(said(3, at="n2"), metadata=beside_it.metadata)

    ledgers.gpupod_seen(ledger, forged)
    beside = free(ledger)
    ledger.gpupod_gone(gpupods.title(forged.metadata))

    assert (beside, free(ledger)) == (2, 2)


def test_a_node_that_names_cards_without_end_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its agent says beyond the limit is not kept; what agents of other nodes say is."""
    monkeypatch.setattr(given_otherwise, "MOST_NAMED", 7)
    kept = given_otherwise.GivenOtherwise()
    said_of = {uid: ledgers.named(said(2, 3, uid=uid)) for uid in ("uid-a", "uid-b", "uid-c")}
    titled = {uid: dataclasses.replace(one, title=uid) for uid, one in said_of.items()}

    assert [kept.gpupod_seen(one) for one in titled.values()] == [{"uid-a"}, {"uid-b"}, set()]
    assert kept.gpupod_seen(dataclasses.replace(titled["uid-c"], node="n2")) == {"uid-c"}
    kept.gpupod_gone("uid-a")
    assert kept.gpupod_seen(dataclasses.replace(titled["uid-c"], title="d")) == {"uid-c"}


def test_that_which_gpupods_are_read_is_chance_is_no_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that says more than is read makes nobody list everything anew; what else differs is told."""
    monkeypatch.setattr(given_otherwise, "MOST_NAMED", 3)
    other = msgspec.structs.replace(said(3, uid="uid-q"), metadata=wire.Meta("q", "ml", "gpupod-q"))
    one, another = ledgers.with_nodes(), ledgers.with_nodes()
    for ledger, gpupods_ in ((one, (said(2), other)), (another, (other, said(2)))):
        ledgers.pod_seen(ledger, POD)
        for gpupod in gpupods_:
            ledgers.gpupod_seen(ledger, gpupod)
    marked = [len(ledger.inventory.hold("uid-p").marked) for ledger in (one, another)]  # type: ignore[union-attr]

    same = ledgers.differences(one, another)
    another.pod_over("uid-p")

    assert sorted(marked) == [0, 1]
    assert (same, {found.name for found in ledgers.differences(one, another)}) == ((), {"uid-p"})


def test_a_gpupod_under_a_name_that_no_agent_gives_marks_nothing() -> None:
    """Any number of them may name a pod; those that count are among the sources that an audit compares."""
    ledger = ledgers.with_nodes()
    ledgers.pod_seen(ledger, POD)

    ledgers.gpupod_seen(ledger, msgspec.structs.replace(said(2), metadata=wire.Meta("other", "ml", "other")))

    assert free(ledger) == 3


def test_a_gpupod_that_changes_again_and_again_wakes_pods_a_few_times_only() -> None:
    """Each time a card seems to become free; an agent could say so without end."""
    now = clock.Clock()
    ledger = ledgers.with_nodes(now=now)
    ledgers.pod_seen(ledger, POD)
    ledgers.add_sleeping(ledger, "s", ClusterEvent.CAPACITY_FREED)
    woken = 0
    for at in range(100):
        ledgers.gpupod_seen(ledger, said(1 + at % 2))
        if ledgers.ready_names(ledger):
            woken += 1
            ledgers.requeue(ledger, "s", ClusterEvent.CAPACITY_FREED)
    assert 1 <= woken <= paced_calls.CALLS_IN_A_ROW

    now.advance(60.0)
    ledger.paced_calls.make_delayed()

    assert ledgers.ready_names(ledger) == ["s"]
