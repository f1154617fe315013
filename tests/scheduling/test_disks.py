"""Disks that pods name themselves: those of one node share a disk only if all of them only read it."""

from collections.abc import Iterable

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling import exclusive_use, explain, queued_pods
from berth_operator.scheduling.decisions import ClusterEvent, Wait
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.nodes.facts import Disk
from scheduling.explain import scenes
from scheduling.placements import node_of
from support import builders, ledgers

DATA = Disk("iscsi data")
READ = Disk("iscsi data", read_only=True)
AWS = Disk("awsElasticBlockStore data", can_be_shared=False)
MONITORS = st.frozensets(st.sampled_from("abc"), min_size=1)
RBD = st.builds(Disk, st.just("rbd rbd/i"), st.booleans(), monitors=MONITORS)
DISKS = st.sampled_from([DATA, READ, AWS]) | RBD


def hold(name: str, node: str, *disks: Disk) -> Hold:
    """Return a pod on a node that has these disks."""
    return builders.hold(name, node, amounts=((facts.PODS, 1),), disks=disks)


def asking(*disks: Disk) -> queued_pods.PodInfo:
    """Return a pod that names these disks and asks for a card."""
    return builders.pod_info(demand=builders.demand(disks=disks))


def may_share(one: Disk, other: Disk) -> bool:
    """Whether two pods of one node may have these, by kube-scheduler's rules."""
    same_cluster = not one.monitors or bool(one.monitors & other.monitors)
    return one.name != other.name or not same_cluster or (one.read_only and other.read_only)


@hypothesis.given(st.lists(st.lists(DISKS, max_size=2), max_size=4), st.lists(DISKS, min_size=1, max_size=2))
def test_a_node_takes_a_pod_exactly_if_its_disks_can_be_had(
    there: list[list[Disk]], asked: list[Disk]
) -> None:
    """Whatever disks pods have there, and after some of these pods have gone."""
    inventory = builders.inventory(*builders.nodes(1), hold("gone", "n1", DATA, AWS))
    for number, disks in enumerate(there):
        inventory.charge(hold(str(number), "n1", *disks))
    inventory.release("uid-gone")

    free = all(may_share(one, other) for one in asked for disks in there for other in disks)
    assert (node_of(inventory, asking(*asked)) is not None) == free


def test_another_node_is_taken_and_then_each_says_which_disk_it_is() -> None:
    """To end the pod that has it helps, and so does to only read it where the others do."""
    inventory = builders.inventory(*builders.nodes(2), hold("a", "n1", DATA))
    assert node_of(inventory, asking(DATA)) == "n2"

    inventory.charge(hold("b", "n2", READ))
    found = scenes.told(inventory, asking(DATA))

    assert explain.sentence(found, asking(DATA)) == (
        "0/2 nodes are available: 2 have the disk iscsi data in use. Would fit if ml/a on n1 terminated."
    )
    assert [explain.would_fit(one) for one in found.advice] == [
        "would fit if ml/a on n1 terminated",
        "would fit on 1 node if it mounted iscsi data read-only",
    ]


@pytest.mark.parametrize(
    "wanted", [pytest.param(AWS, id="that cannot be shared"), pytest.param(READ, id="that is only read")]
)
def test_nothing_is_proposed_that_would_not_help(wanted: Disk) -> None:
    """To only read a disk is no advice for a pod that does, nor for a disk that one pod has at a time."""
    written = Disk(wanted.name, can_be_shared=wanted.can_be_shared)
    inventory = builders.inventory(*builders.nodes(1), hold("a", "n1", written))

    found = scenes.told(inventory, asking(wanted))

    assert [explain.would_fit(one) for one in found.advice] == ["would fit if ml/a on n1 terminated"]


def test_the_end_of_the_pod_that_has_it_lets_another_in() -> None:
    """A disk is no resource: its end alone wakes those that wait for it, and the placed pod has it."""
    ledger = ledgers.with_nodes(1)
    ledger.pod_bound(hold("a", "n1", DATA))
    ledger.pod_waiting(asking(DATA), gated=False)
    (wait,) = ledgers.decide(ledger, 0.0)
    assert isinstance(wait, Wait)
    assert ClusterEvent.CAPACITY_FREED in (wait.awaited or ())
    ledgers.requeue(ledger, "p", *(wait.awaited or ()))

    ledger.pod_over("uid-a")

    ledgers.assume(ledger)
    assert node_of(ledger.inventory, asking(DATA)) is None


def test_disks_of_one_name_are_looked_up_and_not_compared_one_by_one() -> None:
    """Pods may have thousands of them, each of another Ceph cluster."""
    compared = 0

    class Monitors(frozenset[str]):
        """Monitors that count with how many others they are compared."""

        def isdisjoint(self, other: Iterable[object], /) -> bool:
            nonlocal compared
            compared += 1
            return super().isdisjoint(other)

    usage = exclusive_use.ExclusiveUse[Disk]()
    usage.change(3, [Disk("rbd rbd/i", monitors=Monitors({f"there-{at}"})) for at in range(1000)], 1)
    asked = [Disk("rbd rbd/i", monitors=Monitors({f"asked-{at}"})) for at in range(64)]

    assert usage.free(asked, 5).all()
    assert compared < 1000
