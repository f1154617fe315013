"""Of the pods that a change may help namespaces take turns: none keeps another's from being tried."""

import dataclasses
import itertools
from collections.abc import Mapping

import pytest

from berth_operator.scheduling import queued_pods, wakeups
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.decisions import ClusterEvent
from support import builders


def waiting(*pods: queued_pods.Candidate) -> Backlog:
    """Have pods wait for room, all of which a change may help now."""
    queue = Backlog()
    for pod in pods:
        queue.push(pod)
        queue.put_off(pod.uid, now=0.0, wants=frozenset({ClusterEvent.CAPACITY_FREED}))
    queue.cluster_event([ClusterEvent.CAPACITY_FREED])
    return queue


def pod(namespace: str, at: int, *, kind: int = 0) -> queued_pods.Candidate:
    """Make a pod that asks for what others of its kind ask; those of earlier namespaces are older."""
    name = f"{namespace}{at:04}"
    made = builders.candidate(name, created=namespace, demand=builders.demand(kind + 1))
    return dataclasses.replace(made, namespace=namespace)


def tried(queue: Backlog) -> dict[str, int]:
    """Count the pods of each namespace that are tried at once."""
    found: dict[str, int] = {}
    for one in queue.ready(0.01):
        found[one.namespace] = found.get(one.namespace, 0) + 1
    return found


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

    assert tried(waiting(*pods)) == expected


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

    assert tried(waiting(*pods)) == expected


def test_who_comes_first_is_placed_first_all_the_same() -> None:
    """For each that is placed the next of its kind is tried, before the younger pod of another namespace."""
    queue = waiting(*(pod("a", at) for at in range(40)), pod("b", 0))

    placed = []
    for one in queue.ready(0.01):
        queue.place(one.uid)
        placed.append(one.name)

    assert placed == [*(f"a{at:04}" for at in range(40)), "b0000"]


def test_who_is_held_up_takes_no_place() -> None:
    """The pods of a namespace whose binds must wait take none that others could use."""
    queue = waiting(*(pod(namespace, at) for namespace in "ab" for at in range(100)))
    queue.hold_up("a")

    assert tried(queue) == {"b": wakeups.TRIED_OF_A_KIND}
