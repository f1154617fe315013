"""Thousands of pods that a kubelet has not admitted may be on one node: what that costs each event."""

import dataclasses
from collections.abc import Callable
from typing import Final
from unittest import mock

import pytest

from berth_crds import names
from berth_operator.engine import paced_calls
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import allocation_recovery, device_counts, node_offers
from berth_operator.scheduling.decisions import ClusterEvent
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import raw
from support import builders, clock, ledgers

MANY: Final = 50
Step = Callable[[Ledger], object]


def pod(name: str, cpu: str, cards: int = 0) -> raw.Pod:
    """Return a pod that another scheduler put on node n1."""
    asked = {"requests": {"cpu": cpu}, "limits": {names.NVIDIA_GPU: cards} if cards else {}}
    main = builders.container(resources=asked)
    return builders.pod(name, nodeName="n1", schedulerName="other", containers=[main])


def node(pods: int = 110) -> facts.Node:
    """Return a node of eight cpus whose device plugin serves four cards."""
    return builders.node("n1", extra={names.NVIDIA_GPU: 4}, pods=pods)


def with_many(cpu: str, cards: int = 0, *, now: clock.Clock | None = None) -> Ledger:
    """Return a ledger with many such pods on a node that may admit any of them."""
    ledger = ledgers.with_nodes(now=now)
    ledger.node_seen(node())
    for number in range(MANY):
        ledgers.pod_seen(ledger, pod(f"p{number}", cpu, cards))
    return ledger


def excluded(ledger: Ledger) -> int:
    """Return to how many of them nothing is charged."""
    return sum(ledger.unadmitted_pods.is_excluded(f"uid-p{number}") for number in range(MANY))


def rival(cpu: str) -> raw.Pod:
    """Return a pod that the kubelet has admitted."""
    return builders.admitted(pod("rival", cpu))


EVENTS: Final[dict[str, Step]] = {
    "a Node": lambda ledger: ledger.node_seen(node(pods=50)),
    "a Node that serves something else": lambda ledger: ledger.node_seen(builders.node("n1")),
    "a Device": lambda ledger: ledger.device_seen(builders.device("n1", 3)),
    "a pod": lambda ledger: ledgers.pod_seen(ledger, rival("4")),
}


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS.keys())
def test_what_is_free_is_not_worked_out_for_each_of_them(event: Step) -> None:
    """It is the same for all of them, whatever they are charged."""
    ledger = with_many("5", cards=1)

    with mock.patch.object(ledger.unadmitted_pods, "free", wraps=ledger.unadmitted_pods.free) as free:
        event(ledger)

    assert free.call_count <= 3


@pytest.mark.parametrize(("cpu", "looked_at"), [("1", False), ("2", True)], ids=["its labels", "its amounts"])
def test_an_admitted_pod_that_takes_the_same_as_before_concerns_none_of_them(
    cpu: str, *, looked_at: bool
) -> None:
    """Labels of others may change at any time, and say nothing of the room that these have."""
    ledger = with_many("5")
    ledgers.pod_seen(ledger, rival("1"))

    with mock.patch.object(ledger.unadmitted_pods, "free", wraps=ledger.unadmitted_pods.free) as free:
        changed = rival(cpu)
        changed.metadata.labels["app"] = "other"
        ledgers.pod_seen(ledger, changed)

    assert free.called is looked_at


def test_where_that_takes_long_changes_of_others_have_them_compared_seldom() -> None:
    """Whoever may change a pod can do so many times in a second; what is late is not lost."""
    now = clock.Clock()
    ledger = with_many("5", now=now)
    ledger.paced_calls.cpu_clock = clock.Ticking(0.05)

    with mock.patch.object(ledger.unadmitted_pods, "free", wraps=ledger.unadmitted_pods.free) as free:
        for at in range(40):
            ledgers.pod_seen(ledger, rival(str(1 + at % 2)))
        compared = free.call_count
        ledgers.pod_seen(ledger, rival("4"))
    before = excluded(ledger)
    now.advance(paced_calls.SECONDS_BETWEEN_CALLS)
    ledger.paced_calls.make_delayed()

    assert compared <= paced_calls.CALLS_IN_A_ROW
    assert (before, excluded(ledger)) == (0, MANY)


def test_what_is_late_is_done_where_no_further_round_comes() -> None:
    """As where a cluster is read from files."""
    ledger = with_many("5")
    ledger.paced_calls.cpu_clock = clock.Ticking(0.05)
    for at in range(paced_calls.CALLS_IN_A_ROW + 1):
        ledgers.pod_seen(ledger, rival("4" if at == paced_calls.CALLS_IN_A_ROW else str(1 + at % 2)))

    found = [excluded(ledger)]
    ledger.paced_calls.make_all_delayed()

    assert [*found, excluded(ledger)] == [0, MANY]


def test_a_node_that_serves_the_same_concerns_none_of_their_devices() -> None:
    """An image that was pulled says nothing of its cards."""
    ledger = with_many("5", cards=1)

    with mock.patch.object(allocation_recovery, "held", wraps=allocation_recovery.held) as held:
        ledger.node_seen(node(pods=50))

    assert not held.called


def test_a_device_concerns_none_of_those_that_are_charged_nothing() -> None:
    """They hold nothing of it, whatever it is."""
    ledger = with_many("5", cards=1)
    ledgers.pod_seen(ledger, rival("4"))

    with mock.patch.object(allocation_recovery, "held", wraps=allocation_recovery.held) as held:
        ledger.device_seen(builders.device("n1", 3))

    assert excluded(ledger) == MANY
    assert not held.called


@pytest.mark.parametrize("cards", [0, 1])
def test_that_all_are_kept_out_or_let_in_is_one_change_of_their_node(cards: int) -> None:
    """Its devices are counted, and it is offered, once and not for each of them."""
    ledger = with_many("5", cards)
    found = []

    with (
        mock.patch.object(device_counts, "refresh", wraps=device_counts.refresh) as counted,
        mock.patch.object(node_offers, "left", wraps=node_offers.left) as left,
    ):
        ledgers.pod_seen(ledger, rival("4"))
        found.append(excluded(ledger))
        ledger.pod_over("uid-rival")
        found.append(excluded(ledger))

    assert found == [MANY, 0]
    assert max(counted.call_count, left.call_count) < 10


def test_who_is_kept_out_makes_room_for_those_that_wait() -> None:
    """What all of them leave together is offered, and nothing that another of them still has."""
    ledger = with_many("5")
    ledgers.add_sleeping(ledger, "fits", ClusterEvent.CAPACITY_FREED, demand=builders.demand(4000))
    ledgers.add_sleeping(ledger, "large", ClusterEvent.CAPACITY_FREED, demand=builders.demand(5000))

    ledgers.pod_seen(ledger, rival("4"))

    assert ledgers.ready_names(ledger) == ["fits"]


def test_many_that_flip_leave_the_ledger_as_if_it_had_just_been_rebuilt() -> None:
    """However they came to be charged or not."""
    ledger = with_many("5", cards=1)
    ledgers.pod_seen(ledger, rival("4"))
    ledger.device_seen(builders.device("n1", 3))

    fresh = ledgers.with_nodes(cards=3)
    fresh.node_seen(node())
    for one in (rival("4"), *(pod(f"p{number}", "5", 1) for number in range(MANY))):
        ledgers.pod_seen(fresh, one)

    assert ledgers.contents(ledger) == ledgers.contents(fresh)
    ledger.pod_over("uid-rival")
    fresh.pod_over("uid-rival")
    assert ledgers.contents(ledger) == ledgers.contents(fresh)


def test_it_is_charged_few_ports_disks_and_claims_before_it_is_admitted() -> None:
    """Each pod that is charged otherwise takes the longer the more it has of these; amounts are whole."""
    ledger = ledgers.with_nodes()
    ports = tuple(facts.HostPort(number) for number in range(1, 65))
    disks = tuple(facts.Disk(f"rbd {at}", monitors=frozenset("abc")) for at in range(64))
    claims = tuple(facts.PodClaim("ml", f"{at}") for at in range(64))
    whole = builders.hold(
        "p", amounts=((facts.CPU, 1000),), withheld=2, host_ports=ports, disks=disks, claims=claims
    )

    ledger.pod_bound(whole, requirements=facts.ANYWHERE)
    before = ledger.inventory.hold("uid-p")
    ledger.pod_bound(whole)

    few = dataclasses.replace(whole, host_ports=ports[:8], disks=disks[:2], claims=claims[:8])
    assert before == few
    assert ledger.inventory.hold("uid-p") == whole


@pytest.mark.parametrize(("number", "stays"), [(8, False), (9, True)])
def test_only_these_ports_keep_it_out(number: int, stays: bool) -> None:  # noqa: FBT001  an example
    """If it is not sure that a kubelet will refuse a pod, its cards are given to nobody else."""
    ledger = ledgers.with_nodes()
    ports = tuple(facts.HostPort(one) for one in range(1, 65))
    ledger.pod_bound(builders.hold("there", host_ports=(facts.HostPort(number),)))

    ledger.pod_bound(builders.hold("p", withheld=2, host_ports=ports), requirements=facts.ANYWHERE)

    assert ledger.unadmitted_pods.is_excluded("uid-p") is not stays
    assert (ledgers.holding(ledger)[1] == 2) is stays
