"""Topology spread: each rule of kube-scheduler by a case, what a pod is told, and what would help."""

from typing import Any, Final

import pytest

from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions, explain
from berth_operator.scheduling.constraints import topology_spread
from berth_operator.scheduling.decisions import Reason, Wait
from berth_operator.scheduling.search import Search
from scheduling import plain_pod_rules
from scheduling.placements import RULES
from scheduling.pod_clusters import (
    HOST,
    WEB,
    ZONE,
    Body,
    Both,
    hold,
    node,
    pod,
    pod_info,
    read_node,
    selecting,
    spread,
    web,
)
from support import builders, ledgers

TWO_ZONES: Final = (node("n1", "a"), node("n2", "a"), node("n3", "b"))
ALL: Final = {"n1", "n2", "n3"}
FULL: Final[Body] = {"status": {"allocatable": {}}}


def asking(*constraints: Body, labels: dict[str, str] = WEB, **spec: Any) -> Body:
    """Write a waiting pod of the application with these constraints."""
    return pod(labels=labels, topologySpreadConstraints=list(constraints), **spec)


CASES: Final[dict[str, tuple[tuple[Body, ...], Body, set[str]]]] = {
    "an empty cluster takes it anywhere": (TWO_ZONES, asking(spread()), ALL),
    "a zone that is ahead takes no more": ((*TWO_ZONES, web("w", "n1")), asking(spread()), {"n3"}),
    "two pods on two nodes of one zone are of one domain": (
        (*TWO_ZONES, web("w", "n1"), web("v", "n2"), web("u", "n3")),
        asking(spread()),
        {"n3"},
    ),
    "a larger maxSkew allows more": ((*TWO_ZONES, web("w", "n1")), asking(spread(skew=2)), ALL),
    "a node without the label never takes it": ((*TWO_ZONES, node("n4")), asking(spread()), ALL),
    "the pods on a node without the label do not count": (
        (node("n1", "a"), node("n2", "b"), node("n3"), web("w", "n3")),
        asking(spread()),
        {"n1", "n2"},
    ),
    "a node that lacks another constraint's label makes no domain": (
        (node("n1", "a", rack="r"), node("n2", "b"), web("w", "n1")),
        asking(spread(), spread("rack", skew=5)),
        {"n1"},
    ),
    "of fewer domains than minDomains the fewest is none": (
        (*TWO_ZONES, web("w", "n1"), web("v", "n3")),
        asking(spread(minDomains=3)),
        set(),
    ),
    "of as many domains as minDomains the fewest is counted": (
        (*TWO_ZONES, web("w", "n1"), web("v", "n3")),
        asking(spread(minDomains=2)),
        ALL,
    ),
    "a pod that is not selected does not add to the skew": (
        (*TWO_ZONES, web("w", "n1")),
        asking(spread(), labels={"app": "other"}),
        ALL,
    ),
    "an empty selector counts no pod": (
        (*TWO_ZONES, web("w", "n1"), web("v", "n1")),
        asking(spread(selector={})),
        ALL,
    ),
    "without a selector nothing is counted": (
        (*TWO_ZONES, web("w", "n1")),
        asking({"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}),
        ALL,
    ),
    "pods of other namespaces do not count": (
        (*TWO_ZONES, web("w", "n1", namespace="other")),
        asking(spread()),
        ALL,
    ),
    "pods that are being deleted do not count": (
        (*TWO_ZONES, web("w", "n1", leaving=True)),
        asking(spread()),
        ALL,
    ),
    "a node that the node selector leaves out makes no domain": (
        (node("n1", "a", disk="ssd"), node("n2", "b"), web("w", "n1")),
        asking(spread(), nodeSelector={"disk": "ssd"}),
        {"n1", "n2"},
    ),
    "where the affinity is ignored it makes one": (
        (node("n1", "a", disk="ssd"), node("n2", "b"), web("w", "n1")),
        asking(spread(nodeAffinityPolicy="Ignore"), nodeSelector={"disk": "ssd"}),
        {"n2"},
    ),
    "a tainted node makes a domain": (
        (node("n1", "a"), node("n2", "b", taints=["gpu"]), web("w", "n1")),
        asking(spread()),
        {"n2"},
    ),
    "where taints are honoured it makes none": (
        (node("n1", "a"), node("n2", "b", taints=["gpu"]), web("w", "n1")),
        asking(spread(nodeTaintsPolicy="Honor")),
        {"n1", "n2"},
    ),
    "a taint that is tolerated leaves the domain": (
        (node("n1", "a"), node("n2", "b", taints=["gpu"]), web("w", "n1")),
        asking(spread(nodeTaintsPolicy="Honor"), tolerations=[{"key": "gpu", "operator": "Exists"}]),
        {"n2"},
    ),
    "one constraint honours taints, and the other counts tainted nodes": (
        (node("n1", "a"), node("n2", "b", taints=["gpu"]), web("w", "n1")),
        asking(spread(nodeTaintsPolicy="Honor", skew=5), spread()),
        {"n2"},
    ),
    "one constraint honours the affinity, and the other ignores it": (
        (node("n1", "a", disk="ssd"), node("n2", "b"), web("w", "n1")),
        asking(spread(skew=5), spread(nodeAffinityPolicy="Ignore"), nodeSelector={"disk": "ssd"}),
        {"n2"},
    ),
    "matchLabelKeys count the pods of the same revision": (
        (*TWO_ZONES, pod("w", "n1", labels=WEB | {"rev": "1"})),
        asking(spread(matchLabelKeys=["rev"]), labels=WEB | {"rev": "2"}),
        ALL,
    ),
    "a key in matchLabelKeys that the pod lacks counts for nothing": (
        (*TWO_ZONES, pod("w", "n1", labels=WEB | {"rev": "1"})),
        asking(spread(matchLabelKeys=["rev"])),
        {"n3"},
    ),
    "two constraints hold both": (
        (*TWO_ZONES, web("w", "n1"), web("v", "n3")),
        asking(spread(), spread(HOST)),
        {"n2"},
    ),
    "a constraint that may be missed is passed over": (
        (*TWO_ZONES, web("w", "n1")),
        asking(spread(whenUnsatisfiable="ScheduleAnyway")),
        ALL,
    ),
}


@pytest.mark.parametrize(("there", "asks", "expected"), CASES.values(), ids=CASES.keys())
def test_each_rule(there: tuple[Body, ...], asks: Body, expected: set[str]) -> None:
    """The nodes are those that kube-scheduler's rules leave, also by the second implementation."""
    both = Both(*there)

    assert both.feasible(asks) == expected
    assert plain_pod_rules.feasible(both.plain, asks) == both.feasible(asks)


def test_counts_are_kept_up_to_date() -> None:
    """A pod that is being deleted, and a node that is tainted, count no more after they did."""
    both = Both(*TWO_ZONES, web("w", "n1"))
    plain, honouring = asking(spread()), asking(spread(nodeTaintsPolicy="Honor"))
    assert (both.feasible(plain), both.feasible(honouring)) == ({"n3"}, {"n3"})

    both.put_node(node("n3", "b", taints=["x"]))
    assert (both.feasible(plain), both.feasible(honouring)) == ({"n3"}, ALL)

    both.put_pod(web("w", "n1", leaving=True))
    assert both.feasible(plain) == ALL


# ---------------------------------------------------------------- placing, words, and what would help


def test_pods_are_placed_in_turns() -> None:
    """Each is placed where the fewest are, as those before it are counted."""
    both = Both(*TWO_ZONES)
    search, zones = Search(both.inventory), []
    for number in range(6):
        waiting = pod_info(asking(spread()))
        found = search.place(waiting.request, waiting.demand, policy=RULES)
        assert found is not None
        zones.append(both.plain.nodes[found.node]["metadata"]["labels"][ZONE])
        both.put_pod(web(f"w{number}", found.node))

    assert all(set(zones[at : at + 2]) == {"a", "b"} for at in (0, 2, 4))


def test_what_a_pod_is_told() -> None:
    """The words are kube-scheduler's, with the figures; the changes that were tried follow."""
    both = Both(*TWO_ZONES, web("w", "n1"), node("n4"))
    waiting = pod_info(asking(spread(), nodeSelector={HOST: "n1"}))
    waiting_anywhere = pod_info(asking(spread(minDomains=3)))

    alone = explain.explain(Search(both.inventory), waiting, policy=RULES)
    found = explain.explain(Search(both.inventory), waiting_anywhere, policy=RULES)

    assert [explain.would_fit(one) for one in alone.advice] == []  # It fits: one domain is no skew.
    assert explain.sentence(found, waiting_anywhere).startswith(
        "1/4 nodes are available: 2 didn't match pod topology spread constraints "
        f"({ZONE}: skew 2, maxSkew 1); "
        f"1 didn't match pod topology spread constraints (missing label {ZONE})"
    )


def test_many_different_skews_are_not_told_apart() -> None:
    """The nodes that are further ahead than the eighth figure are one count, which says so."""
    zones = range(1, topology_spread.MOST_SKEWS + 3)
    pods = (web(f"w{zone}-{number}", f"n{zone}") for zone in zones for number in range(zone))
    both = Both(node("n0", "0", taints=["x"]), *(node(f"n{zone}", f"{zone}") for zone in zones), *pods)
    waiting = pod_info(asking(spread()))

    found = explain.explain(Search(both.inventory), waiting, policy=RULES)

    told = {one.detail: one.nodes for one in found.counts if one.reason is Reason.TOPOLOGY_SPREAD}
    first = {f"{ZONE}: skew {skew}, maxSkew 1": 1 for skew in range(2, 10)}
    assert told == {**first, f"{ZONE}: skew over 9, maxSkew 1": 2}


def test_what_would_help() -> None:
    """More skew, no constraint, or the end of the pods of the node that are counted."""
    both = Both(node("n1", "a"), node("n2", "b", taints=["x"]), web("w", "n1"))
    waiting = pod_info(asking(spread()))

    found = explain.explain(Search(both.inventory), waiting, policy=RULES)

    assert {explain.would_fit(one) for one in found.advice} == {
        "would fit if ml/w on n1 terminated",
        f"would fit on 1 node if maxSkew over {ZONE} were 2",
        f"would fit on 1 node if it had no topology spread constraint over {ZONE}",
        "would fit on 1 node if the taint x were tolerated",
    }


# ---------------------------------------------------------------- what wakes a pod that waits


def waiting_ledger() -> tuple[Ledger, Wait]:
    """Return a ledger in which a pod waits because zone `a` is ahead and zone `b` has no room."""
    ledger = ledgers.with_nodes(0)
    for body in (node("n1", "a"), node("n2", "b") | FULL):
        ledger.node_seen(read_node(body))
    ledger.pod_bound(hold(web("w", "n1")))
    ledger.pod_waiting(pod_info(asking(spread())), gated=False)
    (wait,) = ledgers.decide(ledger)
    assert isinstance(wait, Wait)
    ledger.backlog.requeue("uid-p", now=1000.0, awaited=wait.awaited)
    return ledger, wait


def test_a_pod_that_comes_elsewhere_lets_it_in() -> None:
    """A pod of the application in the other zone evens the spread."""
    ledger, wait = waiting_ledger()
    assert (wait.awaited or frozenset()) >= decisions.POD_EVENTS
    assert not list(ledger.backlog.active(1000.0))

    ledger.pod_bound(hold(web("v", "n2")))

    assert ledgers.assume(ledger).placement.node == "n1"


@pytest.mark.parametrize(
    ("changed", "wakes"),
    [
        pytest.param(pod("w", "n1", labels={"app": "other"}), True, id="other labels"),
        pytest.param(web("w", "n1", leaving=True), True, id="a deletion"),
        pytest.param(pod("w", "n1", labels=WEB | {"more": "x"}), False, id="a label that nobody asks for"),
        pytest.param(web("w", "n1"), False, id="nothing"),
        pytest.param(pod("new", "n2", labels={"app": "other"}), False, id="a pod that it is not about"),
    ],
)
def test_a_change_of_a_pod_wakes_it(changed: Body, wakes: bool) -> None:  # noqa: FBT001  expected
    """Only changes of pods that its constraints select."""
    ledger, _ = waiting_ledger()

    ledger.pod_bound(hold(changed))

    assert bool(list(ledger.backlog.active(1000.0))) is wakes


def test_the_label_of_a_node_wakes_it() -> None:
    """A node that joins another zone makes other domains."""
    ledger, _ = waiting_ledger()

    ledger.node_seen(read_node(node("n2", "a") | FULL))

    assert ledgers.assume(ledger).placement.node == "n1"


def test_a_node_that_goes_wakes_it() -> None:
    """Without the node there is no other zone."""
    ledger, _ = waiting_ledger()

    ledger.node_gone("n2")

    assert ledgers.assume(ledger).placement.node == "n1"


def test_a_pod_without_constraints_shares_its_signature() -> None:
    """Nothing of its labels becomes part of what it asks."""
    one, other = (pod_info(pod(name, labels={"app": name})) for name in ("a", "b"))

    assert one.demand == other.demand
    assert one.demand.inter_pod_rules is None
    assert builders.pod_info().demand.inter_pod_rules is None


def test_pods_of_one_workload_share_their_signature() -> None:
    """Labels that no selector names do not tell them apart, though each pod has its own."""
    one, other = (
        pod_info(asking(spread(selector=selecting(app="web")), labels=WEB | {"index": at})) for at in "01"
    )

    assert one.demand == other.demand
