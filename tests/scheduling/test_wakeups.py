"""Of the pods that a change may help namespaces take turns: none keeps another's from being tried."""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Mapping

import pytest

from berth_operator.scheduling import queued_pods, queues, wakeups
from support import backlogs, builders


def pod(namespace: str, at: int, *, kind: int = 0) -> queued_pods.PodInfo:
    """Return a pod that asks for what others of its kind ask; those of earlier namespaces are older."""
    demand = builders.demand(kind + 1)
    return builders.pod_info(f"{namespace}{at:04}", namespace=namespace, created=namespace, demand=demand)


def tried(pods: Iterable[queued_pods.PodInfo]) -> Mapping[str, int]:
    """Return how many pods of each namespace are tried at once when a change may help all of these."""
    queue = backlogs.requeue(*pods)
    queue.cluster_event(backlogs.FREED)
    return collections.Counter(one.namespace for one in queue.active(0.01))


MOST, SHARE = wakeups.MOST_SORTED_IN, wakeups.FIRST_OF_A_NAMESPACE
HALF = wakeups.TRIED_OF_A_KIND // 2
MANY = {f"n{at:03}": 100 for at in range(MOST // SHARE)}


@pytest.mark.parametrize(
    ("crowds", "expected"),
    [
        pytest.param({"a": MOST + 50}, {"a": MOST}, id="one alone"),
        pytest.param({"a": MOST + 50, "b": 1}, {"a": MOST - 1, "b": 1}, id="one of another"),
        pytest.param(
            {"a": MOST, "b": MOST, "c": 100},
            {"a": MOST - 2 * SHARE, "b": SHARE, "c": SHARE},
            id="the first of each",
        ),
        pytest.param(MANY, dict.fromkeys(MANY, SHARE), id="many namespaces"),
    ],
)
def test_crowds_of_many_kinds(crowds: Mapping[str, int], expected: Mapping[str, int]) -> None:
    """In one round some are tried, the first of each namespace among them."""
    kinds = itertools.count()
    pods = (
        pod(namespace, at, kind=next(kinds)) for namespace, count in crowds.items() for at in range(count)
    )

    assert tried(pods) == expected


@pytest.mark.parametrize(
    ("crowds", "expected"),
    [
        pytest.param({"a": 300, "b": 1}, {"a": 2 * HALF - 1, "b": 1}, id="one of another"),
        pytest.param({"a": 300, "b": 300}, {"a": HALF, "b": HALF}, id="shares"),
        pytest.param({"a": 2 * HALF - 1, "b": 1}, {"a": 2 * HALF - 1, "b": 1}, id="room for all"),
    ],
)
def test_crowds_of_one_kind(crowds: Mapping[str, int], expected: Mapping[str, int]) -> None:
    """What asks the same has few places, and namespaces share these, too."""
    pods = (pod(namespace, at) for namespace, count in crowds.items() for at in range(count))

    assert tried(pods) == expected


def test_who_comes_first_is_placed_first_all_the_same() -> None:
    """For each that is placed the next of its kind is tried, before the younger pod of another namespace."""
    queue = backlogs.requeue(*(pod("a", at) for at in range(40)), pod("b", 0))
    queue.cluster_event(backlogs.FREED)

    placed = []
    for one in queue.active(0.01):
        queue.pod_placed(one.uid)
        placed.append(one.name)

    assert placed == [*(f"a{at:04}" for at in range(40)), "b0000"]


def test_a_crowd_that_is_woken_at_once_is_sorted_in_round_by_round() -> None:
    """What a round costs does not grow with the crowd, in which a pod of another namespace waits for none."""
    queue = backlogs.requeue(*(pod("a", at) for at in range(3 * MOST)), pod("b", 0))
    queue.cluster_event(backlogs.FREED)

    rounds = []
    while queues.uids(queue._woken):
        assert queue.next_due() == 0.0
        before = len(queues.uids(queue._woken))
        rounds.append({one.namespace for one in queue.active(0.01)})
        assert 0 < before - len(queues.uids(queue._woken)) <= MOST

    assert rounds[0] == {"a", "b"}


def test_the_most_important_of_a_crowd_are_sorted_in_first() -> None:
    """They may have joined it last."""
    crowd = [dataclasses.replace(pod("a", at, kind=at), priority=at) for at in range(2 * MOST)]
    queue = backlogs.requeue(*crowd)
    queue.cluster_event(backlogs.FREED)

    assert [one.priority for one in queue.active(0.01)] == sorted(range(MOST, 2 * MOST), reverse=True)


def test_a_crowd_whose_backoff_is_over_is_taken_out_of_it_round_by_round() -> None:
    """It does not keep a pod in backoff that was to leave it later."""
    queue = backlogs.requeue(*(pod("a", at) for at in range(3 * MOST)), awaited=(), now=0.0)
    for at in range(3 * MOST):
        queue.back_off(pod("a", at).uid, now=0.0)
    queue.push(pod("b", 0))
    queue.back_off(pod("b", 0).uid, now=0.1)

    found = [one.namespace for one in queue.active(100.0)]

    assert collections.Counter(found) == {"a": MOST - 1, "b": 1}
    assert len(list(queue.active(100.0))) == 2 * MOST
