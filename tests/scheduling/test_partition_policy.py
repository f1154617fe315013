"""Nodes that give whole cards in partitions only: the filter, the search and the advice agree."""

import dataclasses
from typing import Final

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling import changes, decisions, signatures
from berth_operator.scheduling.constraints import partition_policy, registry
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.devices import allocator, device_facts, node_topology, requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts as nodes
from support import builders, thorough, topologies

SWITCHED: Final = topologies.device("n1", "8xH100-SXM5-80GB")
CUBE: Final = topologies.device("n1", "8xV100-SXM2-16GB")  # It has no table, but links.
LOOSE: Final = topologies.device("n1", "4xT4")


def whole(count: int) -> requests.DeviceRequest:
    """Return a request for whole cards."""
    return requests.DeviceRequest((requests.ContainerRequest("main", (requests.cards(count),)),))


def passes(inventory: Inventory, count: int) -> bool:
    """Whether node n1 passes the filters for so many cards."""
    query = Query.for_all_nodes(inventory, signatures.of(whole(count), nodes.NO_DEMAND))
    return bool(registry.feasible(query)[inventory.index["n1"]])


def inventory(device: device_facts.Device, *, honors: bool | None) -> Inventory:
    """Return an inventory of node n1."""
    return builders.inventory(builders.node(honors_partitions=honors), device)


@hypothesis.settings(max_examples=thorough.examples(150))
@hypothesis.given(
    device=st.sampled_from((SWITCHED, CUBE, LOOSE)), held=st.sets(st.integers(0, 7)), count=st.integers(1, 9)
)
def test_the_filter_knows_what_the_search_finds(
    device: device_facts.Device, held: set[int], count: int
) -> None:
    """A node passes exactly if it has a free partition, whatever is held and freed."""
    there = inventory(device, honors=True)
    for minor in sorted(held & set(range(len(device.cards)))):
        card = device.cards[minor]
        share = decisions.Share(card.uuid, minor, 100, card.memory)
        there.charge(builders.hold(f"h{minor}", shares=(share,)))
    info = there.node("n1")
    assert info is not None
    for uid in list(info.holds)[:1]:
        there.release(uid)

    assert passes(there, count) == (allocator.allocate(info.view(), whole(count)) is not None)


WORD: Final[dict[str, tuple[bool | None, bool, bool]]] = {
    "the node": (True, False, True),
    "the Device": (None, True, True),
    "the node takes back what the Device says": (False, True, False),
    "nobody": (None, False, False),
}


@pytest.mark.parametrize(("node", "device", "honored"), WORD.values(), ids=WORD)
def test_who_says_so(node: bool | None, device: bool, honored: bool) -> None:  # noqa: FBT001  columns of the table
    """The Node has the first word, the Device the second; three cards are no partition."""
    there = inventory(dataclasses.replace(SWITCHED, honors_partitions=device), honors=node)

    assert passes(there, 3) is not honored


def test_the_label_may_come_and_go() -> None:
    """With each change of the Node the filter changes, and with its end."""
    there = inventory(SWITCHED, honors=False)
    seen = [passes(there, 3)]
    for honors in (True, False, True):
        there.put_node(builders.node(honors_partitions=honors))
        seen.append(passes(there, 3))

    assert seen == [True, False, True, False]
    assert there.table.honoring == {there.index["n1"]}
    there.drop_node("n1")
    there.drop_device("n1")
    assert there.table.honoring == set()


def test_a_node_that_comes_back_without_the_label_gives_any_cards() -> None:
    """Its Device may outlast it, and nothing of the label may stay."""
    there = inventory(SWITCHED, honors=True)
    assert not passes(there, 3)

    there.drop_node("n1")
    there.put_node(builders.node())

    assert passes(there, 3)


def test_the_largest_partitions_count() -> None:
    """A node of 64 cards gives all of them."""
    cards = tuple(builders.card(minor) for minor in range(64))
    table = (node_topology.Partition((1 << 64) - 1, 1),)
    device = device_facts.Device(
        "n1", cards, topology=node_topology.NodeTopology(64, ((0,) * 64,) * 64, partitions=table)
    )
    there = inventory(device, honors=True)

    assert passes(there, 64)
    assert not passes(there, 8)


def test_the_advice_is_the_other_label() -> None:
    """The change is proposed where the node or its Device honours partitions, and it helps."""
    there = inventory(SWITCHED, honors=True)
    scenario = changes.Scenario(whole(3), nodes.NO_DEMAND, builders.node(honors_partitions=True), SWITCHED)

    ((change,),) = (one.variants for one in partition_policy.remedies(scenario, None))

    assert change.clause() == "n1 had the label berth.dev/partition-policy=prefer"
    there.put_node(change.apply(scenario).node)
    assert passes(there, 3)
    assert not list(partition_policy.remedies(change.apply(scenario), None))
