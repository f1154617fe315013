"""Inter-pod affinity and anti-affinity: each rule of kube-scheduler by a case, words and wake-ups."""

from typing import Final
from unittest import mock

import pytest

from berth_operator.scheduling import domains, explain, pod_index, pod_terms, terms_by_row
from berth_operator.scheduling.constraints import pod_affinity, registry
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.search import Search
from scheduling import plain_pod_rules, pod_clusters
from scheduling.placements import RULES
from scheduling.pod_clusters import (
    FOUR_NODES,
    HOST,
    WEB,
    ZONE,
    Body,
    Both,
    far,
    near,
    node,
    pod,
    pod_info,
    selecting,
    term,
    web,
)

ALL: Final = {"n1", "n2", "n3", "n4"}


CASES: Final[dict[str, tuple[tuple[Body, ...], Body, set[str]]]] = {
    "affinity takes the domain of the pod": (
        (*FOUR_NODES, web("w", "n1")),
        pod(affinity=near(term())),
        {"n1", "n2"},
    ),
    "affinity to no pod takes no node": (FOUR_NODES, pod(affinity=near(term())), set()),
    "the first pod of its own kind may go anywhere that has the label": (
        FOUR_NODES,
        pod(labels=WEB, affinity=near(term())),
        {"n1", "n2", "n3"},
    ),
    "the second one goes where the first is": (
        (*FOUR_NODES, web("w", "n3")),
        pod(labels=WEB, affinity=near(term())),
        {"n3"},
    ),
    "a pod outside all domains leaves the rule of the first": (
        (*FOUR_NODES, web("w", "n4")),
        pod(labels=WEB, affinity=near(term())),
        {"n1", "n2", "n3"},
    ),
    "the rule of the first asks for all of its terms": (
        FOUR_NODES,
        pod(labels=WEB, affinity=near(term(), term(selector=selecting(tier="x")))),
        set(),
    ),
    "a pod whose terms are about other namespaces is not the first of its kind": (
        FOUR_NODES,
        pod(labels=WEB, affinity=near(term(namespaces=["other"]))),
        set(),
    ),
    "one pod must meet all terms": (
        (*FOUR_NODES, web("w", "n1"), pod("v", "n1", labels={"tier": "x"})),
        pod(affinity=near(term(), term(selector=selecting(tier="x")))),
        set(),
    ),
    "two terms mean two domains": (
        (*FOUR_NODES, web("w", "n1")),
        pod(affinity=near(term(), term(HOST))),
        {"n1"},
    ),
    "affinity counts pods that are being deleted": (
        (*FOUR_NODES, web("w", "n1", leaving=True)),
        pod(affinity=near(term())),
        {"n1", "n2"},
    ),
    "a term is about its own namespace": (
        (*FOUR_NODES, web("w", "n1", namespace="other")),
        pod(affinity=near(term())),
        set(),
    ),
    "or about those that it names": (
        (*FOUR_NODES, web("w", "n1", namespace="other"), web("v", "n3")),
        pod(affinity=near(term(namespaces=["other"]))),
        {"n1", "n2"},
    ),
    "or about all of them": (
        (*FOUR_NODES, web("w", "n1", namespace="other"), web("v", "n3")),
        pod(affinity=near(term(namespaceSelector={}))),
        {"n1", "n2", "n3"},
    ),
    "or about those with a label": (
        (*FOUR_NODES, web("w", "n1", namespace="blue"), web("v", "n3")),
        pod(affinity=near(term(namespaceSelector=selecting(team="blue")))),
        {"n1", "n2"},
    ),
    "or about those of a name, by the label that each has": (
        (*FOUR_NODES, web("w", "n1", namespace="other"), web("v", "n3")),
        pod(affinity=near(term(namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "other"}}))),
        {"n1", "n2"},
    ),
    "named ones and those with a label are both meant": (
        (*FOUR_NODES, web("w", "n1", namespace="blue"), web("v", "n3", namespace="other")),
        pod(affinity=near(term(namespaces=["other"], namespaceSelector=selecting(team="blue")))),
        {"n1", "n2", "n3"},
    ),
    "an empty selector means all pods": (
        (*FOUR_NODES, pod("w", "n1")),
        pod(affinity=near(term(selector={}))),
        {"n1", "n2"},
    ),
    "without a selector none is meant": (
        (*FOUR_NODES, web("w", "n1")),
        pod(labels=WEB, affinity=near({"topologyKey": ZONE})),
        set(),
    ),
    "anti-affinity keeps out of the domain": (
        (*FOUR_NODES, web("w", "n1")),
        pod(affinity=far(term())),
        {"n3", "n4"},
    ),
    "anti-affinity by host": ((*FOUR_NODES, web("w", "n1")), pod(affinity=far(term(HOST))), ALL - {"n1"}),
    "anti-affinity to itself alone keeps nothing out": (
        FOUR_NODES,
        pod(labels=WEB, affinity=far(term())),
        ALL,
    ),
    "each term of anti-affinity counts by itself": (
        (*FOUR_NODES, web("w", "n1"), pod("v", "n3", labels={"tier": "x"})),
        pod(affinity=far(term(), term(HOST, selector=selecting(tier="x")))),
        {"n4"},
    ),
    "a pod there keeps others away": (
        (*FOUR_NODES, pod("w", "n1", affinity=far(term()))),
        pod(labels=WEB),
        {"n3", "n4"},
    ),
    "but not those that it does not mean": (
        (*FOUR_NODES, pod("w", "n1", affinity=far(term()))),
        pod(labels={"app": "db"}),
        ALL,
    ),
    "a pod there without the label keeps nothing away": (
        (*FOUR_NODES, pod("w", "n4", affinity=far(term()))),
        pod(labels=WEB),
        ALL,
    ),
    "a pod there means pods by the labels of their namespace": (
        (*FOUR_NODES, pod("w", "n1", affinity=far(term(namespaceSelector=selecting(team="blue"))))),
        pod(labels=WEB, namespace="blue"),
        {"n3", "n4"},
    ),
    "its preference keeps nothing away": (
        (
            *FOUR_NODES,
            pod(
                "w",
                "n1",
                affinity={
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1, "podAffinityTerm": term()}
                        ]
                    }
                },
            ),
        ),
        pod(labels=WEB),
        ALL,
    ),
    "matchLabelKeys mean pods of the same revision": (
        (*FOUR_NODES, web("w", "n1", labels=WEB | {"rev": "1"}), web("v", "n3", labels=WEB | {"rev": "2"})),
        pod(labels=WEB | {"rev": "2"}, affinity=near(term(matchLabelKeys=["rev"]))),
        {"n3"},
    ),
    "mismatchLabelKeys mean pods of other tenants": (
        (
            *FOUR_NODES,
            web("w", "n1", labels=WEB | {"tenant": "a"}),
            web("v", "n3", labels=WEB | {"tenant": "b"}),
        ),
        pod(labels={"tenant": "b"}, affinity=far(term(mismatchLabelKeys=["tenant"]))),
        {"n3", "n4"},
    ),
    "other operators are those of label selectors": (
        (*FOUR_NODES, web("w", "n1"), pod("v", "n3", labels={"tier": "x"})),
        pod(affinity=far(term(selector={"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}))),
        {"n3", "n4"},
    ),
}


def both_of(there: tuple[Body, ...]) -> Both:
    """Return the cluster, with a namespace that has a label."""
    both = Both(*there)
    both.name_namespace("blue", {"team": "blue"})
    return both


@pytest.mark.parametrize(("there", "asks", "expected"), CASES.values(), ids=CASES.keys())
def test_each_rule(there: tuple[Body, ...], asks: Body, expected: set[str]) -> None:
    """The nodes are those that kube-scheduler's rules leave, also by the second implementation."""
    both = both_of(there)

    assert both.feasible(asks) == expected
    assert plain_pod_rules.feasible(both.plain, asks) == expected


def test_labels_of_a_namespace_count_as_they_are_now() -> None:
    """For a term of the asking pod and for one of a pod there alike, whoever asked before."""
    blue = term(namespaceSelector=selecting(team="blue"))
    both = both_of((*FOUR_NODES, web("w", "n1", namespace="red"), pod("v", "n3", affinity=far(blue))))
    near_blue, red = pod(affinity=near(blue)), pod(labels=WEB, namespace="red")
    assert (both.feasible(near_blue), both.feasible(red)) == (set(), ALL)

    both.name_namespace("red", {"team": "blue"})

    assert (both.feasible(near_blue), both.feasible(red)) == ({"n1", "n2"}, ALL - {"n3"})


def test_keys_that_the_server_has_merged_are_not_merged_again() -> None:
    """The values at the creation count, as in kube-scheduler, even if a label has changed since."""
    merged = {"matchExpressions": [{"key": "rev", "operator": "In", "values": ["1"]}]}
    written = pod(labels={"rev": "2"}, affinity=near(term(selector=merged, matchLabelKeys=["rev"])))

    others = pod_info(written).demand.inter_pod_rules

    assert others is not None
    assert others.affinity[0].selector.expressions == (facts.LabelExpression("rev", "In", ("1",)),)


# ---------------------------------------------------------------- many terms of pods on nodes


def test_many_terms_that_repel_are_looked_at_together() -> None:
    """What pods on nodes say is one look for each topology key, and remembered until one comes or goes."""
    both = Both(*FOUR_NODES, pod("z", "n3", affinity=far(term(ZONE))))
    for at in range(30):
        repels = term(HOST, selector={"matchExpressions": [{"key": f"k{at}", "operator": "DoesNotExist"}]})
        both.put_pod(pod(f"w{at}", "n1", affinity=far(repels)))
    rows_with_any = pod_terms.TermIndex.rows_with_any
    with (
        mock.patch.object(domains, "with_any", wraps=domains.with_any) as looks,
        mock.patch.object(
            pod_terms.TermIndex, "rows_with_any", autospec=True, side_effect=rows_with_any
        ) as rows,
    ):
        assert both.feasible(pod(labels=WEB)) == {"n2", "n4"}
        assert both.feasible(pod(labels=WEB)) == {"n2", "n4"}
        assert (looks.call_count, rows.call_count) == (2, 2)
        both.drop_pod("z")
        assert both.feasible(pod(labels=WEB)) == {"n2", "n3", "n4"}
        both.put_pod(pod("n", "n2", affinity=far(repels)))
        assert both.feasible(pod(labels=WEB)) == {"n3", "n4"}


def test_only_so_many_sets_of_terms_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then all are found anew, and each pod is kept away from where it is not wanted, all the same."""
    monkeypatch.setattr(terms_by_row, "MOST_SETS", 1)
    monkeypatch.setattr(pod_index, "MOST_ROWS_WITH", 1)
    both = Both(*FOUR_NODES, *(pod(f"p{at}", f"n{at}", affinity=far(of_app(at))) for at in (1, 2)))
    for at in (1, 2, 1):
        asks = pod(labels={"app": str(at)})
        assert both.feasible(asks) == ALL - {f"n{at}"}
        rejections = pod_affinity.resolvable(pod_clusters.asked(both.inventory, pod_info(asks)))
        refused = [one.nodes.tolist() for one in rejections]
        assert refused == [[name == f"n{at}" for name in sorted(ALL)]]
    assert (len(both.inventory.pods._kept_away), len(both.inventory.pods._rows_with)) == (1, 1)


@pytest.mark.parametrize(("selector", "asked"), [({}, 1), ({"zone": "nowhere"}, 0)])
def test_where_no_node_is_left_nothing_is_asked_of_other_pods(selector: Body, asked: int) -> None:
    """Terms about others take longest, and a pod that fits nowhere may be tried again and again."""
    both = Both(*FOUR_NODES, web("w", "n1"))
    waiting = pod_info(pod(nodeSelector=selector, affinity=near(term())))

    with mock.patch.object(
        registry, "passes_inter_pod_filters", wraps=registry.passes_inter_pod_filters
    ) as found:
        Search(both.inventory).place(waiting.request, waiting.demand, policy=RULES)

    assert found.call_count == asked


@pytest.mark.parametrize(("selectors", "kept"), [(8, 9), (9, 1)])
def test_a_pod_with_many_selectors_drives_out_no_counts_of_others(selectors: int, kept: int) -> None:
    """They are counted anew when pods have changed, and each change costs others no more than before."""
    both = Both(*FOUR_NODES, web("w", "n1"))
    assert both.feasible(pod(affinity=far(term(HOST)))) == ALL - {"n1"}
    many = pod(affinity=far(*map(of_app, range(selectors))))

    for at, left in ((0, ALL - {"n2"}), (selectors - 1, ALL - {"n2", "n3"})):
        both.put_pod(pod(f"p{at}", f"n{2 if at == 0 else 3}", labels={"app": str(at)}))
        assert both.feasible(many) == left

    assert repr(both.inventory.pods) == f"<PodIndex: {kept} counted selectors, 0 terms>"


def of_app(at: int) -> Body:
    """Write a term about the pods of one application, each node a domain."""
    return term(HOST, selector=selecting(app=str(at)))


# ---------------------------------------------------------------- words, and what would help


def test_what_a_pod_is_told() -> None:
    """The words are kube-scheduler's, with the label; the changes that were tried follow."""
    both = Both(node("n1", "a"), node("n2", "b"), web("w", "n1"), pod("v", "n2", affinity=far(term(HOST))))
    waiting = pod_info(pod(labels=WEB, affinity=far(term())))

    found = explain.explain(Search(both.inventory), waiting, policy=RULES)

    assert explain.sentence(found, waiting) == (
        "0/2 nodes are available: "
        f"1 didn't satisfy existing pods anti-affinity rules ({HOST}); "
        f"1 didn't match pod anti-affinity rules ({ZONE}). Would fit if ml/w on n1 terminated."
    )
    assert {explain.would_fit(one) for one in found.advice} == {
        "would fit if ml/w on n1 terminated",
        f"would fit on 1 node if it had no pod anti-affinity over {ZONE}",
    }


def test_who_repels_a_pod_is_named() -> None:
    """Its end alone lets the pod in, of all that are there."""
    quiet = (pod(f"quiet-{number}", "n1") for number in range(5))
    both = Both(node("n1", "a"), *quiet, pod("loud", "n1", affinity=far(term())))

    found = explain.explain(Search(both.inventory), pod_info(pod(labels=WEB)), policy=RULES)

    assert [explain.would_fit(one) for one in found.advice] == ["would fit if ml/loud on n1 terminated"]


def test_who_is_not_in_the_way_is_not_named() -> None:
    """Of two pods with the labels only one is in a namespace that the term means."""
    blue = far(term(namespaceSelector=selecting(team="blue")))
    both = both_of((node("n1", "a"), web("red", "n1", namespace="red"), web("blue", "n1", namespace="blue")))
    last = both_of((node("n1", "a"), web("blue", "n1", namespace="blue"), web("red", "n1", namespace="red")))

    for known in (both, last):
        first = explain.explain(Search(known.inventory), pod_info(pod(affinity=blue)), policy=RULES).advice[0]
        assert explain.would_fit(first) == "would fit if blue/blue on n1 terminated"


def test_affinity_that_no_pod_meets() -> None:
    """It could be dropped; no end of a pod would help."""
    waiting = pod_info(pod(affinity=near(term())))

    found = explain.explain(Search(Both(*FOUR_NODES).inventory), waiting, policy=RULES)

    assert explain.sentence(found, waiting) == (
        f"0/4 nodes are available: 4 didn't match pod affinity rules ({ZONE}). "
        f"Would fit on 4 nodes if it had no pod affinity over {ZONE}."
    )
