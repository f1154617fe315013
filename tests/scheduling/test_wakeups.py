"""Of the pods that a change may help namespaces take turns: none keeps another's from being tried."""

import collections
import itertools
from collections.abc import Iterable, Mapping

import pytest

from berth_operator.scheduling import queued_pods, wakeups
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


MOST = wakeups.TRIED_AT_ONCE
HALF = wakeups.TRIED_OF_A_KIND // 2
MANY = {f"n{at:03}": 20 for at in range(MOST // 16)}


@pytest.mark.parametrize(
    ("crowds", "expected"),
    [
        pytest.param({"a": MOST + 50}, {"a": MOST}, id="one alone"),
        pytest.param({"a": MOST + 50, "b": 1}, {"a": MOST - 1, "b": 1}, id="one of another"),
        pytest.param(
            {"a": MOST, "b": MOST, "c": 100},
            {"a": MOST // 2 - 50, "b": MOST // 2 - 50, "c": 100},
            id="shares",
        ),
        pytest.param(MANY, dict.fromkeys(MANY, 16), id="many namespaces"),
    ],
)
def test_crowds_of_many_kinds(crowds: Mapping[str, int], expected: Mapping[str, int]) -> None:
    """Whoever has few pods has all of them tried, and the others share what is left."""
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
