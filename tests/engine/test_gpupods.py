"""A pod whose own record cannot be read holds what its GpuPod names, whatever is heard of first (I8, I9)."""

import itertools
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds import names
from berth_operator.engine import unreadable_pods
from berth_operator.engine.hold_states import State
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions, holds
from berth_operator.scheduling.decisions import ClusterEvent
from support import builders, clock, inventories, ledgers, worlds

EVERY = holds.ALL_CARDS
LOST = {names.ALLOCATION: "{"}
NAMELESS = builders.pod("p", gpus=2, nodeName="n1", annotations=LOST)
READABLE = builders.pod("p", gpus=2, nodeName="n1", annotations=builders.record("n1", main=[2, 3]))
BOTH = builders.gpupod(main=[0, 1])
SIX_THOUSAND = {
    "name": "main",
    "resources": {"limits": {names.NVIDIA_GPU: "1", names.GPU: "6400", "koordinator.sh/gpu": "800"}},
}
ONE = builders.gpupod(main=[1])


# ---------------------------------------------------------------- any order

ARRIVALS: dict[str, Callable[[Ledger], object]] = {
    "node": lambda ledger: ledger.node_seen(builders.node("n1")),
    "Device": lambda ledger: ledger.device_seen(builders.device("n1")),
    "agent": lambda ledger: ledger.agent_silent("n1", silent=False),
    "pod": lambda ledger: ledgers.pod_seen(ledger, NAMELESS),
    "GpuPod": lambda ledger: ledgers.gpupod_seen(ledger, BOTH),
}


@pytest.mark.parametrize(
    "order",
    [order for order in itertools.permutations(ARRIVALS) if order.index("Device") < order.index("agent")],
    ids=", ".join,
)
def test_order_of_arrival_does_not_matter(order: tuple[str, ...]) -> None:
    """The pod holds what its GpuPod names, whichever of the objects came last."""
    ledger = Ledger(clock.Clock())

    for word in order:
        ARRIVALS[word](ledger)

    assert ledgers.holding(ledger) == ([0, 1], 0)
    assert inventories.free_cards(ledger.inventory) == 2
    assert inventories.leftovers(ledger.inventory) == []


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        pytest.param(lambda ledger: ledger.gpupod_gone("ml/p"), ([], EVERY), id="the GpuPod goes"),
        pytest.param(
            lambda ledger: ledgers.gpupod_seen(ledger, builders.gpupod()),
            ([], EVERY),
            id="it names nothing now",
        ),
        pytest.param(lambda ledger: ledgers.gpupod_seen(ledger, ONE), ([1], 1), id="it names fewer"),
        pytest.param(
            lambda ledger: ledgers.gpupod_seen(ledger, builders.gpupod(main=[2, 3])), ([2, 3], 0), id="others"
        ),
        pytest.param(
            lambda ledger: ledgers.gpupod_seen(ledger, builders.gpupod(uid="x", main=[0])),
            ([], EVERY),
            id="x",
        ),
        pytest.param(lambda ledger: ledger.device_gone("n1"), ([], EVERY), id="the Device goes"),
        pytest.param(lambda ledger: ledger.device_seen(builders.device("n1", 1)), ([0], 1), id="a card goes"),
        pytest.param(lambda ledger: ledger.node_gone("n1"), ([0, 1], 0), id="the node goes"),
        pytest.param(
            lambda ledger: ledgers.pod_seen(ledger, NAMELESS), ([0, 1], 0), id="the pod is seen again"
        ),
        pytest.param(
            lambda ledger: ledgers.pod_seen(ledger, READABLE), ([2, 3], 0), id="the own record can be read"
        ),
    ],
)
def test_what_was_named_is_taken_back(
    last: Callable[[Ledger], object], expected: tuple[list[int], int]
) -> None:
    """What a GpuPod names counts for as long as it names it, and no longer: it is no record of the bind."""
    ledger = ledgers.with_nodes()
    ledgers.pod_seen(ledger, NAMELESS)
    ledgers.gpupod_seen(ledger, BOTH)

    last(ledger)

    assert ledgers.holding(ledger) == expected


def test_a_readable_record_takes_nothing_from_a_gpupod() -> None:
    """What a pod was bound with is what it has, whatever its record and its GpuPod say later."""
    ledger = ledgers.with_nodes()
    ledgers.gpupod_seen(ledger, BOTH)
    ledgers.pod_seen(ledger, READABLE)
    before = ledgers.holding(ledger)
    ledgers.pod_seen(ledger, NAMELESS)
    after = ledgers.holding(ledger)
    ledgers.gpupod_seen(ledger, ONE)

    assert before == after == ledgers.holding(ledger) == ([2, 3], 0)


def test_a_record_that_becomes_readable_ends_it() -> None:
    """From then on the pod has what its record says; its GpuPod may change or go, and nobody minds."""
    ledger = ledgers.with_nodes()
    ledgers.pod_seen(ledger, NAMELESS)
    ledgers.gpupod_seen(ledger, BOTH)
    ledgers.pod_seen(ledger, READABLE)

    ledgers.gpupod_seen(ledger, ONE)
    changed = ledgers.holding(ledger)
    ledger.gpupod_gone("ml/p")

    assert changed == ledgers.holding(ledger) == ([2, 3], 0)


def test_a_pod_made_again_takes_nothing_from_the_old_gpupod() -> None:
    """The GpuPod of an earlier pod of the same name is ignored; the new one counts when it comes."""
    ledger = ledgers.with_nodes()
    ledgers.pod_seen(ledger, NAMELESS)
    ledgers.gpupod_seen(ledger, BOTH)
    again = builders.pod("p", gpus=2, nodeName="n1", meta={"uid": "uid-again"}, annotations=LOST)

    ledgers.pod_seen(ledger, again)
    ledgers.pod_seen(ledger, None, "uid-p")  # However late it is told of.
    before = ledgers.holding(ledger, "uid-again")
    ledgers.gpupod_seen(ledger, builders.gpupod(uid="uid-again", main=[1, 3]))

    assert before == ([], EVERY)
    assert ledgers.holding(ledger, "uid-again") == ([1, 3], 0)


def test_a_pod_bound_elsewhere_than_assumed_is_named() -> None:
    """A pod that another bound while our bind was under way holds what its GpuPod names."""
    ledger = ledgers.with_nodes()
    ledgers.add_waiting(ledger)
    ledgers.assume(ledger)
    ledgers.gpupod_seen(ledger, builders.gpupod(main=[3]))

    ledgers.pod_seen(ledger, builders.pod("p", gpus=1, nodeName="n1"))

    assert ledgers.holding(ledger) == ([3], 0)
    assert ledger.state("uid-p") is State.CONFIRMED


# ---------------------------------------------------------------- what follows from it


def test_cards_that_turn_out_free_wake_who_waits() -> None:
    """Once a GpuPod tells which cards are taken, the others are given out."""
    ledger = ledgers.with_nodes(cards=2)
    unreadable = builders.pod("p", gpus=1, nodeName="n1", annotations=LOST | {names.MEMORY_AT_LEAST: "?"})
    ledgers.pod_seen(ledger, unreadable)
    ledgers.add_waiting(ledger, "b")
    ledgers.put_off(ledger, "b", ClusterEvent.CAPACITY_FREED)
    before = inventories.free_cards(ledger.inventory)

    ledgers.gpupod_seen(ledger, builders.gpupod(main=[0]))
    (answer,) = ledgers.decide(ledger)

    assert before <= 1
    assert ledgers.ready_names(ledger) == ["b"]
    assert isinstance(answer, decisions.Bind)
    assert answer.placement.grants[0].shares == (builders.share(1),)


def test_a_node_whose_pod_is_named_is_summed_up_anew() -> None:
    """The free cards that people see on the Device are those of the ledger."""
    ledger = ledgers.with_nodes()
    ledgers.pod_seen(ledger, NAMELESS)
    reader = ledgers.reader(ledger)

    ledgers.gpupod_seen(ledger, BOTH)

    assert reader.read() == {"n1"}


def test_nothing_is_kept_of_what_is_gone() -> None:
    """Pods and GpuPods leave nothing behind, in whichever order they go."""
    ledger = ledgers.with_nodes()
    for name in ("a", "b", "c"):
        ledgers.gpupod_seen(ledger, builders.gpupod(name, main=[0]))
    for name in ("a", "b"):
        ledgers.pod_seen(ledger, builders.pod(name, gpus=1, nodeName="n1"))
    ledgers.pod_seen(ledger, None, "uid-a")
    for name in ("a", "b", "c"):
        ledger.gpupod_gone(f"ml/{name}")
    ledgers.pod_seen(ledger, None, "uid-b")

    kept = ledger.unreadable_pods

    assert (kept._gpupods, kept._titles, kept._shares) == ({}, {}, {})
    assert (kept._pods, kept._uids, kept._logged) == ({}, {}, {})
    assert repr(kept) == "<UnreadablePods: 0 pods, 0 GpuPods>"


@pytest.mark.parametrize("late", [False, True], ids=["the GpuPod first", "the pod first"])
def test_nothing_is_kept_of_what_is_said_of_a_pod_with_a_readable_record(*, late: bool) -> None:
    """It takes nothing from there, so a large GpuPod of it, of whatever node, takes no memory."""
    ledger = ledgers.with_nodes(2)
    ledgers.in_turn(
        lambda: ledgers.gpupod_seen(ledger, builders.gpupod(main=[0, 1])),
        lambda: ledgers.gpupod_seen(ledger, builders.gpupod("other", "n2", uid="uid-p", main=[0, 1])),
        lambda: ledgers.pod_seen(ledger, READABLE),
        late=late,
    )

    assert (ledger.unreadable_pods._gpupods, ledger.unreadable_pods._titles) == ({}, {})


def test_what_gpupods_of_one_node_list_is_limited(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Pods that nobody knows may yet come, but not without end; other nodes have room of their own."""
    monkeypatch.setattr(unreadable_pods, "MOST_SHARES", 6)
    ledger = ledgers.with_nodes(2)

    for at in range(10):
        ledgers.gpupod_seen(ledger, builders.gpupod(f"many{at}", "n2", uid=f"u{at}", main=[0, 1]))
    many = list(ledger.unreadable_pods._gpupods)
    ledgers.gpupod_seen(ledger, BOTH)
    ledgers.pod_seen(ledger, NAMELESS)
    ledger.gpupod_gone("ml/many0")
    ledgers.gpupod_seen(ledger, builders.gpupod("many9", "n2", uid="u9", main=[0, 1]))

    assert many == ["ml/many0", "ml/many1"]
    assert "GpuPod ml/many2 is ignored: those of node n2 list more than 6 shares in all" in caplog.messages
    assert ledgers.holding(ledger) == ([0, 1], 0)
    assert list(ledger.unreadable_pods._gpupods) == ["ml/many1", "ml/p", "ml/many9"]


def test_gpupods_that_list_nothing_are_limited_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes memory, whatever it says."""
    monkeypatch.setattr(unreadable_pods, "MOST_SHARES", 4)
    ledger = ledgers.with_nodes()

    for at in range(10):
        ledgers.gpupod_seen(ledger, builders.gpupod(f"many{at}", uid=f"u{at}"))

    assert len(ledger.unreadable_pods._gpupods) == 4


@pytest.mark.parametrize("late", [False, True], ids=["the other one first", "the true one first"])
def test_a_gpupod_speaks_for_its_pod_whatever_its_name_is(*, late: bool) -> None:
    """The name may be another node's; only the agent of the pod's node can have written this one."""
    ledger = ledgers.with_nodes(2)
    ledgers.pod_seen(ledger, NAMELESS)
    ledgers.in_turn(
        lambda: ledgers.gpupod_seen(ledger, builders.gpupod("p", "n2", main=[2, 3])),
        lambda: ledgers.gpupod_seen(ledger, builders.gpupod("of-n1", uid="uid-p", main=[0, 1])),
        late=late,
    )
    found = ledgers.holding(ledger)
    ledger.gpupod_gone("ml/p")
    still = ledgers.holding(ledger)
    ledger.gpupod_gone("ml/of-n1")

    assert found == still == ([0, 1], 0)
    assert ledgers.holding(ledger) == ([], EVERY)


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
Objects = dict[tuple[str, str], Callable[[Ledger], object]]


def play(ledger: Ledger, objects: Objects, step: Any) -> None:
    """Do one thing, and note which objects there are after it; where a pod is and what it says stays so."""
    match step:
        case ("pod", name, node, readable):
            note = builders.record(node, main=[2]) if readable and node else LOST
            spec = {"nodeName": node} if node else {}
            pod = builders.pod(name, gpus=2, annotations=note, **spec)
            bound = ("bound", name) in objects
            if not bound:
                _happen(
                    ledger,
                    objects,
                    ("bound" if node else "waiting", name),
                    lambda to: ledgers.pod_seen(to, pod),
                )
                objects.pop(("waiting", name), None) if node else None
        case ("no pod", name):
            ledgers.pod_seen(ledger, None, f"uid-{name}")
            objects.pop(("bound", name), None)
            objects.pop(("waiting", name), None)
        case ("gpupod", name, node, uid, minors):
            thing = builders.gpupod(name, node, uid=uid, main=minors)
            _happen(ledger, objects, ("gpupod", name), lambda to: ledgers.gpupod_seen(to, thing))
        case ("no gpupod", name):
            ledger.gpupod_gone(f"ml/{name}")
            objects.pop(("gpupod", name), None)
        case ("device", node, cards):
            device = builders.device(node, cards)
            _happen(ledger, objects, ("device", node), lambda to: to.device_seen(device))
        case ("no device", node):
            ledger.device_gone(node)
            objects.pop(("device", node), None)


def _happen(
    ledger: Ledger,
    objects: Objects,
    key: tuple[str, str],
    tell: Callable[[Ledger], object],
) -> None:
    objects[key] = tell
    tell(ledger)


@worlds.PROPERTY
@hypothesis.given(st.lists(STEPS, max_size=25), st.randoms(use_true_random=False))
def test_any_history_ends_as_if_made_afresh(steps: list[Any], chance: Any) -> None:
    """However pods, GpuPods and Devices came, changed and went: a ledger of what is left is the same (I8)."""
    ledger, objects = Ledger(clock.Clock()), Objects()
    for step in steps:
        play(ledger, objects, step)

    left = list(objects.values())
    chance.shuffle(left)
    fresh = Ledger(clock.Clock())
    for tell in left:
        tell(fresh)

    assert ledgers.contents(ledger) == ledgers.contents(fresh)
    assert inventories.leftovers(ledger.inventory) == []
