"""Which host ports of a node keep out a pod that its kubelet has not admitted yet."""

from typing import Final

import hypothesis
from hypothesis import strategies as st

from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions
from berth_operator.scheduling.nodes import facts
from support import builders, ledgers

Ports = tuple[facts.HostPort, ...]
PORTS: Final = st.lists(
    st.builds(
        facts.HostPort,
        st.sampled_from([80, 81]),
        st.sampled_from(["TCP", "UDP"]),
        st.sampled_from(["", "10.0.0.1", "10.0.0.2"]),
    ),
    max_size=3,
).map(tuple)


def put(ledger: Ledger, name: str, host_ports: Ports, *, admitted: bool) -> None:
    """Put a pod on node n1 that has these ports, or asks for them as long as it is not admitted."""
    hold = builders.hold(name, amounts=((facts.PODS, 1),), host_ports=host_ports)
    ledger.pod_bound(hold, requirements=None if admitted else facts.ANYWHERE)


def excludes(one: facts.HostPort, other: facts.HostPort) -> bool:
    """Whether two pods of one node cannot have both, by Kubernetes' rules."""
    overlap = not one.address or not other.address or one.address == other.address
    return (one.number, one.protocol) == (other.number, other.protocol) and overlap


@hypothesis.given(st.lists(st.tuples(PORTS, st.sampled_from(["there", "gone", "comes", "binds"]))), PORTS)
def test_only_the_ports_of_pods_that_are_there_keep_it_out(
    others: list[tuple[Ports, str]], asked: Ports
) -> None:
    """Not those of pods that are gone, that were not admitted either, or whose bind is under way."""
    ledger = ledgers.with_nodes()
    put(ledger, "p", asked, admitted=False)
    for number, (ports, how) in enumerate(others):
        name = f"{how}-{number}"
        if how == "binds":
            ledgers.add_waiting(ledger, name, 0, demand=builders.demand(host_ports=ports))
            if any(isinstance(one, decisions.Bind) for one in ledgers.decide(ledger)):
                ledgers.assume(ledger, name)
            ledger.backlog.remove(f"uid-{name}")
        else:
            put(ledger, name, ports, admitted=how != "comes")
    for number, (_, how) in enumerate(others):
        if how == "gone":
            ledger.pod_over(f"uid-gone-{number}")

    there = [port for ports, how in others if how == "there" for port in ports]
    taken = any(excludes(one, other) for one in asked for other in there)
    assert ledger.unadmitted_pods.is_excluded("uid-p") == taken


def test_ports_of_one_number_are_looked_up_and_not_compared_one_by_one() -> None:
    """Pods may have thousands of them, each of another address, on the node of pods that come and go."""
    compared = 0

    class Address(str):
        """An address that counts with how many others it is compared."""

        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return super().__eq__(other)

    ledger = ledgers.with_nodes()
    for name, count in (("there", 1000), ("p", 64)):
        ports = tuple(facts.HostPort(80, address=Address(f"{name} {at}")) for at in range(count))
        put(ledger, name, ports, admitted=name == "there")
    compared = 0

    put(ledger, "victim", (), admitted=True)
    ledger.pod_over("uid-victim")

    assert not ledger.unadmitted_pods.is_excluded("uid-p")
    assert compared < 1000
