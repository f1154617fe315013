"""What wakes a pod that waits for other pods, and what counts that is not known or not certain."""

import dataclasses
from typing import Final

import pytest

from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions, explain
from berth_operator.scheduling.decisions import Wait
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.search import Search
from scheduling.placements import RULES
from scheduling.pod_clusters import (
    FOUR_NODES,
    HOST,
    WEB,
    ZONE,
    Body,
    Both,
    far,
    hold,
    near,
    node,
    pod,
    pod_info,
    read,
    read_node,
    selecting,
    spread,
    term,
    web,
)
from support import ledgers

ALL: Final = {"n1", "n2", "n3", "n4"}


def test_the_pod_that_it_wants_to_be_near_lets_it_in() -> None:
    """It waits until that pod is bound, and goes where it is."""
    ledger = ledgers.with_nodes(2)
    waits(ledger, pod(affinity=near(term(HOST))), hosts=2)

    ledger.pod_bound(hold(web("w", "n2")))

    assert ledgers.assume(ledger).placement.node == "n2"


def test_the_end_of_the_pod_that_repels_lets_it_in() -> None:
    """Though the waiting pod itself says nothing of others, and asks for nothing that the other had."""
    ledger = ledgers.with_nodes(1)
    ledger.pod_bound(hold(pod("w", "n1", affinity=far(term(HOST)))))
    waits(ledger, pod(labels=WEB), hosts=1)

    ledger.pod_over("uid-w")

    assert ledgers.assume(ledger).placement.node == "n1"


@pytest.mark.parametrize("named", [True, False], ids=["gets the label", "gets another"])
def test_the_label_of_a_namespace_wakes_it(named: bool) -> None:  # noqa: FBT001  the value is the case
    """Its term means the pods of namespaces with a label, and one of these gets it."""
    ledger = ledgers.with_nodes(1)
    ledger.pod_bound(hold(web("w", "n1", namespace="blue")))
    waits(ledger, pod(affinity=near(term(HOST, namespaceSelector=selecting(team="blue")))), hosts=1)

    ledger.pod_changes.namespace_seen("blue", {"team": "blue" if named else "red"})

    (found,) = ledgers.decide(ledger)
    assert isinstance(found, Wait) is not named


def test_another_label_of_a_pod_that_waits_counts_at_once() -> None:
    """What repels it depends on its labels, which anybody may change while it waits."""
    ledger = ledgers.with_nodes(1)
    ledger.pod_bound(hold(pod("w", "n1", affinity=far(term(HOST)))))
    waits(ledger, pod(labels=WEB), hosts=1)

    ledger.pod_waiting(pod_info(pod(labels={"app": "db"})), gated=False)

    assert ledgers.assume(ledger).placement.node == "n1"


def test_a_placed_pod_repels_the_next_before_it_is_bound() -> None:
    """Its anti-affinity counts from the decision on."""
    ledger = ledgers.with_nodes(2)
    for number in (1, 2):
        name_hosts(ledger, number)
    for name in ("a", "b", "c"):
        ledger.pod_waiting(pod_info(pod(name, labels=WEB, affinity=far(term(HOST)))), gated=False)

    first, second, third = ledgers.decide(ledger)

    assert {first.placement.node, second.placement.node} == {"n1", "n2"}  # type: ignore[union-attr]
    assert isinstance(third, Wait)


def name_hosts(ledger: Ledger, number: int) -> None:
    """Let a node of a ledger have the label that kubelets give."""
    ledger.node_seen(read_node(node(f"n{number}")))


def waits(ledger: Ledger, body: Body, *, hosts: int) -> None:
    """Let a pod wait in a ledger, whose nodes have the labels of hosts."""
    for number in range(1, hosts + 1):
        name_hosts(ledger, number)
    ledger.pod_waiting(pod_info(body), gated=False)
    (wait,) = ledgers.decide(ledger)
    assert isinstance(wait, Wait), wait
    assert decisions.POD_EVENTS & (wait.awaited or frozenset())
    ledger.backlog.requeue("uid-p", now=1000.0, awaited=wait.awaited)
    assert not list(ledger.backlog.active(1000.0))


# ---------------------------------------------------------------- what is not known


UNLABELLED: Final = "cannot be evaluated: there are too many pod labels to keep them all"


def without_labels() -> Both:
    """Return a cluster with a pod on n1 for whose labels there was no room."""
    both = Both(*FOUR_NODES)
    both.inventory.charge(dataclasses.replace(hold(pod("w", "n1")), labels=(), labels_known=False))
    return both


def told(both: Both, body: Body) -> str:
    """Return why a pod fits nowhere, in short."""
    waiting = pod_info(body)
    return explain.brief(explain.explain(Search(both.inventory), waiting, policy=RULES).counts, waiting)


def test_a_pod_whose_labels_are_not_known_may_be_any_of_its_namespace() -> None:
    """Anti-affinity keeps away from it, affinity does not go by it, and where it is spreads nothing."""
    both = without_labels()
    spreading = pod(topologySpreadConstraints=[spread()])

    assert both.feasible(pod(affinity=far(term()))) == ALL - {"n1", "n2"}
    assert both.feasible(pod(affinity=far(term(HOST)))) == ALL - {"n1"}
    assert both.feasible(pod(affinity=near(term()))) == both.feasible(spreading) == set()
    assert both.feasible(pod(labels=WEB, affinity=near(term()))) == set()
    assert told(both, spreading).startswith(f"0/4 nodes are available: 3 {UNLABELLED}; 1 didn't match")


def test_who_asks_about_another_namespace_does_not_wait_for_its_labels() -> None:
    """Not even one that asks about all: it has the other nodes."""
    both = without_labels()
    both.inventory.pods.set_namespace("other", {})

    assert both.feasible(pod(namespace="other", affinity=far(term()))) == ALL
    assert both.feasible(pod(namespace="other", affinity=far(term(namespaceSelector={})))) == ALL - {
        "n1",
        "n2",
    }


def test_the_nodes_of_pods_whose_labels_are_not_known_are_told_apart() -> None:
    """Those near it are counted by that reason, and the others by theirs."""
    both = without_labels()
    for number in (2, 3, 4):
        both.inventory.charge(hold(web(f"w{number}", f"n{number}")))

    assert told(both, pod(affinity=far(term(HOST)))) == (
        "0/4 nodes are available: 3 didn't match pod anti-affinity rules (kubernetes.io/hostname); "
        f"1 {UNLABELLED}"
    )


OWN: Final = facts.PodSelector(("ml",), ())
ANY: Final = facts.PodSelector((), (), ())


@pytest.mark.parametrize(
    ("fields", "meant", "elsewhere"),
    [([{}], [OWN], ALL), ([{}, {"namespaceSelector": {}}], [OWN, ANY], ALL - {"n1", "n2"})],
    ids=["about its own namespace", "about all"],
)
def test_a_pod_that_says_too_much_keeps_all_off_whom_it_might(
    fields: list[Body], meant: list[facts.PodSelector], elsewhere: set[str]
) -> None:
    """Its labels are not read: what it says of a namespace is meant for all pods there, and for no others."""
    terms = (
        term(selector=selecting(app=f"a{number}")) | fields[number % len(fields)] for number in range(100)
    )
    body = pod("w", "n1", affinity=far(*terms))
    both = Both(*FOUR_NODES, body)

    assert [one.selector for one in hold(body).anti_affinity] == meant
    assert both.feasible(pod()) == ALL - {"n1", "n2"}
    assert both.feasible(pod(namespace="other")) == elsewhere


def test_a_pod_of_very_many_different_terms_keeps_them_off_its_node() -> None:
    """Topology keys may be too many as well: then one term stands for all, about its own namespace still."""
    body = pod("w", "n1", affinity=far(*(term(key=f"key-{number}") for number in range(100))))
    both = Both(*FOUR_NODES, body)

    assert hold(body).anti_affinity == (facts.PodTerm(OWN, ""),)
    assert (both.feasible(pod()), both.feasible(pod(namespace="other"))) == (ALL - {"n1"}, ALL)


def test_a_pod_that_its_kubelet_may_refuse_counts() -> None:
    """As for kube-scheduler, to which a pod with a node is there, whether the kubelet admits it or not."""
    ledger = ledgers.with_nodes(2)
    too_large = [{"name": "main", "resources": {"requests": {"cpu": "100"}}}]
    body = web("w", "n1", containers=too_large, schedulerName="other") | {"status": {"phase": "Pending"}}
    ledgers.pod_seen(ledger, read(body))
    assert ledger.unadmitted_pods.is_excluded("uid-w")

    waits(ledger, pod(affinity=near(term(ZONE))), hosts=2)
    for number in (1, 2):
        ledger.node_seen(read_node(node(f"n{number}", f"zone-{number}")))

    assert ledgers.assume(ledger).placement.node == "n1"


def test_pods_that_differ_in_other_pods_alone_share_their_scores() -> None:
    """What they require of others is asked anew each time, so a new application costs no new scores."""
    both = Both(*FOUR_NODES)
    search = Search(both.inventory)

    for app in ("web", "db", ""):
        apart = far(term(selector=selecting(app=app))) if app else {}
        waiting = pod_info(pod(labels={"app": app}, affinity=apart))
        assert search.place(waiting.request, waiting.demand, policy=RULES) is not None

    assert len(search._cached) == 1
