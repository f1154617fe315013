"""Which changes of which nodes have waiting pods looked at, once a node has changed and did not help."""

from collections.abc import Callable
from typing import Final

import pytest

from berth_operator.scheduling import event_waits, queued_pods
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.decisions import ClusterEvent
from support import backlogs, builders

POD = builders.pod_info("p")
DEVICE, FREED = ClusterEvent.DEVICE_CHANGED, ClusterEvent.CAPACITY_FREED


def asked(backlog: Backlog, node: str, change: ClusterEvent, *, helps: bool = False) -> list[str]:
    """Return the names of the pods that are compared with a change of a node, which helps them or not."""
    names: list[str] = []

    def able(pod_info: queued_pods.PodInfo) -> bool:
        names.append(pod_info.name)
        return helps

    assert backlog.node_changed(node, frozenset({change}), able)
    return names


def disappointed(pod_info: queued_pods.PodInfo = POD) -> Backlog:
    """Return a backlog with a pod that waits for other devices, of which n1 has got some in vain."""
    backlog = backlogs.requeue(pod_info, awaited={DEVICE})
    assert asked(backlog, "n1", DEVICE) == ["p"]
    return backlog


def test_what_a_node_that_changed_in_vain_has_free_may_help() -> None:
    """It may have the right devices now, and refuse the pod because they are in use."""
    assert asked(disappointed(), "n1", FREED, helps=True) == ["p"]


def test_what_becomes_free_on_other_nodes_is_not_even_compared() -> None:
    """They refuse the pod for the same reason as before: else each end of a pod concerned all that wait."""
    assert asked(disappointed(), "n2", FREED) == []


def test_what_changed_before_a_pod_was_tried_is_known_to_it() -> None:
    """Its own try has shown for what reason the node refuses it."""
    backlog = disappointed()
    backlog.push(builders.pod_info("q", cards=2))

    backlog.requeue("uid-q", now=0.0, awaited=frozenset({DEVICE}))

    assert asked(backlog, "n1", FREED) == ["p"]


def test_pods_that_nothing_helps_are_not_looked_at() -> None:
    """An edit alone makes them others."""
    backlog = disappointed()
    backlog.push(builders.pod_info("hopeless", cards=2))
    backlog.requeue("uid-hopeless", now=0.0, awaited=frozenset())

    assert asked(backlog, "n1", FREED) == ["p"]


def test_a_node_that_was_not_searched_to_the_end_helps_at_the_end_of_the_pause_alone() -> None:
    """Whatever has changed there."""
    backlog = disappointed()
    backlog.requeue("uid-p", now=0.0, awaited=frozenset({DEVICE}), undecided=frozenset({"n1"}))
    other = builders.pod_info("q", cards=2)
    backlog.push(other)
    backlog.requeue("uid-q", now=0.0, awaited=frozenset({DEVICE}))

    assert [asked(backlog, "n1", DEVICE), asked(backlog, "n1", FREED)] == [["q"], ["q"]]


WIDE: Final[dict[str, Callable[[Backlog], None]]] = {
    "the policy": lambda backlog: backlog.cluster_event([ClusterEvent.POLICY_CHANGED]),
    "nodes too many to be compared": lambda backlog: backlog.wake_all("n2", FREED),
}


@pytest.mark.parametrize("change", WIDE.values(), ids=WIDE.keys())
def test_a_change_that_is_not_of_one_node_may_be_of_that_node(change: Callable[[Backlog], None]) -> None:
    """Else a pod would sleep that could go."""
    backlog, content = disappointed(), backlogs.requeue(POD, awaited={DEVICE})

    for one in (backlog, content):
        change(one)

    assert [backlogs.ready(one) for one in (backlog, content)] == [["p"], []]


def test_who_was_disappointed_since_all_were_woken_is_woken_as_well() -> None:
    """Where pods are too many to be compared, all are woken once by each kind of change; this one was not."""
    backlog = backlogs.requeue(POD, awaited={DEVICE})
    backlog.wake_all("n2", FREED)
    asked(backlog, "n1", DEVICE)

    backlog.wake_all("n2", FREED)

    assert backlogs.ready(backlog) == ["p"]


def test_of_nodes_too_many_to_be_remembered_everything_may_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those pods that wait for it on nodes of which nothing is known."""
    monkeypatch.setattr(event_waits, "MOST_NODES", 1)
    backlog = disappointed()
    asked(backlog, "n2", DEVICE)

    assert [asked(backlog, node, FREED) for node in ("n1", "n2")] == [["p"], ["p"]]


def test_nothing_is_remembered_once_nobody_waits() -> None:
    """Nodes come and go under ever new names."""
    backlog = disappointed()

    backlog.remove("uid-p")

    assert not backlog._unschedulable._in_vain
