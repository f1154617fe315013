"""What one operator decided of a card, the next one decides as well; and no card is ever given twice."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling import uuid_ownership, uuid_records
from support import builders, clock

NODES: Final = ("n1", "n2", "n3")
UUIDS: Final = "xy"


@dataclasses.dataclass(frozen=True, slots=True)
class Publishes:
    """A node publishes these cards, and no others."""

    node: str
    uuids: str


@dataclasses.dataclass(frozen=True, slots=True)
class Goes:
    """The Device of a node is deleted."""

    node: str


@dataclasses.dataclass(frozen=True, slots=True)
class Gets:
    """A pod is bound to a node for a card, if that is given out there; else none."""

    node: str
    uuid: str


@dataclasses.dataclass(frozen=True, slots=True)
class Ends:
    """The pods of a node end that hold a card."""

    node: str
    uuid: str


@dataclasses.dataclass(frozen=True, slots=True)
class Waits:
    """More than a day passes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Restarts:
    """The next operator takes over; meanwhile these nodes have come to publish other cards."""

    meanwhile: tuple[Publishes, ...] = ()


class World:
    """Devices, their status and the pods as the API has them, and an operator that decides by it."""

    def __init__(self) -> None:
        self.time = clock.Clock()
        self.devices: dict[str, str] = {}
        self.records: dict[str, uuid_records.Record] = {}
        self.held: dict[str, set[str]] = {node: set() for node in NODES}
        self.claims = self._operator(NODES)

    def _operator(self, order: Sequence[str]) -> uuid_ownership.UuidOwnership:
        made = uuid_ownership.UuidOwnership(self.time, lambda node: self.held[node])
        for node in order:
            if node in self.devices:
                made.publish(
                    self._device(node), self.records.get(node, uuid_records.NOTHING), self.held[node]
                )
            else:
                made.hold(node, frozenset(self.held[node]))
        made.ordered = True
        return made

    def _device(self, node: str) -> Any:
        cards = [builders.card(at) for at in range(len(self.devices[node]))]
        named = zip(cards, self.devices[node], strict=True)
        return builders.device(node, [dataclasses.replace(card, uuid=uuid) for card, uuid in named])

    def do(self, step: Any) -> None:
        """Let something happen, and the operator write down what it knows then."""
        match step:
            case Publishes(node, uuids):
                self.devices[node] = uuids
                self.claims.publish(self._device(node), held=self.held[node])
            case Goes(node):
                self.devices.pop(node, None)
                self.records.pop(node, None)
                self.claims.withdraw(node, self.held[node])
            case Gets(node, uuid):
                if self.gives(node, uuid):
                    self.held[node].add(uuid)
            case Ends(node, uuid):
                self.held[node].discard(uuid)
                self.claims.hold(node, frozenset(self.held[node] - set(self.devices.get(node, ""))))
            case Waits():
                self.time.advance(uuid_ownership.REMEMBERED_SECONDS)
            case Restarts(meanwhile):
                self.devices |= {one.node: one.uuids for one in meanwhile}
                self.claims = self._operator(NODES)
        self.write()

    def write(self) -> None:
        """Record in each Device whose its cards are."""
        self.records = {node: self.claims.record(node) for node in self.devices}

    def gives(self, node: str, uuid: str) -> bool:
        """Whether a pod could get a card on a node."""
        return uuid in self.claims.of(node) - self.claims.lost(node)

    def givers(self, uuid: str) -> set[str]:
        """Name the nodes that give a card out."""
        return {node for node in NODES if self.gives(node, uuid)}

    def given(self) -> dict[str, set[str]]:
        """Tell of each card where it is given out."""
        return {uuid: self.givers(uuid) for uuid in UUIDS}


def P(node: str, uuids: str) -> Publishes:  # noqa: N802  it stands for the class in tables
    """Shorten a table."""
    return Publishes(node, uuids)


MINE: Final = (P("n1", "x"),)
STOLEN: Final = (*MINE, Goes("n1"), P("n2", "x"))
MOVED: Final = (*MINE, P("n1", ""), P("n2", "x"))
UNSEEN: Final = (Restarts((P("n1", "x"), P("n2", "x"))),)
# Steps, and who gives the card out then; the same is true with a new operator between any two of them.
CASES: Final[dict[str, tuple[tuple[Any, ...], str]]] = {
    "the first who publishes it has it": (MINE, "n1"),
    "who publishes what is another's has nothing": ((*MINE, P("n2", "x")), "n1"),
    "who is late does not inherit": ((*MINE, P("n2", "x"), P("n1", "")), ""),
    "not even when the Device goes": ((*MINE, P("n2", "x"), Goes("n1")), ""),
    "one who comes then has it before": ((*MINE, P("n2", "x"), Goes("n1"), P("n3", "x")), "n3"),
    "a card may move": (MOVED, "n2"),
    "its origin comes back for it": ((*MOVED, P("n1", "x")), "n1"),
    "a node installed anew has its cards again": ((*STOLEN, P("n1", "x")), "n1"),
    "also after the taker has withdrawn them": ((*STOLEN, P("n1", "x"), P("n2", "")), "n1"),
    "and for good": ((*STOLEN, P("n1", "x"), P("n2", ""), P("n2", "x")), "n1"),
    "but not after more than a day": ((*MOVED, Waits(), P("n1", "x")), "n2"),
    "nor while pods hold it": ((*MOVED, Gets("n2", "x"), P("n1", "x")), "n2"),
    "but when they end": ((*MOVED, Gets("n2", "x"), P("n1", "x"), Ends("n2", "x")), "n1"),
    "however long that takes": ((*MOVED, Gets("n2", "x"), P("n1", "x"), Waits(), Ends("n2", "x")), "n1"),
    "a card that pods hold is given nowhere else": ((*MINE, Gets("n1", "x"), P("n1", ""), P("n2", "x")), ""),
    "when they end it is the heir's": (
        (*MINE, Gets("n1", "x"), P("n1", ""), P("n2", "x"), Ends("n1", "x")),
        "n2",
    ),
    "unless it was late": ((*MINE, Gets("n1", "x"), P("n2", "x"), P("n1", ""), Ends("n1", "x")), ""),
    "nobody has what nobody saw come": (UNSEEN, ""),
    "until one of two withdraws it": ((*UNSEEN, P("n2", "")), "n1"),
    "and is back": ((*UNSEEN, P("n2", ""), P("n2", "x")), ""),
    "whichever of them": ((*UNSEEN, P("n1", "")), "n2"),
    "a third one has nothing of it": ((*UNSEEN, P("n3", "x"), P("n2", "")), "n1"),
    "who was there before is not deceived by a copy": (
        (*MINE, Restarts((P("n2", "x"),)), P("n2", ""), P("n2", "x")),
        "n1",
    ),
}


@pytest.mark.parametrize("restarts", [False, True], ids=["one operator", "a new operator after each step"])
@pytest.mark.parametrize("case", CASES)
def test_whose_a_card_is(case: str, *, restarts: bool) -> None:
    """The table of cases, each also with restarts."""
    steps, keeper = CASES[case]
    world = World()

    for step in steps:
        world.do(step)
        if restarts and not isinstance(
            step, Goes
        ):  # Of what no Device tells the next operator knows nothing.
            world.do(Restarts())

    assert world.givers("x") == ({keeper} if keeper else set())


NODE, UUID = st.sampled_from(NODES), st.sampled_from(UUIDS)
PUBLISHES = st.builds(Publishes, NODE, st.sampled_from(["", "x", "y", "xy"]))
STEPS = st.lists(
    PUBLISHES
    | PUBLISHES
    | st.builds(Goes, NODE)
    | st.builds(Gets, NODE, UUID)
    | st.builds(Ends, NODE, UUID)
    | st.builds(Waits)
    | st.builds(Restarts, st.lists(PUBLISHES, max_size=2).map(tuple)),
    max_size=14,
)


@hypothesis.given(STEPS, st.data())
def test_no_card_is_given_while_pods_elsewhere_hold_it(steps: list[Any], data: st.DataObject) -> None:
    """Whatever happens, and whichever writes of the status are lost before an operator ends."""
    world = World()
    for step in steps:
        before = dict(world.records)
        world.do(step)
        lost = data.draw(st.sets(NODE)) if not isinstance(step, Goes) else set()
        world.records |= {node: one for node, one in before.items() if node in lost}

        for uuid in UUIDS:
            holders = {node for node in NODES if uuid in world.held[node]}
            assert len(holders) <= 1
            assert len(givers := world.givers(uuid)) <= 1
            assert not holders or givers <= holders


@hypothesis.given(STEPS)
def test_the_next_operator_decides_the_same(steps: list[Any]) -> None:
    """As long as the Devices stand in which it is recorded, and not more than two nodes quarrel."""
    world = World()
    for step in steps:
        if isinstance(step, Goes):
            continue
        world.do(step)
        before = world.given()

        world.do(Restarts())

        assert world.given() == before
