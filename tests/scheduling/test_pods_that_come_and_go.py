"""Topology spread and pod affinity against plain rules, while pods, nodes and namespaces come and go."""

from typing import Any, Final
from unittest import mock

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling import existing_terms, pod_index
from berth_operator.scheduling.constraints import topologies
from berth_operator.scheduling.search import Search
from scheduling import plain_pod_preferences, plain_pod_rules
from scheduling.placements import RULES
from scheduling.plain_pod_preferences import PREFERRED
from scheduling.pod_clusters import (
    HOST,
    REQUIRED,
    ZONE,
    Body,
    Both,
    asked,
    far,
    near,
    node,
    parts,
    pod,
    pod_info,
    spread,
    term,
)
from support import random_clusters, thorough

NODES: Final = ("n1", "n2", "n3", "n4")
NAMESPACES: Final = ("ml", "blue", "red")
KEYS: Final = ("app", "rev")
VALUES: Final = ("1", "2")

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
keys = st.sampled_from([ZONE, HOST, "rack"])
expressions = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        st.sampled_from(KEYS),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(VALUES), min_size=1, max_size=2, unique=True),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(KEYS),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
selectors = st.fixed_dictionaries(
    {}, optional={"matchLabels": labels, "matchExpressions": st.lists(expressions, max_size=2)}
)
team_selectors = st.one_of(
    st.just({}),
    st.builds(lambda value: {"matchLabels": {"team": value}}, st.sampled_from(VALUES)),
    st.just({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}),
)
some_keys = st.lists(st.sampled_from(KEYS), max_size=1)
terms = st.builds(
    lambda key, more: {"topologyKey": key, **more},
    keys,
    st.fixed_dictionaries(
        {},
        optional={
            "labelSelector": selectors,
            "namespaces": st.lists(st.sampled_from(NAMESPACES), max_size=2),
            "namespaceSelector": team_selectors,
        },
    ),
)
listing_terms = st.builds(
    lambda one, match, mismatch: one | ({"matchLabelKeys": match, "mismatchLabelKeys": mismatch}),
    st.builds(lambda key: {"topologyKey": key, "labelSelector": {}}, keys),
    some_keys,
    some_keys,
)
spreads = st.builds(
    lambda key, skew, more: spread(key, selector={}, skew=skew) | more,
    keys,
    st.integers(1, 2),
    st.fixed_dictionaries(
        {"labelSelector": selectors},
        optional={
            "minDomains": st.integers(1, 4),
            "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
            "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
            "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        },
    ),
)
any_terms = st.lists(st.one_of(terms, listing_terms), max_size=2)
nodes = st.builds(
    lambda name, zone, rack, taints: node(name, zone, taints=taints, **({"rack": rack} if rack else {})),
    st.sampled_from(NODES),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["", "r"]),
    st.sampled_from([[], ["x"]]),
)
weighted_terms = st.lists(
    st.builds(
        lambda weight, one: {"weight": weight, "podAffinityTerm": one},
        st.integers(1, 100),
        st.one_of(terms, listing_terms),
    ),
    max_size=2,
)
there = st.builds(
    lambda name, at, namespace, labels, leaving, anti, wishes, affinity: pod(
        f"{name}-{namespace}-{at}",
        at,
        namespace=namespace,
        labels=labels,
        leaving=leaving,
        affinity={"podAntiAffinity": {REQUIRED: anti, PREFERRED: wishes}} | affinity,
    ),
    st.sampled_from(["w", "v"]),
    st.sampled_from(NODES),
    st.sampled_from(NAMESPACES),
    labels,
    st.booleans(),
    any_terms,
    weighted_terms,
    st.fixed_dictionaries(
        {},
        optional={
            "podAffinity": st.fixed_dictionaries(
                {}, optional={REQUIRED: any_terms, PREFERRED: weighted_terms}
            )
        },
    ),
)
waiting = st.builds(
    lambda namespace, labels, affinity, anti, spreads, selector, tolerates: pod(
        namespace=namespace,
        labels=labels,
        affinity=near(*affinity) | far(*anti),
        topologySpreadConstraints=spreads,
        nodeSelector=selector,
        tolerations=[{"key": "x", "operator": "Exists"}] if tolerates else [],
    ),
    st.sampled_from(NAMESPACES),
    labels,
    any_terms,
    any_terms,
    st.lists(spreads, max_size=2, unique_by=lambda one: one["topologyKey"]),
    st.sampled_from([{}, {"rack": "r"}]),
    st.booleans(),
)
Change = tuple[str, Any]
changes: st.SearchStrategy[Change] = st.one_of(
    st.tuples(st.just("node"), nodes),
    st.tuples(st.just("no node"), st.sampled_from(NODES)),
    st.tuples(st.just("pod"), there),
    st.tuples(st.just("no pod"), st.integers(0, 20)),
    st.tuples(
        st.just("namespace"),
        st.tuples(
            st.sampled_from(NAMESPACES),
            st.none() | st.dictionaries(st.just("team"), st.sampled_from(VALUES)),
        ),
    ),
)


def apply(both: Both, change: Change) -> None:
    """Apply a change to both clusters."""
    match change:
        case "node", body:
            both.put_node(body)
        case "no node", name:
            both.drop_node(name)
        case "pod", body:
            both.put_pod(kept(both, body))
        case "no pod", number:
            names = sorted(both.plain.pods)
            both.drop_pod(names[number % len(names)] if names else "")
        case "namespace", (name, its_labels):
            both.name_namespace(name, its_labels)


def kept(both: Both, body: Body) -> Body:
    """Return a pod's new state; its terms never change."""
    known = both.plain.pods.get(body["metadata"]["name"])
    return body if known is None else body | {"spec": known["spec"]}


@hypothesis.settings(random_clusters.PROPERTY, max_examples=thorough.examples(400))
@hypothesis.given(
    st.lists(nodes, max_size=5),
    st.lists(there, max_size=8),
    st.lists(changes, max_size=10),
    st.lists(waiting, min_size=1, max_size=4),
)
def test_the_same_nodes_are_feasible(
    at_first: list[Body], running: list[Body], then: list[Change], asks: list[Body]
) -> None:
    """After each change, whoever asked before: the counts that are kept are those that a recount gives."""
    both = Both(*at_first)
    for change in [*(("pod", body) for body in running), *then]:
        apply(both, change)
        for body in asks:
            assert both.feasible(body) == plain_pod_rules.feasible(both.plain, body)


@hypothesis.settings(random_clusters.PROPERTY, max_examples=thorough.examples(100))
@hypothesis.given(
    st.lists(nodes, min_size=1, max_size=5),
    st.lists(there, max_size=8),
    st.lists(waiting, min_size=2, max_size=4),
    st.integers(0, 2),
)
def test_forgotten_counts_are_counted_again(
    at_first: list[Body], running: list[Body], asks: list[Body], selectors_kept: int
) -> None:
    """However few selectors are remembered, no answer depends on it."""
    both = Both(*at_first)
    with (
        mock.patch.object(pod_index, "MOST_COUNTERS", 1),
        mock.patch.object(pod_index, "MOST_COUNTED_ONCE", 2),
        mock.patch.object(topologies, "MOST_SELECTORS_KEPT", selectors_kept),
    ):
        for body in running:
            both.put_pod(kept(both, body))
            for asking in asks:
                assert both.feasible(asking) == plain_pod_rules.feasible(both.plain, asking)

    assert len(both.inventory.pods._counters) <= 1


@hypothesis.settings(random_clusters.PROPERTY, max_examples=thorough.examples(200))
@hypothesis.given(
    st.lists(nodes, min_size=1, max_size=5),
    st.lists(there, max_size=6),
    st.lists(waiting, min_size=1, max_size=6),
)
def test_a_pod_is_placed_exactly_where_it_may_be(
    at_first: list[Body], running: list[Body], asks: list[Body]
) -> None:
    """Pod after pod, with remembered scores, on a node that both rules and the node itself allow."""
    both = Both(*at_first)
    for body in running:
        both.put_pod(kept(both, body))
    search = Search(both.inventory)
    for number, body in enumerate([*asks, *asks]):
        query = asked(both.inventory, pod_info(body))
        found = search.place(query.signature.request, query.signature.demand, policy=RULES)
        allowed = {
            name
            for name in plain_pod_rules.feasible(both.plain, body)
            if plain_pod_rules.selects_node(body, both.plain.nodes[name])
            and plain_pod_rules.tolerates(body, both.plain.nodes[name])
        }
        assert (found.node in allowed) if found is not None else not allowed
        if found is not None:
            placed = body["metadata"] | {"name": f"placed-{number}", "uid": f"uid-placed-{number}"}
            both.put_pod(
                {**pod("x", found.node), "metadata": placed, "spec": body["spec"] | {"nodeName": found.node}}
            )


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    """Neither pods, nor terms, nor counts."""
    both = Both(node("n1", "a"), pod("w", "n1", labels={"app": "1"}, affinity=far(term())))
    both.feasible(pod(affinity=far(term())))

    both.drop_pod("w")

    pods = both.inventory.pods
    assert repr(pods._pods) == "<LabelIndex: 0 groups, 0 labels, 0 keys>"
    assert not pods._repelling
    assert not (pods._rows_with or pods._kept_away or pods._weights_near)
    assert not pods._repelling._arrays
    assert not (pods._repelling._about or pods._repelling._brought or pods._repelling._brought_by)
    assert not pods._weighted
    assert not pods._weighted._about
    assert not any(counter.counts.any() for counter in pods._counters.values())


# ---------------------------------------------------------------- what is only preferred

soft_spreads = st.builds(lambda one: one | {"whenUnsatisfiable": "ScheduleAnyway"}, spreads)
wishing = st.builds(
    lambda body, near, far, soft: (
        body
        | {
            "spec": body["spec"]
            | {
                "affinity": {"podAffinity": {PREFERRED: near}, "podAntiAffinity": {PREFERRED: far}},
                "topologySpreadConstraints": soft,
            }
        }
    ),
    waiting,
    weighted_terms,
    weighted_terms,
    st.lists(soft_spreads, max_size=2, unique_by=lambda one: one["topologyKey"]),
)


@hypothesis.settings(random_clusters.PROPERTY, max_examples=thorough.examples(200))
@hypothesis.given(
    st.lists(nodes, min_size=1, max_size=5),
    st.lists(there, max_size=8),
    st.lists(changes, max_size=10),
    st.lists(wishing, min_size=1, max_size=4),
    st.data(),
)
def test_preferences_are_those_of_the_plain_rules(
    at_first: list[Body], running: list[Body], then: list[Change], asks: list[Body], data: st.DataObject
) -> None:
    """After each change, over any of the nodes: each gets the part that a recount gives."""
    both = Both(*at_first)
    plain = {
        "pod_affinity": plain_pod_preferences.affinity_parts,
        "spread": plain_pod_preferences.spread_parts,
    }
    for change in [*(("pod", body) for body in running), *then]:
        apply(both, change)
        names = sorted(both.plain.nodes)
        passing = data.draw(st.sets(st.sampled_from(names), min_size=1)) if names else ()
        for body in asks if passing else ():
            for name, rule in plain.items():
                found = parts(both, name, body, passing)
                assert found == pytest.approx(rule(both.plain, body, passing))


@hypothesis.settings(random_clusters.PROPERTY, max_examples=thorough.examples(100))
@hypothesis.given(
    st.lists(nodes, max_size=5), st.lists(there, max_size=8), waiting, weighted_terms, soft_spreads
)
def test_a_preference_about_pods_never_makes_a_pod_wait(
    at_first: list[Body], running: list[Body], asks: Body, weighted: list[Body], soft: Body
) -> None:
    """It gets a node exactly if it would without its preferences, and one that it could have then."""
    both, spec = Both(*at_first), asks["spec"]
    for body in running:
        apply(both, ("pod", body))
    affinity = {kind: spec["affinity"][kind] | {PREFERRED: weighted} for kind in spec["affinity"]}
    spreads = [*spec["topologySpreadConstraints"], soft]
    wishes = asks | {"spec": spec | {"affinity": affinity, "topologySpreadConstraints": spreads}}

    found, plain = (placed(both, body) for body in (wishes, asks))

    assert (found is None) == (plain is None)
    assert found is None or found in both.feasible(asks)


def placed(both: Both, body: Body) -> str | None:
    """Return the node that a pod gets."""
    one = existing_terms.with_terms_of_existing_pods(both.inventory.pods, pod_info(body))
    found = Search(both.inventory).place(one.request, one.demand, policy=RULES)
    return found.node if found is not None else None
