"""A label orders the pods of one namespace, and gives none of them a turn of another's."""

import collections
import dataclasses
from typing import Final

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling import queued_pods, wakeups
from berth_operator.scheduling.backlog import Backlog
from support import backlogs, builders
from support.backlogs import FREED


def line(*pods: queued_pods.PodInfo, allowed: int = 0) -> Backlog:
    """Return a backlog of these pods, in the order of their creation."""
    backlog = backlogs.of(*(dataclasses.replace(pod, created=f"{at:04}") for at, pod in enumerate(pods)))
    backlog.set_label_limit(allowed)
    return backlog


def pod(name: str, namespace: str, label: int = 0, priority: int = 0) -> queued_pods.PodInfo:
    """Return a waiting pod."""
    return builders.pod_info(name, namespace=namespace, label=label, priority=priority)


def ready(backlog: Backlog, limit: int | None = None) -> str:
    """Name the pods in the order of their turns."""
    return " ".join(backlogs.ready(backlog, 1000.0, limit))


CASES: Final = {
    "one namespace": (line(pod("a", "x"), pod("b", "x", 5), pod("c", "x", 9)), "c b a"),
    "a stranger between them": (line(pod("a", "x"), pod("s", "y"), pod("b", "x", 5)), "b s a"),
    "a stranger before them": (line(pod("s", "y"), pod("a", "x"), pod("b", "x", 10**9)), "s b a"),
    "both have labels": (
        line(pod("a", "x"), pod("s", "y"), pod("b", "x", 5), pod("t", "y", 1)),
        "b t a s",
    ),
    "a class comes first": (line(pod("a", "x", 9), pod("vip", "y", priority=1)), "vip a"),
    "a class of the own namespace lends no turn": (
        line(pod("vip", "x", priority=1), pod("s", "y"), pod("b", "x", 9)),
        "vip s b",
    ),
    "a low label comes last": (line(pod("a", "x", -1), pod("s", "y"), pod("b", "x")), "s b a"),
    "a policy allows more": (line(pod("s", "y"), pod("b", "x", 9), allowed=5), "b s"),
    "a policy allows more to all": (
        line(pod("s", "y", 7), pod("b", "x", 9), pod("c", "x", 6), allowed=5),
        "s b c",
    ),
    "a policy allows less than the class": (
        line(pod("b", "x", 9), pod("vip", "y", priority=6), allowed=5),
        "vip b",
    ),
}


@pytest.mark.parametrize(("backlog", "expected"), CASES.values(), ids=CASES.keys())
def test_whose_turn_it_is(backlog: Backlog, expected: str) -> None:
    """Between namespaces the PriorityClass counts and who came first; within one the label, too."""
    assert ready(backlog) == expected
    assert " ".join(one.pod_info.name for one in backlog.in_order()) == expected


def test_a_raised_pod_is_found_however_far_back_it_stands() -> None:
    """A round takes few pods of a long line, and yet the namespace's most important ones."""
    backlog = line(*(pod(f"a{at}", "x") for at in range(50)), pod("s", "y"), pod("vip", "x", 9))

    assert ready(backlog, 2) == "vip a0"


def test_raised_pods_that_are_gone_or_placed_leave_nothing() -> None:
    """Who has left the line takes nobody's turn."""
    backlog = line(pod("a", "x"), pod("b", "x", 5), pod("c", "x", 9))

    backlog.remove("uid-c")
    backlog.requeue("uid-b", now=1000.0, awaited=FREED)

    assert ready(backlog) == "a"
    assert len(backlog._raised) == 0


def test_of_those_that_a_change_helps_the_raised_are_tried_first() -> None:
    """Of a crowd of one kind few are tried at once, and the label decides which of a namespace."""
    names = [f"p{at:02}" for at in range(wakeups.TRIED_OF_A_KIND + 4)]
    backlog = backlogs.requeue(*(pod(name, "x") for name in names), pod("vip", "x", 9), times=9)

    backlog.cluster_event(FREED)

    assert ready(backlog).split()[0] == "vip"


def test_a_policy_that_changes_gives_everybody_a_new_turn() -> None:
    """Those in line are sorted anew at once, and back again."""
    backlog = line(pod("s", "y"), pod("b", "x", 9))

    found = []
    for allowed in (0, 10**9, 0):
        backlog.set_label_limit(allowed)
        found.append(ready(backlog))

    assert found == ["s b", "b s", "s b"]


def test_a_policy_that_changes_ends_no_pause() -> None:
    """Who was refused a moment ago is not tried again for that."""
    backlog = line(pod("s", "y"), pod("b", "x", 9))
    backlog.requeue("uid-b", now=1000.0, awaited=None)

    backlog.set_label_limit(10**9)

    assert ready(backlog) == "s"


PODS: Final = st.lists(
    st.tuples(st.sampled_from("xyz"), st.integers(-2, 3), st.sampled_from([0, 0, 0, 1])), max_size=12
)


@hypothesis.given(pods=PODS, limit=st.integers(1, 12))
def test_no_label_costs_another_namespace_a_turn(pods: list[tuple[str, int, int]], limit: int) -> None:
    """Whatever positive labels say, each turn is of the namespace whose it is without them."""
    made = [pod(f"p{at}", *fields) for at, fields in enumerate(pods)]
    plain = [dataclasses.replace(one, label=min(one.label, 0)) for one in made]

    spaces = [[one.namespace for one in line(*those).active(1000.0, limit)] for those in (made, plain)]

    assert spaces[0] == spaces[1]


@hypothesis.given(pods=PODS)
@hypothesis.example(pods=[("x", -2, 1), ("x", -1, 0)])
def test_within_a_namespace_the_label_decides(pods: list[tuple[str, int, int]]) -> None:
    """Of two pods of a namespace that count as much for others, the one with the higher label comes first.

    A label below zero counts for others as well, so it decides nothing more.
    """
    backlog = line(*(pod(f"p{at}", *fields) for at, fields in enumerate(pods)))

    groups = collections.defaultdict[tuple[str, int], list[tuple[int, str]]](list)
    for one in backlog.active(1000.0):
        group = one.namespace, one.priority + min(one.label, 0)
        groups[group].append((-max(one.label, 0), one.created))

    assert all(those == sorted(those) for those in groups.values())
