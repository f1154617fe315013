"""Node selectors and required node affinity say what Kubernetes says."""

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling.nodes import affinity, facts, labels
from support import builders, random_clusters

LABELS = {"zone": "a", "size": "5", "debt": "-5", "word": "five", "empty": ""}
NODE = builders.node("n1", labels=LABELS)
HUGE = "9" * 19
ENDLESS = "9" * 5000


@pytest.mark.parametrize(
    ("key", "operator", "values", "holds"),
    [
        pytest.param("zone", "In", ["a"], True, id="In: among the values"),
        pytest.param("zone", "In", ["b", "a"], True, id="In: any of the values"),
        pytest.param("zone", "In", ["b"], False, id="In: not among the values"),
        pytest.param("zone", "In", [], False, id="In: no values"),
        pytest.param("absent", "In", ["a"], False, id="In: no such label"),
        pytest.param("absent", "In", [""], False, id="In: an absent label is not an empty one"),
        pytest.param("empty", "In", [""], True, id="In: an empty label"),
        pytest.param("zone", "NotIn", ["b"], True, id="NotIn: not among the values"),
        pytest.param("zone", "NotIn", ["b", "a"], False, id="NotIn: among the values"),
        pytest.param("absent", "NotIn", ["a"], True, id="NotIn: an absent label is in nothing"),
        pytest.param("zone", "NotIn", [], False, id="NotIn: no values cannot be evaluated"),
        pytest.param("zone", "Exists", [], True, id="Exists: there"),
        pytest.param("empty", "Exists", [], True, id="Exists: there and empty"),
        pytest.param("absent", "Exists", [], False, id="Exists: absent"),
        pytest.param("absent", "DoesNotExist", [], True, id="DoesNotExist: absent"),
        pytest.param("empty", "DoesNotExist", [], False, id="DoesNotExist: there and empty"),
        pytest.param("size", "Gt", ["4"], True, id="Gt: greater"),
        pytest.param("size", "Gt", ["5"], False, id="Gt: equal is not greater"),
        pytest.param("size", "Gt", ["10"], False, id="Gt: compared as numbers, not as words"),
        pytest.param("debt", "Gt", ["-10"], True, id="Gt: negative numbers"),
        pytest.param("size", "Gt", ["+4"], True, id="Gt: a plus sign"),
        pytest.param("size", "Gt", ["0" * 40 + "4"], True, id="Gt: leading zeros"),
        pytest.param("size", "Lt", ["6"], True, id="Lt: less"),
        pytest.param("size", "Lt", ["5"], False, id="Lt: equal is not less"),
        pytest.param("size", "Lt", [HUGE], False, id="Lt: beyond 64 bits"),
        pytest.param("size", "Lt", [str(2**63 - 1)], True, id="Lt: the largest number there is"),
        pytest.param("size", "Lt", [ENDLESS], False, id="Lt: beyond all reason"),
        pytest.param("size", "Gt", ["-" + ENDLESS], False, id="Gt: below all reason"),
        pytest.param("word", "Gt", ["1"], False, id="Gt: the label is a word"),
        pytest.param("size", "Gt", ["one"], False, id="Gt: the value is a word"),
        pytest.param("size", "Gt", ["-+4"], False, id="Gt: two signs"),
        pytest.param("size", "Gt", [""], False, id="Gt: nothing to compare with"),
        pytest.param("size", "Gt", ["²"], False, id="Gt: a digit that is none"),
        pytest.param("size", "Gt", [" 4"], False, id="Gt: a space"),
        pytest.param("size", "Gt", ["1_0"], False, id="Gt: an underscore"),
        pytest.param("size", "Gt", ["4.0"], False, id="Gt: a fraction"),
        pytest.param("size", "Gt", [], False, id="Gt: no value"),
        pytest.param("size", "Gt", ["1", "2"], False, id="Gt: two values"),
        pytest.param("absent", "Gt", ["1"], False, id="Gt: no such label"),
        pytest.param("absent", "Lt", ["1"], False, id="Lt: no such label"),
        pytest.param("zone", "Near", ["a"], False, id="an operator we do not know"),
        pytest.param("zone", "", ["a"], False, id="no operator"),
    ],
)
def test_expression(key: str, operator: str, values: list[str], holds: bool) -> None:  # noqa: FBT001  a column of the table
    """An expression holds when Kubernetes says so, and not where it cannot be evaluated."""
    condition = facts.LabelExpression(key, operator, tuple(values))

    assert affinity.holds(condition, LABELS) is holds


ZONE_A = facts.LabelExpression("zone", "In", ("a",))
ZONE_B = facts.LabelExpression("zone", "In", ("b",))
LARGE = facts.LabelExpression("size", "Gt", ("4",))
UNKNOWN = facts.LabelExpression("zone", "Near", ("a",))
THIS = facts.LabelExpression("metadata.name", "In", ("n1",))
ANOTHER = facts.LabelExpression("metadata.name", "NotIn", ("n1",))


@pytest.mark.parametrize(
    ("term", "holds"),
    [
        pytest.param(facts.Term(), False, id="an empty term matches nothing"),
        pytest.param(facts.Term((ZONE_A,)), True, id="one expression that holds"),
        pytest.param(facts.Term((ZONE_A, LARGE)), True, id="all expressions hold"),
        pytest.param(facts.Term((ZONE_B, LARGE)), False, id="one expression does not"),
        pytest.param(facts.Term((ZONE_A, UNKNOWN)), False, id="one expression cannot be evaluated"),
        pytest.param(facts.Term((), (THIS,)), True, id="this node by name"),
        pytest.param(facts.Term((), (ANOTHER,)), False, id="any node but this"),
        pytest.param(facts.Term((ZONE_A,), (THIS,)), True, id="labels and name"),
        pytest.param(facts.Term((ZONE_B,), (THIS,)), False, id="the name alone is not enough"),
        pytest.param(facts.Term((ZONE_A,), (ANOTHER,)), False, id="the labels alone are not enough"),
        pytest.param(
            facts.Term((), (facts.LabelExpression("spec.unschedulable", "In", ("false",)),)),
            False,
            id="another field",
        ),
    ],
)
def test_term(term: facts.Term, holds: bool) -> None:  # noqa: FBT001  a column of the table
    """A term holds when all that it says holds, and it says something."""
    assert affinity.term_holds(term, NODE) is holds


@pytest.mark.parametrize(
    ("node_selection", "accepts"),
    [
        pytest.param(facts.NodeSelection(), True, id="nothing asked"),
        pytest.param(facts.NodeSelection(selector=(("zone", "a"),)), True, id="selector: the label is right"),
        pytest.param(
            facts.NodeSelection(selector=(("zone", "b"),)), False, id="selector: the label is wrong"
        ),
        pytest.param(facts.NodeSelection(selector=(("absent", ""),)), False, id="selector: no such label"),
        pytest.param(
            facts.NodeSelection(selector=(("zone", "a"), ("size", "6"))), False, id="selector: one of two"
        ),
        pytest.param(facts.NodeSelection(affinity=()), False, id="affinity without terms matches nothing"),
        pytest.param(
            facts.NodeSelection(affinity=(facts.Term((ZONE_B,)), facts.Term((ZONE_A,)))),
            True,
            id="one of two terms",
        ),
        pytest.param(facts.NodeSelection(affinity=(facts.Term((ZONE_B,)),)), False, id="no term"),
        pytest.param(
            facts.NodeSelection(affinity=(facts.Term((UNKNOWN,)), facts.Term((ZONE_A,)))),
            True,
            id="a broken term spoils no other",
        ),
        pytest.param(
            facts.NodeSelection(selector=(("zone", "b"),), affinity=(facts.Term((ZONE_A,)),)),
            False,
            id="selector and affinity",
        ),
    ],
)
def test_where(node_selection: facts.NodeSelection, accepts: bool) -> None:  # noqa: FBT001  a column of the table
    """A node is accepted by the whole selector and at least one term."""
    assert affinity.matches(node_selection, NODE) is accepts


@random_clusters.PROPERTY
@hypothesis.given(
    left=st.text(max_size=25), right=st.text(max_size=25), operator=st.sampled_from(["Gt", "Lt"])
)
def test_comparing_never_raises(left: str, right: str, operator: str) -> None:
    """Whatever people write, one pod's expression cannot stop the scheduler."""
    condition = facts.LabelExpression("size", operator, (right,))

    assert affinity.holds(condition, {"size": left}) in {True, False}


@random_clusters.PROPERTY
@hypothesis.given(left=st.integers(-(2**63), 2**63 - 1), right=st.integers(-(2**63), 2**63 - 1))
def test_numbers_compare_as_numbers(left: int, right: int) -> None:
    """Within 64 bits the order is that of the numbers."""
    values, labels = (str(right),), {"size": str(left)}

    greater = affinity.holds(facts.LabelExpression("size", "Gt", values), labels)
    less = affinity.holds(facts.LabelExpression("size", "Lt", values), labels)

    assert (greater, less) == (left > right, left < right)


# ---------------------------------------------------------------- all nodes at once


@random_clusters.PROPERTY
@hypothesis.given(cluster=random_clusters.clusters(), node_selection=random_clusters.NODE_SELECTIONS)
def test_all_nodes_at_once_say_what_each_says(
    cluster: random_clusters.ClusterState, node_selection: facts.NodeSelection
) -> None:
    """Labels laid out in columns give the same answers as one node after the other."""
    nodes = list(cluster.nodes.values())

    found = labels.Labels(nodes).matching(node_selection).tolist()

    assert found == [affinity.matches(node_selection, node) for node in nodes]


@random_clusters.PROPERTY
@hypothesis.given(
    changes=st.lists(st.tuples(st.integers(0, 3), st.none() | random_clusters.nodes("changed")), max_size=12),
    node_selection=random_clusters.NODE_SELECTIONS,
)
def test_columns_follow_nodes_that_change(
    changes: list[tuple[int, facts.Node | None]], node_selection: facts.NodeSelection
) -> None:
    """As if all had been laid out anew; a row without a node has no labels."""
    nodes: list[facts.Node | None] = [builders.node(f"n{at}", labels={"zone": "a"}) for at in range(4)]
    made = labels.Labels(nodes)

    for at, node in changes:
        made.matching(node_selection)
        nodes[at] = node
        made.put(at, node)

        assert (
            made.matching(node_selection).tolist() == labels.Labels(nodes).matching(node_selection).tolist()
        )
        assert set(made.keys()) == {key for one in nodes if one is not None for key in one.labels}


VALUES = st.sampled_from(["", "a", "5", "-5", "+4", "0" * 40 + "4", "²", HUGE, str(2**63 - 1), "five"])


@random_clusters.PROPERTY
@hypothesis.given(
    values=st.lists(st.none() | VALUES, max_size=5),
    asked=st.lists(VALUES, max_size=3),
    operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near", ""]),
    field=st.booleans(),
)
def test_every_expression_over_columns(
    values: list[str | None], asked: list[str], operator: str, *, field: bool
) -> None:
    """Each operator means the same in a column as on one node, of labels and of names."""
    nodes = [builders.node(value or "n", labels={} if value is None else {"key": value}) for value in values]
    one = facts.LabelExpression("metadata.name" if field else "key", operator, tuple(asked))
    node_selection = facts.NodeSelection(affinity=(facts.Term((), (one,)) if field else facts.Term((one,)),))

    found = labels.Labels(nodes).matching(node_selection).tolist()

    assert found == [affinity.matches(node_selection, node) for node in nodes]


def test_labels_that_no_node_has_are_not_kept() -> None:
    """Pods may ask for any label: only those that nodes have take memory."""
    made = labels.Labels([NODE])

    for at in range(100):
        made.matching(facts.NodeSelection(selector=((f"l{at}", ""), ("zone", "a"))))

    assert list(made._columns) == ["zone"]
