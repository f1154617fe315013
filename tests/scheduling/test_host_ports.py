"""Host ports: two pods on one node never have the same port of the same address."""

import itertools

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling import exclusive_use, explain, queued_pods
from berth_operator.scheduling.decisions import ClusterEvent, Wait
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.nodes.facts import HostPort
from berth_operator.scheduling.search import Search
from scheduling.explain import scenes
from scheduling.placements import RULES, node_of
from support import builders, ledgers

WEB = HostPort(80)
PORTS = st.builds(
    HostPort,
    st.sampled_from([80, 81]),
    st.sampled_from(["TCP", "UDP"]),
    st.sampled_from(["", "10.0.0.1", "10.0.0.2"]),
)


def hold(name: str, node: str, *ports: HostPort) -> Hold:
    """Return a pod on a node that has these ports."""
    return builders.hold(name, node, amounts=((facts.PODS, 1),), host_ports=ports)


def asking(*ports: HostPort) -> queued_pods.PodInfo:
    """Return a pod that asks for these ports and a card."""
    return builders.pod_info(demand=builders.demand(host_ports=ports))


def may_share(one: HostPort, other: HostPort) -> bool:
    """Whether two pods of one node may have these, by Kubernetes' rules."""
    if (one.number, one.protocol) != (other.number, other.protocol):
        return True
    return bool(one.address and other.address) and one.address != other.address


@hypothesis.given(st.lists(st.lists(PORTS, max_size=3), max_size=4), st.lists(PORTS, min_size=1, max_size=2))
def test_a_node_takes_a_pod_exactly_if_its_ports_are_free(
    there: list[list[HostPort]], asked: list[HostPort]
) -> None:
    """Whatever ports pods have there, and after some of these pods have gone."""
    inventory = builders.inventory(*builders.nodes(1), hold("gone", "n1", WEB, WEB))
    for number, ports in enumerate(there):
        inventory.charge(hold(str(number), "n1", *ports))
    inventory.release("uid-gone")

    free = all(may_share(one, other) for one in asked for other in itertools.chain.from_iterable(there))
    assert (node_of(inventory, asking(*asked)) is not None) == free


def test_another_node_is_taken_and_named() -> None:
    """The pod goes where the port is free; where it is nowhere, each node says which port it is."""
    inventory = builders.inventory(*builders.nodes(2), hold("a", "n1", WEB))
    assert node_of(inventory, asking(WEB)) == "n2"

    inventory.charge(hold("b", "n2", HostPort(80, address="10.0.0.1")))
    found = explain.explain(Search(inventory), asking(WEB), policy=RULES)

    assert explain.sentence(found, asking(WEB)) == (
        "0/2 nodes are available: 2 have host port 80/TCP in use. Would fit if ml/a on n1 terminated."
    )
    assert [explain.would_fit(one) for one in found.advice] == [
        "would fit if ml/a on n1 terminated",
        "would fit on 2 nodes if it did not request host port 80/TCP",
    ]


@pytest.mark.parametrize("pods", [2, 40])
def test_who_has_the_port_is_named_however_many_pods_there_are(pods: int) -> None:
    """Its end is tried first: that of the others would not help."""
    others = (hold(f"other-{number}", "n1") for number in range(pods))
    inventory = builders.inventory(*builders.nodes(1), *others, hold("web", "n1", WEB))

    first = scenes.told(inventory, asking(WEB)).advice[0]

    assert explain.would_fit(first) == "would fit if ml/web on n1 terminated"


def test_of_many_ports_only_those_are_named_that_are_in_the_way() -> None:
    """On the nodes with the fewest of them."""
    ports = [HostPort(number) for number in range(1, 30)]
    inventory = builders.inventory(
        *builders.nodes(2), hold("many", "n1", *ports[:5]), hold("one", "n2", ports[7])
    )

    found = scenes.told(inventory, asking(*ports))

    assert [explain.would_fit(one) for one in found.advice] == [
        "would fit if ml/one on n2 terminated",
        "would fit on 1 node if it did not request host port 8/TCP",
    ]


def test_the_end_of_the_pod_that_has_it_lets_another_in() -> None:
    """A port is no resource: its end alone wakes those that wait for it, and the placed pod has it."""
    ledger = ledgers.with_nodes(1)
    ledger.pod_bound(hold("a", "n1", WEB))
    ledger.pod_waiting(asking(WEB), gated=False)
    (wait,) = ledgers.decide(ledger, 0.0)
    assert isinstance(wait, Wait)
    assert ClusterEvent.CAPACITY_FREED in (wait.awaited or ())
    ledgers.requeue(ledger, "p", *(wait.awaited or ()))

    ledger.pod_over("uid-a")

    ledgers.assume(ledger)
    assert node_of(ledger.inventory, asking(WEB)) is None


@pytest.mark.parametrize(
    ("port", "text"),
    [
        pytest.param(WEB, "80/TCP", id="of all addresses"),
        pytest.param(HostPort(53, "UDP", "10.0.0.1"), "10.0.0.1:53/UDP", id="of one address"),
        pytest.param(HostPort(53, "UDP", "fd00::1"), "[fd00::1]:53/UDP", id="of one address of IPv6"),
    ],
)
def test_a_port_is_written_as_people_write_it(port: HostPort, text: str) -> None:
    """With its protocol, and its address where it has one."""
    assert str(port) == text


def test_nothing_is_kept_of_ports_that_are_free_again() -> None:
    """Pods that come and go leave nothing behind."""
    usage = exclusive_use.ExclusiveUse[HostPort]()
    usage.change(3, (WEB, WEB), 1)
    usage.change(3, (WEB, WEB), -1)

    assert not usage.taken(WEB, 5).any()
    assert not usage._used


def test_ports_of_one_number_are_looked_up_and_not_compared_one_by_one() -> None:
    """Pods may have thousands of them, each of another address."""
    compared = 0

    class Address(str):
        """An address that counts with how many others it is compared."""

        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return super().__eq__(other)

    there = [HostPort(80, address=Address(f"10.0.{at // 250}.{at % 250}")) for at in range(1000)]
    asked = [HostPort(80, address=Address(f"10.1.0.{at}")) for at in range(64)]
    usage = exclusive_use.ExclusiveUse[HostPort]()
    usage.change(3, there, 1)

    assert usage.free(asked, 5).all()
    assert not exclusive_use.conflict(asked, there)
    assert compared < 1000
