"""A node that has improved is kept for the pods that were woken for it, until they were tried."""

import pytest

from berth_operator.scheduling import backlog as backlog_module
from berth_operator.scheduling import decisions, rotation
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.decisions import ClusterEvent
from support import backlogs, builders
from support.backlogs import ready

FREED = frozenset({ClusterEvent.CAPACITY_FREED})
A, B, C = map(builders.pod_info, "abc")


def test_reservations_of_all_nodes_are_not_asked_for_each() -> None:
    """A kind for which all nodes are reserved has nothing to add, however many more become better."""
    backlog = backlogs.requeue(A, awaited=decisions.ANY_RARE_EVENT)

    backlog.cluster_event((ClusterEvent.POLICY_CHANGED,))
    backlog.node_changed("n1", FREED, lambda _: pytest.fail("asked for nothing"))

    assert not backlog._rotation.reservations.comparisons(FREED, 1)


def left_to(backlog: Backlog, *done: str) -> frozenset[str]:
    """Return the nodes that a new pod leaves to those who reservation them."""
    ready(backlog)
    (left,) = (nodes for pod, nodes in backlog.out_of_order(0.0, done) if pod.name == "new")
    return left


def test_reservations_of_very_many_nodes_are_not_all_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes after those that are looked at leaves all nodes to them, for a while."""
    kinds = (builders.pod_info(name, demand=builders.demand(cpu=at)) for at, name in enumerate("abc"))
    backlog = backlogs.requeue(*kinds, awaited=decisions.ANY_RARE_EVENT)
    for node in ("n1", "n2"):
        backlog.node_changed(node, FREED, lambda _: True)
    in_order = [entry.sort_key for entry in backlog.each()]
    monkeypatch.setattr(rotation, "MOST_LOOKED_AT", 4)

    before = backlog._rotation.reservations.before(set())

    assert [before(one) for one in in_order] == [frozenset(), {"n1", "n2"}, {"n1", "n2"}]
    assert before((True, in_order[0][1])) is None


def test_a_reservation_stands_while_one_of_its_pods_waits() -> None:
    """Others that were woken for an earlier change and go have no part in it."""
    backlog = backlogs.requeue(A, B, C, awaited=decisions.ANY_RARE_EVENT)
    backlog.node_changed("n1", FREED, lambda _: True)
    backlog.requeue("uid-a", now=0.0, awaited=decisions.ANY_RARE_EVENT)
    backlog.node_changed("n2", FREED, lambda _: True)
    backlog.push(builders.pod_info("new", priority=-1))

    backlog.remove("uid-b")

    assert left_to(backlog, "uid-a", "uid-c") == {"n2"}


def test_a_reservation_stands_though_its_namespace_is_suspended() -> None:
    """As long as a pod of the kind was woken whose namespace is not."""
    slow, quick = (builders.pod_info(name, namespace=name) for name in ("slow", "quick"))
    backlog = backlogs.requeue(slow, quick, awaited=decisions.ANY_RARE_EVENT)
    backlog.node_changed("n1", FREED, lambda _: True)
    backlog.push(builders.pod_info("new", priority=-1))

    backlog.suspend("slow")

    assert left_to(backlog, "uid-quick") == {"n1"}


def test_of_too_many_nodes_all_are_reserved() -> None:
    """What is reserved takes no more memory than a bounded number of nodes for each kind."""
    reservation = rotation.Reservation(1, builders.pod_info(), (False, (0, "", "", "")))

    for at in range(rotation.MOST_RESERVED + 2):
        reservation.add(f"n{at}")

    assert (reservation.everywhere, reservation.nodes) == (True, set())


def test_a_node_that_wakes_all_kinds_is_reserved_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many kinds wait to be compared with it; that keeps nobody from the other nodes."""
    monkeypatch.setattr(backlog_module, "MOST_COMPARED", 1)
    backlog = backlogs.requeue(A, B, C, awaited=decisions.ANY_RARE_EVENT)
    for _ in range(3):
        if not backlog.node_changed("n1", frozenset({ClusterEvent.DEVICE_CHANGED}), lambda _: True):
            backlog.wake_all("n1", ClusterEvent.DEVICE_CHANGED)
    backlog.push(builders.pod_info("new", priority=-1))

    assert left_to(backlog, "uid-a", "uid-b", "uid-c") == {"n1"}
