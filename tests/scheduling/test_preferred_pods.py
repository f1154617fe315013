"""What pods would rather have of other pods: preferred pod affinity, and spread that may be missed."""

from typing import Any, Final

import pytest

from berth_operator.scheduling import cycle
from berth_operator.scheduling.decisions import Bind
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from scheduling import plain_pod_preferences
from scheduling.placements import RULES
from scheduling.pod_clusters import (
    AWAY,
    HOST,
    PREFERRED,
    Body,
    Both,
    far,
    near,
    node,
    parts,
    pod,
    pod_info,
    selecting,
    softly,
    spread,
    term,
    wish,
    wishes,
)
from scheduling.preferring import chosen, weighing
from support import backlogs

WEB: Final = {"app": "web"}
THREE_ZONES: Final = (node("n1", "a"), node("n2", "a"), node("n3", "b"), node("n4", "c"), node("n5"))
ALL: Final = ("n1", "n2", "n3", "n4", "n5")


def web(name: str, at: str, **fields: Any) -> Body:
    """Write a pod of the application on a node."""
    return pod(name, at, **{"labels": WEB, **fields})


# ---------------------------------------------------------------- pod affinity

AFFINITY: Final[dict[str, tuple[tuple[Body, ...], Body, dict[str, float]]]] = {
    "the domain of the pod": ((web("w", "n1"),), wish(), {"n1": 1, "n2": 1}),
    "no pod to be near": ((), wish(), {}),
    "any other domain than that of the pod": (
        (web("w", "n1"),),
        wish(kind=AWAY),
        {"n3": 1, "n4": 1, "n5": 1},
    ),
    "more pods count more": (
        (web("w", "n1"), web("v", "n1"), web("u", "n3")),
        wish(),
        {"n1": 1, "n2": 1, "n3": 0.5},
    ),
    "by the weight of the term": (
        (web("w", "n1"), pod("d", "n3", labels={"app": "db"})),
        wishes(wish(25), wish(100, selector=selecting(app="db"))),
        {"n3": 1, "n1": 0.25, "n2": 0.25},
    ),
    "affinity and anti-affinity together": (
        (web("w", "n1"), pod("d", "n1", labels={"app": "db"})),
        wishes(wish(30), wish(90, AWAY, selector=selecting(app="db"), key=HOST)),
        {"n2": 1, "n3": 2 / 3, "n4": 2 / 3, "n5": 2 / 3},
    ),
    "a node without the label has nothing of the term": (
        (web("w", "n5"), web("v", "n3")),
        wish(),
        {"n3": 1},
    ),
    "a pod that is being deleted counts": ((web("w", "n3", leaving=True),), wish(), {"n3": 1}),
    "a pod of another namespace does not": ((web("w", "n3", namespace="other"),), wish(), {}),
    "it does where the term names it": (
        (web("w", "n3", namespace="other"), web("v", "n1")),
        wish(namespaces=["other"]),
        {"n3": 1},
    ),
    "or by the labels of the namespace": (
        (web("w", "n3", namespace="blue"), web("v", "n1")),
        wish(namespaceSelector=selecting(team="blue")),
        {"n3": 1},
    ),
    "an empty selector means all pods": ((pod("w", "n3"),), wish(selector={}), {"n3": 1}),
    "matchLabelKeys mean the same revision": (
        (web("w", "n1", labels=WEB | {"rev": "1"}), web("v", "n3", labels=WEB | {"rev": "2"})),
        wish(matchLabelKeys=["rev"]),
        {"n3": 1},
    ),
    "mismatchLabelKeys mean another one": (
        (web("w", "n1", labels=WEB | {"rev": "1"}), web("v", "n3", labels=WEB | {"rev": "2"})),
        wish(mismatchLabelKeys=["rev"]),
        {"n1": 1, "n2": 1},
    ),
}


@pytest.mark.parametrize(("there", "affinity", "expected"), AFFINITY.values(), ids=AFFINITY.keys())
def test_preferred_pod_affinity(there: tuple[Body, ...], affinity: Body, expected: dict[str, float]) -> None:
    """Each node has the part that kube-scheduler's rules give it, also by the second implementation."""
    both = Both(*THREE_ZONES, *there)
    both.name_namespace("blue", {"team": "blue"})
    asks = pod(labels={"rev": "2"}, affinity=affinity)

    found = parts(both, "pod_affinity", asks, ALL)

    assert found == pytest.approx(dict.fromkeys(ALL, 0.0) | expected)
    assert found == pytest.approx(plain_pod_preferences.affinity_parts(both.plain, asks, ALL))


def test_sums_are_compared_among_the_nodes_that_pass_the_filters() -> None:
    """The best of these has all points, however many pods are near nodes that do not fit."""
    both = Both(*THREE_ZONES, web("w", "n1"), web("v", "n1"), web("u", "n3"))
    asks = pod(affinity=wish())

    assert parts(both, "pod_affinity", asks, ("n3", "n4")) == {"n3": 1, "n4": 0}
    assert parts(both, "pod_affinity", asks, ("n1", "n2")) == {"n1": 0, "n2": 0}


# ---------------------------------------------------------------- spread

ONE_A: Final = (web("w", "n1"),)
SPREAD: Final[dict[str, tuple[tuple[Body, ...], tuple[Body, ...], dict[str, float]]]] = {
    "a zone without a pod": (ONE_A, (softly(),), {"n3": 1, "n4": 1}),
    "no pod at all": ((), (softly(),), {"n1": 1, "n2": 1, "n3": 1, "n4": 1}),
    # Of four domains each pod weighs log(5): 2 and 3 of them are 3 and 5 in whole numbers.
    "the fewer pods the better": (
        (*ONE_A, web("v", "n3"), web("u", "n3"), web("x", "n4"), web("y", "n4"), web("z", "n4")),
        (softly(),),
        {"n1": 1, "n2": 1, "n3": 0.8, "n4": 0.4},
    ),
    "a larger maxSkew makes less of the difference": (
        ONE_A,
        (softly(skew=5),),
        {"n1": 4 / 6, "n2": 4 / 6, "n3": 1, "n4": 1},
    ),
    "hosts": (ONE_A, (softly(HOST),), {"n2": 1, "n3": 1, "n4": 1, "n5": 1}),
    "hosts and zones: nodes without a zone have no points": (
        ONE_A,
        (softly(), softly(HOST)),
        {"n2": 1 / 3, "n3": 1, "n4": 1},
    ),
    "a pod that is being deleted does not count": (
        (web("w", "n1", leaving=True), web("v", "n3")),
        (softly(),),
        {"n1": 1, "n2": 1, "n4": 1},
    ),
    "nor one of another namespace": (
        (web("w", "n1", namespace="other"), web("v", "n3")),
        (softly(),),
        {"n1": 1, "n2": 1, "n4": 1},
    ),
    "an empty selector counts none": (ONE_A, (softly(selector={}),), {"n1": 1, "n2": 1, "n3": 1, "n4": 1}),
    "matchLabelKeys count the same revision": (
        (web("w", "n1", labels=WEB | {"rev": "1"}), web("v", "n3", labels=WEB | {"rev": "2"})),
        (softly(matchLabelKeys=["rev"]),),
        {"n1": 1, "n2": 1, "n4": 1},
    ),
    "a hard constraint beside it is no preference": (
        ONE_A,
        (softly(HOST), spread(skew=9)),
        {"n2": 1, "n3": 1, "n4": 1, "n5": 1},
    ),
}


@pytest.mark.parametrize(("there", "constraints", "expected"), SPREAD.values(), ids=SPREAD.keys())
def test_soft_spread(
    there: tuple[Body, ...], constraints: tuple[Body, ...], expected: dict[str, float]
) -> None:
    """Each node has the part that kube-scheduler's rules give it, also by the second implementation."""
    both = Both(*THREE_ZONES, *there)
    asks = pod(labels={"rev": "2"}, topologySpreadConstraints=list(constraints))

    found = parts(both, "spread", asks, ALL)

    assert found == pytest.approx(plain_pod_preferences.spread_parts(both.plain, asks, ALL))
    assert found == pytest.approx(dict.fromkeys(ALL, 0.0) | expected)


@pytest.mark.parametrize(
    ("constraint", "spec", "expected"),
    [
        pytest.param({}, {}, {"n1": 0, "n2": 1}, id="pods on tainted nodes count"),
        pytest.param(
            {"nodeTaintsPolicy": "Honor"}, {}, {"n1": 1, "n2": 0}, id="where taints are honoured they do not"
        ),
        pytest.param({}, {"nodeSelector": {"pool": "x"}}, {"n1": 1, "n2": 0}, id="nor on nodes not selected"),
        pytest.param(
            {"nodeAffinityPolicy": "Ignore"},
            {"nodeSelector": {"pool": "x"}},
            {"n1": 0, "n2": 1},
            id="where the selector is ignored they do",
        ),
    ],
)
def test_on_which_nodes_pods_count_for_spread(
    constraint: Body, spec: Body, expected: dict[str, float]
) -> None:
    """Two pods are in zone a, on a node that does not fit, and one in zone b."""
    both = Both(
        node("n1", "a", pool="x"),
        node("n2", "b", pool="x"),
        node("n3", "a", taints=("old",)),
        *(web("w", "n3"), web("v", "n3"), web("u", "n2")),
    )
    asks = pod(topologySpreadConstraints=[softly(**constraint)], **spec)

    found = parts(both, "spread", asks, ("n1", "n2"))

    assert found == pytest.approx(plain_pod_preferences.spread_parts(both.plain, asks, ("n1", "n2")))
    assert max(found, key=lambda name: found[name]) == max(expected, key=lambda name: expected[name])


def test_a_host_counts_by_itself() -> None:
    """Though another node has the same label, as kube-scheduler counts by node and not by that label."""
    both = Both(node("n1"), node("n2", **{HOST: "n1"}), node("n3"), web("w", "n1"), web("v", "n3"))
    asks, names = pod(topologySpreadConstraints=[softly(HOST)]), ("n1", "n2", "n3")

    found = parts(both, "spread", asks, names)

    assert found == {"n1": 0, "n2": 1, "n3": 0}
    assert found == plain_pod_preferences.spread_parts(both.plain, asks, names)


# ---------------------------------------------------------------- the choice


def choose(both: Both, asks: Body, policy: Policy = RULES, search: Search | None = None) -> str | None:
    """Return the node that a pod gets."""
    return chosen(both.inventory, pod_info(asks), policy, search)


@pytest.mark.parametrize(
    ("spec", "weights", "name"),
    [
        pytest.param({}, {}, "n1", id="nothing is preferred"),
        pytest.param({"affinity": wish(selector=selecting(app="db"))}, {}, "n3", id="near"),
        pytest.param(
            {"affinity": wish(selector=selecting(app="db"))}, {"pod_affinity": 0}, "n1", id="without weight"
        ),
        pytest.param({"affinity": wish(kind=AWAY)}, {}, "n3", id="away"),
        pytest.param({"topologySpreadConstraints": [softly()]}, {}, "n3", id="spread"),
        pytest.param(
            {"topologySpreadConstraints": [softly()]}, {"spread": 0}, "n1", id="spread without weight"
        ),
        pytest.param(
            {"affinity": wish(), "topologySpreadConstraints": [softly()]},
            {"spread": 3},
            "n3",
            id="by the larger weight",
        ),
        pytest.param(
            {"affinity": wish(), "topologySpreadConstraints": [softly()]}, {"spread": 1}, "n1", id="of either"
        ),
        pytest.param({"affinity": far(term()) | wish()}, {}, "n3", id="what is required comes first"),
        pytest.param(
            {"affinity": near(term()) | wish(kind=AWAY, key=HOST)}, {}, "n2", id="and the wish after it"
        ),
    ],
)
def test_which_node_a_pod_gets(spec: Body, weights: dict[str, int], name: str) -> None:
    """The node with the largest sum of points by weight."""
    both = Both(*THREE_ZONES[:3], web("w", "n1"), pod("d", "n3", labels={"app": "db"}))

    assert choose(both, pod(**spec), weighing(**weights)) == name


def test_a_wish_is_normalised_over_the_nodes_that_other_pods_leave() -> None:
    """A node that required anti-affinity takes away is no best one that the others fall behind."""
    crowd = [pod(f"c{at}", "n1", labels={"app": "db"}) for at in range(100)]
    both = Both(
        *(node("n1", "a"), node("n2", "b"), node("n3", "c", slow="no")),
        *(*crowd, web("w", "n1"), pod("d", "n3", labels={"app": "db"})),
    )
    slow = {"weight": 50, "preference": {"matchExpressions": [{"key": "slow", "operator": "DoesNotExist"}]}}
    affinity = far(term()) | wish(selector=selecting(app="db")) | {"nodeAffinity": {PREFERRED: [slow]}}

    assert choose(both, pod(affinity=affinity), weighing(pod_affinity=3)) == "n3"


def test_pods_that_come_and_go_count_at_once() -> None:
    """The same search sees each pod, though nothing about the nodes themselves has changed."""
    both = Both(*(node(f"n{at}", zone) for at, zone in enumerate("abc", 1)))
    search, asks = Search(both.inventory), pod(topologySpreadConstraints=[softly()])
    found = []
    for name in ("u", "v", "w"):
        found.append(choose(both, asks, search=search))
        both.put_pod(web(name, found[-1] or ""))
    both.drop_pod("v")
    found.append(choose(both, asks, search=search))

    assert found == ["n1", "n2", "n3", "n2"]


def test_pods_of_one_round_are_spread() -> None:
    """Each pod counts from its decision on."""
    both = Both(*THREE_ZONES[:4])
    waiting = (pod(f"p{at}", labels=WEB, topologySpreadConstraints=[softly()]) for at in range(3))

    answers = cycle.simulate(Search(both.inventory), backlogs.of(*map(pod_info, waiting)), 0.0, RULES)

    assert sorted(one.placement.node for one in answers if isinstance(one, Bind)) == ["n1", "n3", "n4"]


def test_a_pod_that_prefers_nothing_of_other_pods_shares_its_signature() -> None:
    """Whatever else its affinity and its spread say."""
    plain = pod_info(pod()).demand
    specs: tuple[Body, ...] = (
        {"affinity": {"podAffinity": {PREFERRED: []}}},
        {"affinity": {"podAntiAffinity": {}}},
        {"topologySpreadConstraints": []},
    )

    assert plain.preferred_pods is None
    for spec in specs:
        assert pod_info(pod(**spec)).demand == plain
