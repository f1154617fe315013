"""The load of cards in the agents' Leases: when it counts, for how long, and what renewals cost."""

import logging
from typing import Final

import pytest

from berth_crds import names, wire
from berth_crds.client import lease
from berth_operator.scheduling import card_loads
from berth_operator.scheduling.decisions import ClusterEvent
from berth_operator.scheduling.policy import Policy
from berth_operator.translate import measured_load
from kube import sinks
from kube.sinks import NODE, Sinks, feed
from support import builders, ledgers

BUSY: Final = "v1 0:95,0,0,80,1024"


def renewed(moment: str, load: str, node: str = NODE) -> lease.Lease:
    """Return the Lease of an agent that has measured this."""
    annotations = {names.LOAD: load} if load else {}
    return lease.Lease(wire.Meta(node, annotations=annotations), lease.LeaseSpec(renew_time=moment))


def utilization(known: Sinks) -> int:
    """Return what counts as the utilization of the first card."""
    table = known.ledger.inventory.table
    return int(table.utilization[known.ledger.inventory.index[NODE], 0])


@pytest.fixture
def known() -> Sinks:
    """Lend sinks that know a node."""
    return sinks.with_node()


def test_a_load_counts_until_it_is_too_old(known: Sinks) -> None:
    """By our own clock, as long as the policy says, from the renewal that brought it."""
    found = []
    feed(known.leases, renewed("1", BUSY))
    for passed, renewal in ((29.0, ""), (0.0, "2"), (29.0, ""), (2.0, ""), (0.0, "3")):
        known.time.now += passed
        if renewal:
            feed(known.leases, renewed(renewal, BUSY))
        known.watchdog.judge()
        found.append(utilization(known))

    assert found == [95, 95, 95, -1, 95]

    known.ledger.policy_seen(Policy(load_seconds=5.0))
    known.time.now += 6.0
    known.watchdog.judge()
    assert utilization(known) == -1


def test_a_lease_that_is_only_read_again_is_no_measurement(known: Sinks) -> None:
    """An agent that hangs keeps its Lease, and what that says is soon too old."""
    feed(known.leases, renewed("1", BUSY))
    known.time.now += 20.0
    feed(known.leases, renewed("1", BUSY))
    known.time.now += 11.0
    known.watchdog.judge()

    assert utilization(known) == -1


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda known: feed(known.leases, renewed("2", "")), id="an agent that measures nothing"),
        pytest.param(lambda known: feed(known.leases, renewed("2", "rubbish")), id="one that writes rubbish"),
        pytest.param(lambda known: feed(known.leases, renewed("2", "v1 7:95,0,0,0,0")), id="another card"),
        pytest.param(lambda known: feed(known.leases, wire.Meta(NODE)), id="a Lease that goes"),
        pytest.param(lambda known: known.leases.restored(), id="a server that is restored"),
        pytest.param(lambda known: feed(known.devices, wire.Meta(NODE)), id="a Device that goes"),
    ],
)
def test_a_load_ends(known: Sinks, end: object) -> None:
    """With what it came with; its cards are judged by the promises then."""
    feed(known.leases, renewed("1", BUSY))
    assert utilization(known) == 95

    end(known)  # type: ignore[operator]  # each of them takes the sinks

    assert utilization(known) == -1


def test_a_load_that_comes_before_its_device_counts() -> None:
    """In whatever order the informers deliver."""
    early = Sinks()
    feed(early.leases, renewed("1", BUSY))
    ledgers.join(early.ledger, builders.node(NODE), builders.device(NODE))

    assert utilization(early) == 95


def test_rubbish_is_logged_once_and_loses_nothing(known: Sinks, caplog: pytest.LogCaptureFixture) -> None:
    """It is a sign of life all the same."""
    caplog.set_level(logging.WARNING)
    for moment in range(5):
        feed(known.leases, renewed(f"{moment}", "v1 0:200,0,0,0,0"))

    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        "the load of the cards of n1 does not count: the annotation of its Lease cannot be read: "
        "a percentage in it is above 100"
    )
    assert (known.free, utilization(known)) == (4, -1)


def test_of_a_text_that_is_too_long_nothing_is_kept(known: Sinks) -> None:
    """However long agents make it."""
    feed(known.leases, renewed("1", "v1 " + "x" * 100_000))

    assert set(known.watchdog.loads._texts.values()) == {""}


def test_a_renewal_without_news_is_not_even_read(known: Sinks, monkeypatch: pytest.MonkeyPatch) -> None:
    """It changes nothing, wakes nobody and voids no score."""
    feed(known.leases, renewed("1", BUSY))
    table, changes = known.ledger.inventory.table, known.ledger.changes.reader()
    ledgers.add_sleeping(known.ledger, "p", *ClusterEvent, cards=9)
    known.ledger.wake.clear()
    known.watchdog.judge()
    before = (table.version, table.load_log.version)
    monkeypatch.setattr(measured_load, "read", lambda _: pytest.fail("read again"))

    for moment in range(2, 5):
        feed(known.leases, renewed(f"{moment}", BUSY))
        known.watchdog.judge()

    assert (table.version, table.load_log.version) == before
    assert not changes.read()
    assert not known.ledger.wake.is_set()


def test_a_new_load_voids_no_scores_that_do_not_read_it_and_wakes_nobody(known: Sinks) -> None:
    """Only the log of loads says that it came."""
    table = known.ledger.inventory.table
    ledgers.add_sleeping(known.ledger, "p", ClusterEvent.CAPACITY_FREED, ClusterEvent.DEVICE_CHANGED, cards=9)
    known.ledger.wake.clear()
    before = table.version

    feed(known.leases, renewed("1", BUSY))
    known.watchdog.judge()
    assert (table.version, known.ledger.wake.is_set()) == (before, False)

    feed(known.leases, renewed("2", "v1 0:5,0,0,80,20480"))
    known.watchdog.judge()
    assert (table.version, known.ledger.wake.is_set()) == (before, False), "nobody waits for memory"
    assert not ledgers.decide(known.ledger)


@pytest.mark.parametrize(
    ("load", "woken"),
    [
        pytest.param("v1 0:5,0,0,80,20480", True, id="more is free"),
        pytest.param("", True, id="it is not measured any more"),
        pytest.param("v1 0:5,0,0,80,1024", False, id="as much is free"),
        pytest.param("v1 0:5,0,0,80,512", False, id="less is free"),
    ],
)
def test_memory_that_is_measured_free_wakes_the_pods_that_wait_for_it(
    known: Sinks, load: str, *, woken: bool
) -> None:
    """Once a second at most, and nobody else."""
    feed(known.leases, renewed("1", BUSY))
    known.watchdog.judge()
    ledgers.add_sleeping(known.ledger, "p", ClusterEvent.LOAD_CHANGED)
    ledgers.add_sleeping(known.ledger, "other", ClusterEvent.CAPACITY_FREED)
    known.ledger.wake.clear()

    feed(known.leases, renewed("2", load))
    assert not known.ledger.wake.is_set(), "not at each renewal"
    known.watchdog.judge()

    assert known.ledger.wake.is_set() is woken
    assert [one.uid for one in ledgers.decide(known.ledger)] == ["uid-p"] * woken


def test_forgotten_loads_take_no_memory() -> None:
    """Nodes that come and go leave nothing behind."""
    known = Sinks()
    for number in range(50):
        feed(known.leases, renewed("1", BUSY, f"n{number}"), wire.Meta(f"n{number}"))

    loads: card_loads.CardLoads = known.ledger.loads
    assert (len(loads), len(loads._reported), len(known.watchdog.loads._texts)) == (0, 0, 0)
