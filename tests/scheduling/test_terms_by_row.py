"""Terms of pods on nodes are counted once for all pods that they mean, and only over labels of nodes."""

from collections.abc import Callable, Iterator
from typing import Any, Final
from unittest import mock

import pytest

from berth_operator.scheduling import domains, existing_terms, pod_terms, terms_by_row
from scheduling import plain_pod_preferences, plain_pod_rules
from scheduling.pod_clusters import (
    AWAY,
    HOST,
    WEB,
    ZONE,
    Body,
    Both,
    far,
    near,
    node,
    parts,
    pod,
    pod_info,
    selecting,
    term,
    wish,
    wishes,
)

THREE_NODES: Final = (node("n1", "a"), node("n2", "a"), node("n3", "b"))
ALL: Final = ("n1", "n2", "n3")
NOWHERE: Final = "example.com/nowhere"


def asks(**fields: Any) -> Body:
    """Write a waiting pod of the application, with more labels than that or with terms of its own."""
    return pod(labels=WEB | fields.pop("labels", {}), **fields)


def agrees(both: Both, body: Body) -> dict[str, float]:
    """Return what a pod gets of each node; the plain rules give the same, and allow the same nodes."""
    assert both.feasible(body) == plain_pod_rules.feasible(both.plain, body)
    found = parts(both, "pod_affinity", body, ALL)
    assert found == pytest.approx(plain_pod_preferences.affinity_parts(both.plain, body, ALL))
    return found


@pytest.fixture
def passes() -> Iterator[mock.Mock]:
    """Count the passes over all rows for the terms of one key."""
    with mock.patch.object(domains, "of_rows", wraps=domains.of_rows) as passes:
        yield passes


# ---------------------------------------------------------------- labels that no node has


@pytest.mark.parametrize(
    "affinity", [wish(key=NOWHERE), wish(kind=AWAY, key=NOWHERE), far(term(NOWHERE)), near(term(NOWHERE))]
)
def test_terms_over_labels_that_no_node_has_are_left_out(affinity: Body) -> None:
    """A pod that only these mean asks what one asks that none means, until a node has the label."""
    both, waiting = Both(*THREE_NODES, pod("w", "n1", affinity=affinity)), pod_info(asks())

    def concerned() -> bool:
        found = existing_terms.with_terms_of_existing_pods(both.inventory.pods, waiting)
        return found.demand != waiting.demand

    assert not concerned()
    agrees(both, asks())
    both.put_node(node("n1", "a", **{NOWHERE: "x"}))
    assert concerned()
    agrees(both, asks())
    both.put_node(node("n1", "a"))
    assert not concerned()
    agrees(both, asks())


def test_they_take_no_pass_over_the_nodes(passes: mock.Mock) -> None:
    """However many they are, and whether a pod on a node says it or the one that waits."""
    keys = [f"{NOWHERE}-{at}" for at in range(40)]
    wanted = wishes(*(wish(key=key) for key in keys))
    both = Both(*THREE_NODES, pod("w", "n1", affinity=wanted), pod("v", "n2", affinity=far(*map(term, keys))))

    assert both.feasible(asks()) == set(ALL)
    assert set(parts(both, "pod_affinity", asks(affinity=wanted), ALL).values()) == {0.0}

    assert passes.call_count == 0


def test_a_required_term_over_such_a_label_is_met_nowhere() -> None:
    """The waiting pod's own affinity asks for the label, also where no node has it."""
    both = Both(*THREE_NODES, pod("w", "n1", labels=WEB))

    assert both.feasible(asks(affinity=near(term(NOWHERE)))) == set()
    assert both.feasible(asks(affinity=far(term(NOWHERE)))) == set(ALL)


# ---------------------------------------------------------------- what is remembered


def crowd() -> Both:
    """Return a cluster with a pod that prefers, and one that repels, each over three labels."""
    labels = (node(name, "ab"[at // 2], rack=str(at), row=str(at // 2)) for at, name in enumerate(ALL))
    keys = (ZONE, "rack", "row")
    return Both(
        *labels,
        pod("w", "n1", affinity=wishes(*(wish(at, key=key) for at, key in enumerate(keys, 1)))),
        pod("v", "n3", affinity=far(*map(term, keys))),
    )


def test_pods_that_the_same_terms_mean_are_counted_for_once(passes: mock.Mock) -> None:
    """Whatever other labels they have, and whichever nodes are asked about: once for each key and kind."""
    both, found = crowd(), []
    for at in range(5):
        found.append(agrees(both, asks(labels={"at": str(at)})))
        parts(both, "pod_affinity", asks(labels={"at": str(at)}), ALL[:2])
        both.put_pod(pod(f"plain-{at}", "n2", labels=WEB))  # It has no terms, so nothing changes.

    assert passes.call_count == 6
    assert found == [{"n1": 1.0, "n2": pytest.approx(4 / 6), "n3": 0.0}] * 5


def test_what_is_remembered_follows_pods_and_labels(passes: mock.Mock) -> None:
    """A pod with terms, or another value of a label that is named, has all counted anew; nothing else has."""
    both, counted = crowd(), []
    changes: tuple[Callable[[], None], ...] = (
        lambda: both.put_node(node("n2", "a", rack="1", row="0", other="x")),
        lambda: both.put_node(node("n2", "a", rack="1", row="1")),
        lambda: both.put_pod(pod("u", "n2", affinity=wish(5, key="rack"))),
        lambda: both.put_pod(pod("s", "n3", affinity=wish(5, key="rack"))),  # The same term once more.
        lambda: both.put_pod(pod("t", "n2", affinity=far(term("rack")))),
        lambda: both.drop_pod("w"),
        lambda: both.drop_node("n1"),
        lambda: both.put_node(node("n4", "a", rack="0", row="0")),
    )
    agrees(both, asks())
    for change in changes:
        before = passes.call_count
        change()
        if len(both.plain.nodes) == len(ALL) and "n1" in both.plain.nodes:
            agrees(both, asks())
        assert both.feasible(asks()) == plain_pod_rules.feasible(both.plain, asks())
        counted.append(passes.call_count - before)

    assert counted == [0, 6, 3, 3, 3, 1, 3, 3]


def test_only_so_many_sets_of_terms_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond that all are forgotten, and each pod gets what it would have got."""
    monkeypatch.setattr(terms_by_row, "MOST_SETS", 2)
    wanted = (wish(at + 1, selector=selecting(app=str(at)), key=HOST) for at in range(3))
    both = Both(*THREE_NODES, *(pod(f"w{at}", f"n{at + 1}", affinity=one) for at, one in enumerate(wanted)))

    for at in (0, 1, 2, 0):
        assert agrees(both, pod(labels={"app": str(at)})) == dict.fromkeys(ALL, 0.0) | {f"n{at + 1}": 1.0}
        assert len(both.inventory.pods._weights_near) <= 2


def test_rows_of_a_term_are_listed_once() -> None:
    """Until a pod that has it comes or goes: a term may be that of thousands of pods."""
    one = pod_info(pod(affinity=far(term()))).demand.inter_pod_rules
    assert one is not None
    (found,) = one.anti_affinity
    index = pod_terms.TermIndex[Any](lambda term: term)
    index.count("a", "ml", (found, found), 3, 1)

    first = index.rows_and_counts(found)
    index.count("b", "ml", (found,), 1, 1)

    assert first.tolist() == [[3], [2]]
    assert index.rows_and_counts(found).tolist() == [[3, 1], [2, 1]]
    assert index.rows_and_counts(found) is index.rows_and_counts(found)
    for uid, row, times in (("a", 3, 2), ("b", 1, 1)):
        index.count(uid, "ml", (found,) * times, row, -1)
    assert index.rows_and_counts(found).shape == (2, 0)
    assert not index._arrays
