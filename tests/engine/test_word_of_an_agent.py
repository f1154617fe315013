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
from berth_operator.scheduling.devices import facts
from support import builders, clock, inventories, ledgers, worlds

MINORS: Final = (0, 1, 2, 3)
THEIRS: Final = frozenset(builders.uuid("n2", minor) for minor in MINORS)
RECORDED: Final = uuid_records.Record(claims=THEIRS)
NODES: Final = (builders.node("n1", extra={names.NVIDIA_GPU: 8}), builders.node("n2"))
ON_N1: Final[dict[str, Any]] = {"gpus": 4, "nodeName": "n1"}
PODS: Final = {
    "a pod that somebody else bound": builders.pod("p", schedulerName="other", phase="Running", **ON_N1),
    "a pod whose record is damaged": builders.pod("p", annotations={names.ALLOCATION: "{"}, **ON_N1),
}
RECORD: Final = builders.written(
    "n1", {"main": {"gpu": [builders.recorded(minor, at="n2") for minor in MINORS]}}
)
BOUND: Final = builders.pod("p", annotations=RECORD, **ON_N1)


def claiming(*minors: int, large: bool = False) -> facts.Device:
    """Return the Device of n1 with a card of its own and these of n2's."""
    cards = [builders.card(9, at="n1"), *(builders.card(minor, at="n2") for minor in minors)]
    return dataclasses.replace(builders.device("n1", cards), large=large, failed="too large" if large else "")


def naming(*minors: int) -> wire.GpuPod:
    """Return what the agent of n1 says of the pod there: that it holds these cards of n2's."""
    found = builders.gpupod(at="n2", main=minors)
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, node="n1"))


def begun(
    claimed: facts.Device | None = None,
    *,
    pod: Any = None,
    known: bool = True,
    day: Callable[[], float] = float,
) -> Ledger:
    """Return a ledger that knows n2, whose cards are recorded as its own, and n1 with a pod there."""
    ledger = Ledger(clock.Clock(), day=day)
    for node in NODES:
        ledger.node_seen(node)
    ledger.device_seen(builders.device("n2"), RECORDED)
    ledger.agent_silent("n2", silent=False)
    ledger.device_seen(claimed or claiming())
    ledger.agent_silent("n1", silent=False)
    if known:
        ledger.all_devices_read()
    if pod is not None:
        ledgers.pod_seen(ledger, pod)
    return ledger


def free(ledger: Ledger, node: str = "n2") -> int:
    """Count the cards that a node can give."""
    return len([one for one in inventories.open_cards(ledger.inventory, node) if one in THEIRS])


@pytest.mark.parametrize("pod", PODS.values(), ids=PODS.keys())
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_a_gpupod_makes_no_doubt_for_the_next_operator(pod: Any, order: tuple[int, ...]) -> None:
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
    assert (free(ledger), free(ledger, "n1")) == (4, 0)


@pytest.mark.parametrize("silent", [False, True], ids=["the agent speaks", "the agent fell silent"])
@pytest.mark.parametrize("pod", PODS.values(), ids=PODS.keys())
def test_a_gpupod_keeps_no_card_from_the_node_that_comes_back_for_it(pod: Any, *, silent: bool) -> None:
    """While n2's Device is away n1 publishes its cards: they are n2's again with its Device."""
    ledger = begun(pod=pod)
    ledgers.gpupod_seen(ledger, naming(*MINORS))
    ledger.device_gone("n2")
    ledger.device_seen(claiming(*MINORS))
    meanwhile = ledgers.holding(ledger)[0]

    ledger.agent_silent("n1", silent=silent)
    ledger.device_seen(builders.device("n2"))
    ledger.agent_silent("n2", silent=False)

    assert meanwhile == [*MINORS]
    assert (free(ledger), free(ledger, "n1")) == (4, 0)


def test_what_a_binding_recorded_is_given_nowhere_else() -> None:
    """The cards were n1's when the pod was bound; n2 has those that no such pod holds, once it is back."""
    ledger = begun()
    ledger.device_gone("n2")
    ledger.device_seen(claiming(*MINORS))
    record = builders.written("n1", {"main": {"gpu": [builders.recorded(0, at="n2")]}})
    ledgers.pod_seen(ledger, builders.pod("p", gpus=1, nodeName="n1", annotations=record))

    ledger.device_seen(builders.device("n2"))
    ledger.agent_silent("n2", silent=False)
    ledger.agent_silent("n1", silent=True)
    bound = free(ledger)
    ledgers.pod_seen(ledger, None, "uid-p")

    assert (bound, free(ledger)) == (3, 4)


def test_a_record_that_becomes_readable_weighs_from_then_on() -> None:
    """It names the very cards that the GpuPod has named before."""
    ledger = begun(pod=PODS["a pod whose record is damaged"])
    ledgers.gpupod_seen(ledger, naming(*MINORS))
    ledger.device_gone("n2")
    ledger.device_seen(claiming(*MINORS))

    ledgers.pod_seen(ledger, BOUND)
    ledger.device_seen(builders.device("n2"))
    ledger.agent_silent("n2", silent=False)

    assert free(ledger) == 0


# ---------------------------------------------------------------- a Device that is too large


def test_a_device_that_is_too_large_disputes_nothing() -> None:
    """Nobody could write down whose its cards are; once it is smaller it has its own again."""
    ledger = begun(claiming(*MINORS, large=True), known=False)
    ledger.all_devices_read()
    (large,) = node_summaries.summarize(ledger.inventory, {"n1"})
    ledger.device_seen(claiming(*MINORS))

    assert (large.free, large.claims, large.disputed, large.reason) == (0, (), (), "too large")
    assert (free(ledger), free(ledger, "n1")) == (4, 0)
    assert ledger.inventory.uuid_ownership.keeper(builders.uuid("n1", 9)) == "n1"


@pytest.mark.parametrize("late", [False, True], ids=["the pod first", "the Device first"])
def test_pods_on_a_node_whose_device_is_too_large_keep_their_cards(*, late: bool) -> None:
    """A record of a bind weighs as it does elsewhere, and nothing is said to be wrong with it."""
    ledger = Ledger(clock.Clock())
    ledger.all_devices_read()
    ledger.device_seen(claiming(*MINORS))
    ledgers.in_turn(
        lambda: ledgers.pod_seen(ledger, BOUND),
        lambda: ledger.device_seen(claiming(*MINORS, large=True)),
        late=late,
    )
    ledger.device_seen(builders.device("n2"))
    ledger.agent_silent("n1", silent=False)
    ledger.agent_silent("n2", silent=False)
    (told,) = node_summaries.summarize(ledger.inventory, {"n1"})
    kept = free(ledger)
    ledgers.pod_seen(ledger, None, "uid-p")

    assert (kept, free(ledger)) == (0, 4)
    assert (told.used, told.reason) == (4, "too large")


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

    def __init__(self, pod: Any) -> None:
        self.pod = pod
        self.device: facts.Device | None = claiming()
        self.said: wire.GpuPod | None = None
        self.record = uuid_records.NOTHING  # In n1's Device.
        self.time = clock.Clock()
        self.ledger = begun(pod=pod, day=self.time)

    def do(self, step: Any, *, writes: bool) -> None:
        """Do what happens next; the operator can write n1's record then, or cannot."""
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
            case _:
                self.act(step)
        if writes and self.device is not None and not self.device.large:
            self.record = self.ledger.inventory.uuid_ownership.record("n1")
        self.ledger.agent_silent("n2", silent=False)

    def act(self, step: Any) -> None:
        """Do what n1's agent does."""
        match step:
            case ("publishes", minors, large):
                self.publish(claiming(*minors, large=large))
            case ("is gone",):
                self.device, self.record = None, uuid_records.NOTHING
                self.ledger.device_gone("n1")
            case ("says", minors):
                self.said = naming(*minors)
                ledgers.gpupod_seen(self.ledger, self.said)
            case ("says nothing",):
                self.said = None
                self.ledger.gpupod_gone("ml/p")
            case ("is silent", silent):
                self.ledger.agent_silent("n1", silent=silent)

    def publish(self, device: facts.Device) -> None:
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
        if self.said is not None:
            ledgers.gpupod_seen(self.ledger, self.said)
        ledgers.pod_seen(self.ledger, self.pod)
        self.ledger.all_devices_read()


@worlds.PROPERTY
@hypothesis.given(STEPS, st.sampled_from(list(PODS.values())), st.data())
def test_whatever_one_agent_does_another_node_has_its_cards(
    steps: list[Any], pod: Any, data: st.DataObject
) -> None:
    """Restarts, Devices that go and come, and records that could not be written included."""
    world = World(pod)
    for step in steps:
        world.do(step, writes=data.draw(st.booleans()))

        assert (free(world.ledger), free(world.ledger, "n1")) == (4, 0)
        assert world.ledger.inventory.uuid_ownership.record("n2").claims == THEIRS
