"""A pod whose own record cannot be read holds what its GpuPod names, whatever is heard of first (I8, I9)."""

import itertools
from collections.abc import Callable
from typing import Any
from unittest import mock

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds import names
from berth_operator.engine import unreadable_pods
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import holds
from berth_operator.scheduling.decisions import ClusterEvent, Reason
from support import builders, clock, inventories, ledgers, random_clusters

EVERY = holds.ALL_CARDS
LOST = {names.ALLOCATION: "{"}
Step = Callable[[Ledger], object]


def pod(annotations: dict[str, str] = LOST, uid: str = "uid-p") -> Step:
    """Have a pod of two cards be seen on its node, by default one whose own record cannot be read."""
    seen = builders.pod("p", gpus=2, nodeName="n1", annotations=annotations, meta={"uid": uid})
    return lambda ledger: ledgers.pod_seen(ledger, seen)


def gpupod(*minors: int, name: str = "p", at: str = "n1", uid: str = "uid-p") -> Step:
    """Have a GpuPod be seen that names these cards."""
    seen = builders.gpupod(name, at, uid=uid, main=minors)
    return lambda ledger: ledgers.gpupod_seen(ledger, seen)


READABLE = pod(builders.record("n1", main=[2, 3]))


# ---------------------------------------------------------------- any order

ARRIVALS: dict[str, Step] = {
    "node": lambda ledger: ledger.node_seen(builders.node("n1")),
    "Device": lambda ledger: ledger.device_seen(builders.device("n1")),
    "agent": lambda ledger: ledger.agent_silent("n1", silent=False),
    "pod": pod(),
    "GpuPod": gpupod(0, 1),
}


@pytest.mark.parametrize(
    "order",
    [order for order in itertools.permutations(ARRIVALS) if order.index("Device") < order.index("agent")],
    ids=", ".join,
)
def test_order_of_arrival_does_not_matter(order: tuple[str, ...]) -> None:
    """The pod holds what its GpuPod names, whichever of the objects came last."""
    ledger = Ledger(clock.Clock())

    for name in order:
        ARRIVALS[name](ledger)

    assert ledgers.holding(ledger) == ([0, 1], 0)
    assert inventories.free_cards(ledger.inventory) == 2
    assert inventories.leftovers(ledger.inventory) == []


BOTH = [pod(), gpupod(0, 1)]
OF_ANOTHER_NODE = gpupod(2, 3, at="n2")
# What happens to a pod, and which cards it holds then, and how many that nobody names.
HISTORIES: dict[str, tuple[list[Step], tuple[list[int], int]]] = {
    "the GpuPod goes": ([*BOTH, lambda ledger: ledger.gpupod_gone("ml/p")], ([], EVERY)),
    "it names nothing now": ([*BOTH, gpupod()], ([], EVERY)),
    "it names fewer": ([*BOTH, gpupod(1)], ([1], 1)),
    "it names others": ([*BOTH, gpupod(2, 3)], ([2, 3], 0)),
    "it is of an earlier pod": ([*BOTH, gpupod(0, uid="x")], ([], EVERY)),
    "the Device goes": ([*BOTH, lambda ledger: ledger.device_gone("n1")], ([], EVERY)),
    "a card goes": ([*BOTH, lambda ledger: ledger.device_seen(builders.device("n1", 1))], ([0], 1)),
    "the node goes": ([*BOTH, lambda ledger: ledger.node_gone("n1")], ([0, 1], 0)),
    "the pod is seen again": ([*BOTH, pod()], ([0, 1], 0)),
    "the own record can be read": ([*BOTH, READABLE], ([2, 3], 0)),
    "it could be read, and the GpuPod changes": ([*BOTH, READABLE, gpupod(1)], ([2, 3], 0)),
    "it could be read once": ([gpupod(0, 1), READABLE, pod()], ([2, 3], 0)),
    "it could be read once, and the GpuPod changes": (
        [gpupod(0, 1), READABLE, pod(), gpupod(1)],
        ([2, 3], 0),
    ),
    "it names another card later": (
        [READABLE, pod(builders.record("n1", main=[0, 1]))],
        ([2, 3], 0),
    ),
    "it was bound elsewhere than assumed": (
        [ledgers.add_waiting, ledgers.assume, gpupod(3), pod({})],
        ([3], 1),
    ),
    "another name than the pod's": ([pod(), OF_ANOTHER_NODE, gpupod(0, 1, name="uid-p.n1")], ([0, 1], 0)),
    "another name, and it comes first": (
        [pod(), gpupod(0, 1, name="uid-p.n1"), OF_ANOTHER_NODE],
        ([0, 1], 0),
    ),
    "a name that no agent gives": ([pod(), gpupod(0, 1, name="other")], ([], EVERY)),
    "of another node": ([pod(), OF_ANOTHER_NODE], ([], EVERY)),
}


@pytest.mark.parametrize(("steps", "expected"), HISTORIES.values(), ids=HISTORIES.keys())
def test_a_pod_holds_what_its_gpupod_names_for_as_long_as_it_names_it(
    steps: list[Step], expected: tuple[list[int], int]
) -> None:
    """It is no record of the bind: what a readable one has named stays, whatever is said later.

    A GpuPod of the pod's name may be another node's: then the agent of the pod's node gives its own another.
    """
    ledger = ledgers.with_nodes(2)

    for step in steps:
        step(ledger)

    assert ledgers.holding(ledger) == expected


def test_a_pod_made_again_takes_nothing_from_the_old_gpupod() -> None:
    """The GpuPod of an earlier pod of the same name is ignored; the new one counts when it comes."""
    ledger = ledgers.with_nodes()
    for step in (*BOTH, pod(uid="uid-again")):
        step(ledger)
    ledgers.pod_seen(ledger, None, "uid-p")  # However late that comes.

    before = ledgers.holding(ledger, "uid-again")
    gpupod(1, 3, uid="uid-again")(ledger)

    assert (before, ledgers.holding(ledger, "uid-again")) == (([], EVERY), ([1, 3], 0))


# ---------------------------------------------------------------- what follows from it


def test_cards_that_turn_out_free_wake_who_waits() -> None:
    """Once a GpuPod tells which cards are taken, the others are given out, and the node is summed up anew."""
    ledger = ledgers.with_nodes(cards=3)
    pod()(ledger)
    ledgers.add_sleeping(ledger, "b", ClusterEvent.CAPACITY_FREED)
    before, reader = inventories.free_cards(ledger.inventory), ledgers.reader(ledger)

    gpupod(0, 1)(ledger)

    assert (before, reader.read(), ledgers.ready_names(ledger)) == (0, {"n1"}, ["b"])
    assert ledgers.assume(ledger, "b").placement.grants[0].shares == (builders.share(2),)


def test_nothing_is_kept_of_what_is_gone() -> None:
    """Pods and GpuPods leave nothing behind, in whichever order they go."""
    ledger = ledgers.with_nodes()
    for name in "abc":
        gpupod(0, name=name, uid=f"uid-{name}")(ledger)
    for name in "ab":
        ledgers.pod_seen(ledger, builders.pod(name, gpus=1, nodeName="n1"))
    ledgers.pod_seen(ledger, None, "uid-a")
    for name in "abc":
        ledger.gpupod_gone(f"ml/{name}")
    ledgers.pod_seen(ledger, None, "uid-b")

    kept = ledger.unreadable_pods

    assert not any((kept._gpupods, kept._titles, kept._shares, kept._pods, kept._uids, kept._logged))
    assert repr(kept) == "<UnreadablePods: 0 pods, 0 GpuPods>"


@pytest.mark.parametrize("order", [1, -1], ids=["the GpuPods first", "the pod first"])
def test_nothing_is_kept_of_gpupods_of_a_pod_with_a_readable_record(order: int) -> None:
    """It takes nothing from there, so a large GpuPod of it, of whatever node, takes no memory."""
    ledger = ledgers.with_nodes(2)

    for step in [gpupod(0, 1), gpupod(0, 1, name="other", at="n2"), READABLE][::order]:
        step(ledger)

    assert (ledger.unreadable_pods._gpupods, ledger.unreadable_pods._titles) == ({}, {})


def test_what_gpupods_of_one_node_list_is_limited(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Pods that nobody knows may yet come, but not without end; other nodes have room of their own."""
    monkeypatch.setattr(unreadable_pods, "MOST_SHARES", 6)
    ledger = ledgers.with_nodes(2)
    many = [gpupod(0, 1, name=f"many{at}", at="n2", uid=f"u{at}") for at in range(10)]
    for step in many:
        step(ledger)
    kept = list(ledger.unreadable_pods._gpupods)

    for step in (*BOTH, lambda ledger: ledger.gpupod_gone("ml/many0"), many[9]):
        step(ledger)

    assert kept == ["ml/many0", "ml/many1"]
    assert "GpuPod ml/many2 is ignored: those of node n2 list more than 6 shares in all" in caplog.messages
    assert ledgers.holding(ledger) == ([0, 1], 0)
    assert list(ledger.unreadable_pods._gpupods) == ["ml/many1", "ml/p", "ml/many9"]


def test_gpupods_that_list_nothing_are_limited_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes memory, whatever it says."""
    monkeypatch.setattr(unreadable_pods, "MOST_SHARES", 4)
    ledger = ledgers.with_nodes()

    for at in range(10):
        gpupod(name=f"many{at}", uid=f"u{at}")(ledger)

    assert len(ledger.unreadable_pods._gpupods) == 4


def test_the_health_of_cards_has_no_pod_read_anew() -> None:
    """It changes nothing of what a pod has, and an agent may write it all the time."""
    ledger, found = ledgers.with_nodes(1), list[int]()
    for step in BOTH:
        step(ledger)
    sick = [builders.card(0, trouble=Reason.UNHEALTHY), builders.card(1)]

    with mock.patch.object(
        ledger.unreadable_pods, "current_hold", wraps=ledger.unreadable_pods.current_hold
    ) as read:
        ledger.device_seen(builders.device("n1", 2))
        for device in (builders.device("n1", sick), builders.device("n1", 2), builders.device("n1", 3)):
            before = read.call_count
            ledger.device_seen(device)
            found.append(read.call_count - before)

    assert found == [0, 0, 1]


# ---------------------------------------------------------------- whatever happens

PODS = ("p", "q")
STEPS = st.one_of(
    st.tuples(st.just("pod"), st.sampled_from(PODS), st.sampled_from(["", "n1", "n2"]), st.booleans()),
    st.tuples(st.just("no pod"), st.sampled_from(PODS)),
    st.tuples(
        st.just("gpupod"),
        st.sampled_from(PODS),
        st.sampled_from(["n1", "n2"]),
        st.sampled_from(["", "", "", "uid-old"]),
        st.lists(st.integers(0, 4), max_size=3, unique=True),
    ),
    st.tuples(st.just("no gpupod"), st.sampled_from(PODS)),
    st.tuples(st.just("device"), st.sampled_from(["n1", "n2"]), st.integers(0, 4)),
    st.tuples(st.just("no device"), st.sampled_from(["n1", "n2"])),
)
Objects = dict[tuple[str, str], Step]


def play(ledger: Ledger, objects: Objects, step: Any) -> None:
    """Do one thing, and note which objects there are after it; where a pod is and what it says stays so."""
    match step:
        case ("pod", name, node, readable) if ("bound", name) not in objects:
            note = builders.record(node, main=[2]) if readable and node else LOST
            spec = {"nodeName": node} if node else {}
            seen = builders.pod(name, gpus=2, annotations=note, **spec)
            objects.pop(("waiting", name), None)
            key = ("bound" if node else "waiting", name)
            objects[key] = lambda to: ledgers.pod_seen(to, seen)
            objects[key](ledger)
        case ("no pod", name):
            ledgers.pod_seen(ledger, None, f"uid-{name}")
            for kind in ("bound", "waiting"):
                objects.pop((kind, name), None)
        case ("gpupod", name, node, uid, minors):
            objects["gpupod", name] = gpupod(*minors, name=name, at=node, uid=uid or f"uid-{name}")
            objects["gpupod", name](ledger)
        case ("no gpupod", name):
            ledger.gpupod_gone(f"ml/{name}")
            objects.pop(("gpupod", name), None)
        case ("device", node, cards):
            objects["device", node] = lambda to: to.device_seen(builders.device(node, cards))
            objects["device", node](ledger)
        case ("no device", node):
            ledger.device_gone(node)
            objects.pop(("device", node), None)


@random_clusters.PROPERTY
@hypothesis.given(st.lists(STEPS, max_size=25), st.randoms(use_true_random=False))
def test_any_history_ends_as_if_made_afresh(steps: list[Any], chance: Any) -> None:
    """However pods, GpuPods and Devices came, changed and went: a ledger of what is left is the same (I8)."""
    ledger, objects = Ledger(clock.Clock()), Objects()
    for step in steps:
        play(ledger, objects, step)

    left, fresh = list(objects.values()), Ledger(clock.Clock())
    chance.shuffle(left)
    for seen in left:
        seen(fresh)

    assert ledgers.contents(ledger) == ledgers.contents(fresh)
    assert inventories.leftovers(ledger.inventory) == []
