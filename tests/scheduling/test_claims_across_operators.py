"""What one operator decided of a card, the next one decides as well; and no card is ever given twice."""

from collections.abc import Iterable
from typing import Final

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling import uuid_ownership, uuid_records
from berth_operator.scheduling.devices import device_facts
from support import builders, clock

NODES: Final = ("n1", "n2", "n3")
UUIDS: Final = "xy"


class ApiState:
    """Devices, their status and the pods as the API has them, and an operator that decides by it."""

    def __init__(self, *, nodes_exist: bool = False) -> None:
        self.nodes_exist = nodes_exist
        self.time = clock.Clock()
        self.devices: dict[str, str] = {}
        self.records: dict[str, uuid_records.Record] = {}
        self.held: dict[str, set[str]] = {node: set() for node in NODES}
        self.restart(NODES)

    def restart(self, order: Iterable[str] = NODES) -> None:
        """Have the next operator read all Devices, nodes in this order."""
        self.operator = uuid_ownership.UuidOwnership(
            self.time, lambda node: self.held[node], lambda _: self.nodes_exist
        )
        for node in order:
            if node in self.devices:
                record = self.records.get(node, uuid_records.NOTHING)
                self.operator.publish(self.device(node), record, self.held[node])
            else:
                self.operator.hold(node, frozenset(self.held[node]))
        self.operator.ordered = True

    def device(self, node: str) -> device_facts.Device:
        """Return the Device of a node."""
        cards = (builders.card(at, uuid=uuid) for at, uuid in enumerate(self.devices[node]))
        return builders.device(node, cards)

    def do(self, step: str) -> None:
        """Let something happen, and the operator record in each Device whose its cards are."""
        match step.split():
            case [node, "publishes", *uuids]:
                self.devices[node] = "".join(uuids)
                self.operator.publish(self.device(node), held=self.held[node])
            case [node, "leaves"]:
                self.devices.pop(node, None)
                self.records.pop(node, None)
                self.operator.withdraw(node, self.held[node])
            case [node, "binds", uuid] if self.gives(node, uuid):
                self.held[node].add(uuid)
            case [node, "ends", uuid]:
                self.held[node].discard(uuid)
                self.operator.hold(node, frozenset(self.held[node] - set(self.devices.get(node, ""))))
            case ["waits" | "lingers" | "goes" as how]:
                self.let_pass(how)
            case ["restarts", *published]:
                self.devices |= dict(one.split("=") for one in published)
                self.restart()
        self.records = {node: self.operator.record(node) for node in self.devices}

    def let_pass(self, how: str) -> None:
        """Let a day or some minutes pass, or have the Nodes go."""
        seconds = {"waits": uuid_ownership.REMEMBERED_SECONDS, "lingers": uuid_ownership.MOVING_SECONDS}
        self.time.advance(seconds.get(how, 0.0))
        self.nodes_exist = self.nodes_exist and how != "goes"
        self.operator.settle_moved()

    def gives(self, node: str, uuid: str) -> bool:
        """Whether a pod could get a card on a node."""
        return uuid in self.operator.of(node) - self.operator.lost(node)

    def claimants(self, uuid: str) -> set[str]:
        """Return the nodes that publish a card, or have pods that hold it."""
        return {node for node in NODES if uuid in self.devices.get(node, "") or uuid in self.held[node]}

    def givers(self, uuid: str) -> set[str]:
        """Return the nodes that give a card out."""
        return {node for node in NODES if self.gives(node, uuid)}


MINE: Final = "n1 publishes x"
LATE: Final = f"{MINE}, n2 publishes x"
STOLEN: Final = f"{MINE}, n1 leaves, n2 publishes x"
MOVED: Final = f"{MINE}, n1 publishes, n2 publishes x"
UNSEEN: Final = "restarts n1=x n2=x"
# Steps, and who gives the card out then; the same is true with a new operator between any two of them.
CASES: Final = {
    "the first who publishes it has it": (MINE, "n1"),
    "who publishes what is another's has nothing": (LATE, "n1"),
    "who is late does not inherit": (f"{LATE}, n1 publishes", ""),
    "and the first has it again, however long that takes": (
        f"{LATE}, n1 publishes, waits, n1 publishes x",
        "n1",
    ),
    "not even when the Device goes": (f"{LATE}, n1 leaves", ""),
    "and the first has it again then, too": (f"{LATE}, n1 leaves, waits, n1 publishes x", "n1"),
    "one who comes then has it before": (f"{LATE}, n1 leaves, n3 publishes x", "n3"),
    "also when who was late withdraws it": (f"{LATE}, n1 leaves, n3 publishes x, n2 leaves", "n3"),
    "who was late has what it withdraws and publishes alone": (
        f"{LATE}, n1 leaves, n2 leaves, n2 publishes x",
        "n2",
    ),
    "a card may move": (MOVED, "n2"),
    "its origin comes back for it": (f"{MOVED}, n1 publishes x", "n1"),
    "a node installed anew has its cards again": (f"{STOLEN}, n1 publishes x", "n1"),
    "also after the taker has withdrawn them": (f"{STOLEN}, n1 publishes x, n2 publishes", "n1"),
    "and for good": (f"{STOLEN}, n1 publishes x, n2 publishes, n2 publishes x", "n1"),
    "also before the taker has them again": (f"{STOLEN}, n2 leaves, n1 publishes x, n2 publishes x", "n1"),
    "but not after more than a day": (f"{MOVED}, waits, n1 publishes x", "n2"),
    "nor while pods hold it": (f"{MOVED}, n2 binds x, n1 publishes x", "n2"),
    "but when they end": (f"{MOVED}, n2 binds x, n1 publishes x, n2 ends x", "n1"),
    "however long pods hold it": (f"{MOVED}, n2 binds x, n1 publishes x, waits, n2 ends x", "n1"),
    "a card that pods hold is given nowhere else": (f"{MINE}, n1 binds x, n1 publishes, n2 publishes x", ""),
    "when they end it is the heir's": (f"{MINE}, n1 binds x, n1 publishes, n2 publishes x, n1 ends x", "n2"),
    "unless it was late": (f"{MINE}, n1 binds x, n2 publishes x, n1 publishes, n1 ends x", ""),
    "or the Device that went is back": (
        f"{MINE}, n1 binds x, n1 leaves, n2 publishes x, n1 publishes x, n1 ends x",
        "n1",
    ),
    "a card that a pod without a Device holds is given to nobody": (
        f"{MINE}, n1 binds x, n1 leaves, restarts n2=x",
        "",
    ),
    "nobody has what nobody saw come": (UNSEEN, ""),
    "until one of two withdraws it": (f"{UNSEEN}, n2 publishes", "n1"),
    "and is back": (f"{UNSEEN}, n2 publishes, n2 publishes x", ""),
    "whichever of them": (f"{UNSEEN}, n1 publishes", "n2"),
    "a third one has nothing of it": (f"{UNSEEN}, n3 publishes x, n2 publishes", "n1"),
    "who was there before is not deceived by a copy": (
        f"{MINE}, restarts n2=x, n2 publishes, n2 publishes x",
        "n1",
    ),
}
HEIR: Final = f"{MINE}, n1 binds x, n1 publishes, n2 publishes x, n1 ends x"
AGAIN: Final = f"{LATE}, n1 publishes, n2 publishes, n2 publishes x"
# The same where the Nodes exist.
CASES_WITH_NODES: Final = {
    "a card that its node may have lost for a while is nobody's": (MOVED, ""),
    "until it has surely moved": (f"{MOVED}, lingers", "n2"),
    "or its Node is gone": (f"{MOVED}, goes", "n2"),
    "its node has it again": (f"{MOVED}, n1 publishes x", "n1"),
    "and keeps it": (f"{MOVED}, n1 publishes x, lingers", "n1"),
    "who was late has nothing of publishing it again": (AGAIN, ""),
    "before the time is over": (f"{AGAIN}, lingers", "n2"),
    "nor has the heir of pods": (HEIR, ""),
    "before that": (f"{HEIR}, lingers", "n2"),
    "nor has one of two": (f"{UNSEEN}, n2 publishes", ""),
    "before then": (f"{UNSEEN}, n2 publishes, lingers", "n1"),
}


@pytest.mark.parametrize("order", [(), NODES, NODES[::-1]], ids=["one operator", "restarts", "backwards"])
@pytest.mark.parametrize(
    ("steps", "keeper", "nodes_exist"),
    [(*case, False) for case in CASES.values()] + [(*case, True) for case in CASES_WITH_NODES.values()],
    ids=[*CASES, *CASES_WITH_NODES],
)
def test_whose_a_card_is(steps: str, keeper: str, order: tuple[str, ...], *, nodes_exist: bool) -> None:
    """The table of cases, each also with a new operator after each step, in whichever order it reads."""
    state = ApiState(nodes_exist=nodes_exist)

    for step in steps.split(", "):
        state.do(step)
        if order and "leaves" not in step:  # Of what no Device tells the next operator knows nothing.
            state.restart(order)

    assert state.givers("x") == ({keeper} if keeper else set())


NODE, UUID = st.sampled_from(NODES), st.sampled_from(UUIDS)
CARDS = st.sampled_from(["", "x", "y", "xy"])
PUBLISHES = st.builds("{} publishes {}".format, NODE, CARDS)
STEPS = st.lists(
    PUBLISHES
    | PUBLISHES
    | st.builds("{} leaves".format, NODE)
    | st.builds("{} binds {}".format, NODE, UUID)
    | st.builds("{} ends {}".format, NODE, UUID)
    | st.sampled_from(["waits", "lingers"])
    | st.dictionaries(NODE, CARDS, max_size=2).map(
        lambda published: " ".join(["restarts", *map("=".join, published.items())])
    ),
    max_size=14,
)


@hypothesis.given(STEPS, st.data())
def test_no_card_is_given_while_pods_elsewhere_hold_it(steps: list[str], data: st.DataObject) -> None:
    """Whatever happens, and whichever writes of the status are lost before an operator ends."""
    state = ApiState(nodes_exist=data.draw(st.booleans()))
    for step in steps:
        before = dict(state.records)
        state.do(step)
        lost = data.draw(st.sets(NODE)) if "leaves" not in step else set()
        state.records |= {node: record for node, record in before.items() if node in lost}

        for uuid in UUIDS:
            holders = {node for node in NODES if uuid in state.held[node]}
            givers = state.givers(uuid)
            assert max(len(holders), len(givers)) <= 1
            assert not holders or givers <= holders


@hypothesis.given(STEPS)
def test_the_next_operator_decides_the_same(steps: list[str]) -> None:
    """As long as the Devices stand in which it is recorded, and not more than two nodes quarrel."""
    state = ApiState()
    for step in steps:
        if "leaves" not in step:
            state.do(step)
            if any(len(state.claimants(uuid)) > 2 for uuid in UUIDS):
                return
            before = {uuid: state.givers(uuid) for uuid in UUIDS}

            state.do("restarts")

            assert {uuid: state.givers(uuid) for uuid in UUIDS} == before
