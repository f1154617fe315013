"""Only the present matters: a picture that was kept up to date equals one that was made afresh (I8, I11)."""

from unittest import mock

import hypothesis
from hypothesis import strategies as st

from berth_operator.scheduling import (
    cycle,
    decisions,
    node_table,
    queued_pods,
    workload,
)
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.devices import facts as devices
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from support import inventories, worlds

Step = tuple[str, object]


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """Give one arrival, departure or question."""
    at = draw(st.sampled_from(worlds.NODES))
    kinds: dict[str, st.SearchStrategy[object]] = {
        "put node": worlds.nodes(at),
        "drop node": st.just(at),
        "put device": worlds.devices(at),
        "drop device": st.just(at),
        "hear": st.tuples(st.just(at), st.booleans()),
        "charge": st.integers(0, 5).flatmap(lambda number: worlds.held(f"h{number}")),
        "release": st.integers(0, 5).map(lambda number: f"uid-h{number}"),
        "teach": st.tuples(st.sampled_from(["t1", "t2"]), st.none() | worlds.SAMPLES),
        "ask": worlds.candidates(),
    }
    kind = draw(st.sampled_from(list(kinds)))
    return kind, draw(kinds[kind])


def take(inventory: Inventory, world: worlds.World, step: Step) -> None:
    """Do one step both to the picture and to the truth."""
    match step:
        case (("put node" | "drop node" | "put device" | "drop device" | "hear"), _):
            take_node(inventory, world, step)
        case "charge", Hold() as hold if hold.uid not in world.holds:
            inventory.charge(hold)
            world.holds[hold.uid] = hold
        case "release", str(uid) if uid in world.holds:
            inventory.release(uid)
            del world.holds[uid]
        case "teach", (str(uid), (None | workload.Sample()) as sample):
            inventory.workload.see(uid, sample)
            world.samples.pop(uid, None)
            if sample is not None:
                world.samples[uid] = sample
        case "ask", queued_pods.Candidate() as candidate:
            assert decide(inventory, candidate) == decide(world.paint(), candidate)


def take_node(inventory: Inventory, world: worlds.World, step: Step) -> None:
    """Do a step that is about a node or its cards."""
    match step:
        case "put node", facts.Node() as node:
            inventory.put_node(node)
            world.nodes[node.name] = node
        case "drop node", str(name):
            inventory.drop_node(name)
            world.nodes.pop(name, None)
        case "put device", devices.Device() as device:
            inventory.put_device(device)
            world.devices[device.node] = device
        case "drop device", str(name):
            inventory.drop_device(name)
            world.devices.pop(name, None)
            world.heard.discard(name)
        case "hear", (str(name), bool(heard)) if name in world.devices:
            inventory.set_silent(name, not heard)
            (world.heard.add if heard else world.heard.discard)(name)


def decide(inventory: Inventory, candidate: queued_pods.Candidate) -> list[decisions.Decision]:
    """Ask an inventory about one pod."""
    backlog = Backlog()
    backlog.push(candidate)
    return cycle.decide(Search(inventory), backlog, 0.0, Policy())


@worlds.PROPERTY
@hypothesis.given(story=st.lists(steps(), max_size=30), rows=st.integers(1, 3), slots=st.integers(1, 3))
def test_only_the_present_matters(story: list[Step], rows: int, slots: int) -> None:
    """After any arrivals and departures the picture equals one made afresh of what is true now (I8)."""
    world = worlds.World()
    with mock.patch.multiple(node_table, ROWS=rows, SLOTS=slots):
        inventory = Inventory()

        for step in story:
            take(inventory, world, step)

    assert inventories.contents(inventory) == inventories.contents(world.paint())
    assert inventories.workload(inventory) == inventories.workload(world.paint())
    assert inventories.leftovers(inventory) == []


@worlds.PROPERTY
@hypothesis.given(world=worlds.worlds(), holders=st.lists(worlds.held("x"), max_size=4))
def test_what_if_leaves_no_trace(world: worlds.World, holders: list[Hold]) -> None:
    """Charging and releasing in any number leaves the picture exactly as it was."""
    inventory = world.paint()
    before = inventories.contents(inventory)

    for hold in holders:
        inventory.charge(hold)
        inventory.release(hold.uid)

    assert inventories.contents(inventory) == before


@worlds.PROPERTY
@hypothesis.given(world=worlds.worlds(), order=st.permutations(worlds.NODES), pod=worlds.candidates())
def test_order_of_arrival_decides_nothing(
    world: worlds.World, order: list[str], pod: queued_pods.Candidate
) -> None:
    """Equal clusters give equal decisions, whichever node came first (I11)."""
    one, other = world.paint(), world.paint(order)

    found = decide(other, pod)

    assert found == decide(one, pod)


@worlds.PROPERTY
@hypothesis.given(world=worlds.worlds(), data=st.data())
def test_order_of_arrival_teaches_nothing(world: worlds.World, data: st.DataObject) -> None:
    """Workload and lesson are the same in whatever order nodes and pods came (I8)."""
    one = world.paint()
    world.samples = dict(data.draw(st.permutations(list(world.samples.items()))))

    other = world.paint(data.draw(st.permutations(worlds.NODES)))

    assert inventories.workload(other) == inventories.workload(one)
