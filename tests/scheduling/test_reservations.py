"""A node that has improved is kept for the pods that were woken for it, until they were tried."""

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling import comparisons, cycle, decisions, rotation
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.decisions import ClusterEvent
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.queued_pods import Entry, SortKey
from berth_operator.scheduling.search import Search
from support import backlogs, builders, thorough
from support.backlogs import ready

FREED = frozenset({ClusterEvent.CAPACITY_FREED})
A, B, C = map(builders.pod_info, "abc")


def test_reservations_of_all_nodes_are_not_asked_for_each() -> None:
    """A kind for which all nodes are reserved has nothing to add, however many more become better."""
    backlog = backlogs.requeue(A, awaited=decisions.ANY_RARE_EVENT)

    backlog.cluster_event((ClusterEvent.POLICY_CHANGED,))
    backlog.node_changed("n1", FREED, lambda _: pytest.fail("asked for nothing"))

    assert not backlog.reservations.comparisons(FREED, 1)


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
    in_order = [entry.sort_key for entry in backlog.in_order()]
    monkeypatch.setattr(rotation, "MOST_LOOKED_AT", 4)

    before = backlog.reservations.before(set())

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
    monkeypatch.setattr(comparisons, "MOST", 1)
    backlog = backlogs.requeue(A, B, C, awaited=decisions.ANY_RARE_EVENT)
    for _ in range(3):
        if not backlog.node_changed("n1", frozenset({ClusterEvent.DEVICE_CHANGED}), lambda _: True):
            backlog.wake_all("n1", ClusterEvent.DEVICE_CHANGED)
    backlog.push(builders.pod_info("new", priority=-1))

    assert left_to(backlog, "uid-a", "uid-b", "uid-c") == {"n1"}


# ---------------------------------------------------------------- as plain sets

NODES = ("n1", "n2", "n3")
PODS = [(kind, namespace, turn) for kind in (1, 2, 3) for namespace in ("a", "b") for turn in (0, 1)]


def test_what_was_not_found_beside_reserved_nodes_is_no_answer_for_who_may_take_them() -> None:
    """A pod out of order had too little time for the other node; in order the first node is there as well."""
    search = Search(builders.inventory(*builders.nodes(2, cards=8)))
    shares = [requests.Gpus(1, core=23 + at, memory=(9 + at) * builders.GIB) for at in range(16)]
    pods = [builders.pod_info(name, request=builders.request(*shares)) for name in "ab"]
    reserved = frozenset({search.inventory.infos[0].name})  # type: ignore[union-attr]
    tries = [
        (cycle.PodToTry(pods[0], frozenset(), in_order=False, reserved_for_others=reserved), Effort(1)),
        (cycle.PodToTry(pods[1], frozenset()), Effort()),
    ]
    known: cycle.UnschedulableSignatures = {}

    first, second = (cycle._decide(search, one, Policy(), known, effort) for one, effort in tries)

    assert isinstance(first, decisions.Wait)
    assert first.cut_short
    assert isinstance(second, decisions.Bind)


class PlainReservations:
    """What `Reservations` keep, for each kind a set of nodes: of a node None all nodes are reserved."""

    def __init__(self) -> None:
        self.nodes: dict[int, set[str | None]] = {}
        self.awake: dict[int, list[Entry]] = {}
        self.firsts: dict[int, SortKey] = {}

    def reserve_for_woken(self, entry: Entry, node: str | None) -> None:
        """Reserve a node for a pod."""
        kind = entry.kind_number
        self.firsts[kind] = min(self.firsts.get(kind, entry.sort_key), entry.sort_key)
        self.nodes.setdefault(kind, set()).add(node)
        self.awake.setdefault(kind, []).append(entry)

    def reserve(self, node: str | None, kinds: set[int]) -> None:
        """Reserve a node for those of these kinds that have a reservation."""
        for kind in kinds & self.nodes.keys():
            self.nodes[kind].add(node)

    def end(self, kind: int) -> None:
        """End the reservation of a kind."""
        for known in (self.nodes, self.awake, self.firsts):
            known.pop(kind, None)

    def remove(self, entry: Entry) -> None:
        """Remove a pod from the reservation of its kind."""
        kind = entry.kind_number
        self.awake[kind] = [one for one in self.awake.get(kind, []) if one is not entry]
        if not self.awake[kind]:
            self.end(kind)

    def before(self, sort_key: SortKey, suspended: set[str]) -> set[str] | None:
        """Return the nodes reserved for pods before this one; None where all are."""
        found = set[str | None]()
        for kind, first in self.firsts.items():
            if first < sort_key and {one.pod_info.namespace for one in self.awake[kind]} - suspended:
                found |= self.nodes[kind]
        return None if None in found else {node for node in found if node is not None}


def entries() -> list[Entry]:
    """Return pods of some kinds and namespaces, in the order in which they are tried."""
    found = []
    for kind, namespace, turn in PODS:
        pod_info = builders.pod_info(f"p{kind}{turn}", namespace=namespace, priority=-turn)
        entry = Entry(pod_info, pod_info.order(0))
        entry.kind_number = kind
        found.append(entry)
    return found


NODE = st.sampled_from([*NODES, None])
POD = st.integers(0, len(PODS) - 1)
KINDS = st.sets(st.sampled_from([1, 2, 3]))
WOKEN = st.tuples(st.just("woken"), POD, NODE)
CHANGES = st.one_of(
    WOKEN,
    WOKEN,
    st.tuples(st.just("left"), POD),
    st.tuples(st.just("tried"), st.sampled_from([1, 2, 3])),
    st.tuples(st.just("reserve"), NODE),
    st.tuples(st.just("offered"), NODE, KINDS),
    st.tuples(st.just("before"), st.sets(st.sampled_from(["a", "b"]))),
)


@hypothesis.settings(max_examples=thorough.examples(4000))
@hypothesis.given(st.lists(CHANGES, max_size=30))
def test_what_is_reserved_is_that_of_plain_sets(changes: list[tuple[Any, ...]]) -> None:
    """However it is noted: for one kind, for all that there are, or for all nodes."""
    found, plain, pods = rotation.Reservations(), PlainReservations(), entries()
    for what, *given in [*changes, ("before", set[str]())]:
        match what, given:
            case "woken", [int(at), node] if not pods[at].reservation:
                found.reserve_for_woken(pods[at], node)
                plain.reserve_for_woken(pods[at], node)
            case "left", [int(at)] if pods[at].reservation:
                found.remove(pods[at])
                plain.remove(pods[at])
            case "tried", [int(kind)]:
                found.end(kind)
                plain.end(kind)
            case "reserve", [node]:
                found.reserve_for_all(node)
                plain.reserve(node, {1, 2, 3})
            case "offered", [node, set(kinds)]:
                found.reserve_if_able(
                    node, {one.pod_info: one.kind_number in kinds for one in pods}.__getitem__
                )
                plain.reserve(node, kinds)
            case "before", [set(suspended)]:
                before = found.before(suspended)
                assert [before(one.sort_key) for one in pods] == [
                    plain.before(one.sort_key, suspended) for one in pods
                ]
