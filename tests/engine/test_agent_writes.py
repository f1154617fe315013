"""What an agent writes keeps no card of another node back; a record that a Binding wrote does."""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any, Final

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from berth_crds import names, wire
from berth_operator.engine import node_summaries
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import uuid_ownership, uuid_records
from berth_operator.scheduling.devices import device_facts
from berth_operator.translate import raw
from support import builders, clock, inventories, ledgers, random_clusters

MINORS: Final = (0, 1, 2, 3)
THEIRS: Final = frozenset(builders.uuid("n2", minor) for minor in MINORS)
RECORDED: Final = uuid_records.Record(claims=THEIRS)
NODES: Final = (builders.node("n1", extra={names.NVIDIA_GPU: 8}), builders.node("n2"))
ON_N1: Final[dict[str, Any]] = {"gpus": 4, "nodeName": "n1"}
PODS: Final = {
    "a pod that somebody else bound": builders.pod("p", schedulerName="other", phase="Running", **ON_N1),
    "a pod whose record is damaged": builders.pod("p", annotations={names.ALLOCATION: "{"}, **ON_N1),
}


def record(*minors: int) -> dict[str, str]:
    """Return the annotation of a Binding to n1 that gives these cards of n2's."""
    shares = [builders.recorded(minor, at="n2") for minor in minors]
    return builders.written("n1", {"main": {"gpu": shares}})


def claiming(*minors: int, large: bool = False) -> device_facts.Device:
    """Return the Device of n1 with a card of its own and these of n2's."""
    cards = [builders.card(9, at="n1"), *(builders.card(minor, at="n2") for minor in minors)]
    return dataclasses.replace(builders.device("n1", cards), large=large, failed="too large" if large else "")


def naming(*minors: int) -> wire.GpuPod:
    """Return what the agent of n1 says of the pod there: that it holds these cards of n2's."""
    found = builders.gpupod(at="n2", main=minors)
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, node="n1"))


def begun(
    claimed: device_facts.Device | None = None,
    *,
    pod: raw.Pod | None = None,
    known: bool = True,
    day: Callable[[], float] = float,
) -> Ledger:
    """Return a ledger that knows n2, whose cards are recorded as its own, and n1 with a pod there."""
    ledger = Ledger(clock.Clock(), day=day)
    for node in NODES:
        ledger.node_seen(node)
    ledger.device_seen(builders.device("n2"), RECORDED)
    ledger.device_seen(claimed or claiming())
    for name in ("n1", "n2"):
        ledger.agent_silent(name, silent=False)
    if known:
        ledger.all_devices_read()
    if pod is not None:
        ledgers.pod_seen(ledger, pod)
    return ledger


def goes(ledger: Ledger) -> None:
    """Have n2 go away, whose cards n1 publishes meanwhile."""
    ledger.node_gone("n2")
    ledger.device_gone("n2")
    ledger.device_seen(claiming(*MINORS))


def comes_back(ledger: Ledger) -> None:
    """Have n2 come back, with its Device and its agent."""
    ledger.node_seen(builders.node("n2"))
    ledger.device_seen(builders.device("n2"))
    ledger.agent_silent("n2", silent=False)


def free(ledger: Ledger) -> tuple[int, int]:
    """Count the cards of n2's that n1 can give, and those that n2 can give."""
    n1, n2 = (THEIRS & set(inventories.open_cards(ledger.inventory, node)) for node in ("n1", "n2"))
    return len(n1), len(n2)


@pytest.mark.parametrize("pod", PODS.values(), ids=PODS.keys())
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_a_gpupod_makes_no_doubt_for_the_next_operator(pod: raw.Pod, order: tuple[int, ...]) -> None:
    """It was told that n2's cards are n2's, and of n1 nothing is recorded."""
    ledger = begun(known=False)
    steps: list[Callable[[], object]] = [
        lambda: ledger.device_seen(claiming(*MINORS)),
        lambda: ledgers.gpupod_seen(ledger, naming(*MINORS)),
        lambda: ledgers.pod_seen(ledger, pod),
    ]

    for at in order:
        steps[at]()
    ledger.all_devices_read()

    assert ledgers.holding(ledger)[0] == [*MINORS]
    assert free(ledger) == (0, 4)


@pytest.mark.parametrize("silent", [False, True], ids=["the agent speaks", "the agent fell silent"])
@pytest.mark.parametrize("pod", PODS.values(), ids=PODS.keys())
def test_a_gpupod_keeps_no_card_from_the_node_that_comes_back_for_it(pod: raw.Pod, *, silent: bool) -> None:
    """While n2's Device is away n1 publishes its cards: they are n2's again with its Device."""
    ledger = begun(pod=pod)
    ledgers.gpupod_seen(ledger, naming(*MINORS))
    goes(ledger)
    meanwhile = ledgers.holding(ledger)[0]

    ledger.agent_silent("n1", silent=silent)
    comes_back(ledger)

    assert (meanwhile, free(ledger)) == ([*MINORS], (0, 4))


def bound(*minors: int) -> raw.Pod:
    """Return a pod on n1 to which a Binding gave these cards of n2's."""
    return builders.pod(annotations=record(*minors), gpus=len(minors), nodeName="n1")


def test_what_a_binding_recorded_is_given_nowhere_else() -> None:
    """The cards were n1's when the pod was bound; n2 has those that no such pod holds, once it is back."""
    ledger = begun()
    goes(ledger)
    ledgers.pod_seen(ledger, bound(0))

    comes_back(ledger)
    ledger.agent_silent("n1", silent=True)
    kept = free(ledger)
    ledgers.pod_seen(ledger, None, "uid-p")

    assert (kept, free(ledger)) == ((0, 3), (0, 4))


def test_a_record_that_becomes_readable_weighs_from_then_on() -> None:
    """It names the very cards that the GpuPod has named before."""
    ledger = begun(pod=PODS["a pod whose record is damaged"])
    ledgers.gpupod_seen(ledger, naming(*MINORS))
    goes(ledger)

    ledgers.pod_seen(ledger, bound(*MINORS))
    comes_back(ledger)

    assert free(ledger) == (0, 0)


# ---------------------------------------------------------------- a Device that is too large


def summary(ledger: Ledger) -> node_summaries.NodeSummary:
    """Sum n1 up."""
    (found,) = node_summaries.summarize(ledger.inventory, {"n1"})
    return found


def test_a_device_that_is_too_large_disputes_nothing() -> None:
    """Nobody could write down whose its cards are; once it is smaller it has its own again."""
    ledger = begun(claiming(*MINORS, large=True), known=False)
    ledger.all_devices_read()
    large = summary(ledger)
    ledger.device_seen(claiming(*MINORS))

    assert (large.free, large.claims, large.disputed, large.reason) == (0, (), (), "too large")
    assert free(ledger) == (0, 4)
    assert ledger.inventory.uuid_ownership.keeper(builders.uuid("n1", 9)) == "n1"


@pytest.mark.parametrize("late", [False, True], ids=["the pod first", "the Device first"])
def test_pods_on_a_node_whose_device_is_too_large_keep_their_cards(*, late: bool) -> None:
    """A record of a bind weighs as it does elsewhere, and nothing is said to be wrong with it."""
    ledger = Ledger(clock.Clock())
    ledger.all_devices_read()
    ledger.device_seen(claiming(*MINORS))
    ledgers.in_turn(
        lambda: ledgers.pod_seen(ledger, bound(*MINORS)),
        lambda: ledger.device_seen(claiming(*MINORS, large=True)),
        late=late,
    )
    ledger.agent_silent("n1", silent=False)
    comes_back(ledger)
    found, kept = summary(ledger), free(ledger)
    ledgers.pod_seen(ledger, None, "uid-p")

    assert (kept, free(ledger)) == ((0, 0), (0, 4))
    assert (found.used, found.reason) == (4, "too large")


# ---------------------------------------------------------------- whatever happens

SOME = st.lists(st.sampled_from(MINORS), unique=True).map(tuple)
STEPS = st.lists(
    st.tuples(st.just("publishes"), SOME, st.booleans())
    | st.tuples(st.just("is gone"))
    | st.tuples(st.just("says"), SOME)
    | st.tuples(st.just("says nothing"))
    | st.tuples(st.just("is silent"), st.booleans())
    | st.tuples(st.just("a day passes"))
    | st.tuples(st.just("n2 is away"), SOME, st.booleans())
    | st.tuples(st.just("restarts"), SOME, st.booleans()),
    max_size=10,
)


class World:
    """What n1's agent has written and what is recorded, with an operator that decides by it."""

    def __init__(self, pod: raw.Pod) -> None:
        self.pod = pod
        self.device: device_facts.Device | None = claiming()
        self.gpupod: wire.GpuPod | None = None
        self.record = uuid_records.NOTHING  # In n1's Device.
        self.time = clock.Clock()
        self.ledger = begun(pod=pod, day=self.time)

    def do(self, step: Any, *, writes: bool) -> None:
        """Do what happens next; the operator can write n1's record then, or cannot."""
        match step:
            case ("publishes", minors, large):
                self.publish(claiming(*minors, large=large))
            case ("is gone",):
                self.device, self.record = None, uuid_records.NOTHING
                self.ledger.device_gone("n1")
            case ("says", minors):
                self.gpupod = naming(*minors)
                ledgers.gpupod_seen(self.ledger, self.gpupod)
            case ("says nothing",):
                self.gpupod = None
                self.ledger.gpupod_gone("ml/p")
            case ("is silent", silent):
                self.ledger.agent_silent("n1", silent=silent)
            case _:
                self.do_without_agent(step)
        if writes and self.device is not None and not self.device.large:
            self.record = self.ledger.inventory.uuid_ownership.record("n1")
        self.ledger.agent_silent("n2", silent=False)

    def do_without_agent(self, step: Any) -> None:
        """Do what happens to others than n1's agent."""
        match step:
            case ("n2 is away", minors, large):
                self.ledger.device_gone("n2")
                self.publish(claiming(*minors, large=large))
                self.ledger.device_seen(builders.device("n2"))
            case ("a day passes",):
                self.time.advance(uuid_ownership.REMEMBERED_SECONDS)
            case ("restarts", minors, large):
                self.device = claiming(*minors, large=large)
                self.restart()

    def publish(self, device: device_facts.Device) -> None:
        """Have n1's agent publish something."""
        self.device = device
        self.ledger.device_seen(device)

    def restart(self) -> None:
        """Have the next operator read all that is there."""
        recorded = self.ledger.inventory.uuid_ownership.record("n2")
        self.ledger = Ledger(clock.Clock(), day=self.time)
        for node in NODES:
            self.ledger.node_seen(node)
        if self.device is not None:
            self.ledger.device_seen(self.device, self.record)
        self.ledger.device_seen(builders.device("n2"), recorded)
        if self.gpupod is not None:
            ledgers.gpupod_seen(self.ledger, self.gpupod)
        ledgers.pod_seen(self.ledger, self.pod)
        self.ledger.all_devices_read()


@random_clusters.PROPERTY
@hypothesis.given(STEPS, st.sampled_from(list(PODS.values())), st.data())
def test_whatever_one_agent_does_another_node_has_its_cards(
    steps: list[Any], pod: raw.Pod, data: st.DataObject
) -> None:
    """Restarts, Devices that go and come, and records that could not be written included."""
    world = World(pod)
    for step in steps:
        world.do(step, writes=data.draw(st.booleans()))

        assert free(world.ledger) == (0, 4)
        assert world.ledger.inventory.uuid_ownership.record("n2").claims == THEIRS
