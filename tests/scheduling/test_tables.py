"""The inventory's rows, slots and columns come and go with the cluster, and keep nothing that is not so."""

from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest

from berth_operator.scheduling import node_table
from berth_operator.scheduling.constraints import resources
from berth_operator.scheduling.devices import facts as devices
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import MOST_NAMED, Inventory
from berth_operator.scheduling.nodes import facts
from support import builders, inventories, worlds


def room(inventory: Inventory, demand: facts.Demand) -> list[bool]:
    """Return which rows have the resources left."""
    found: list[bool] = resources.room(inventory, np.arange(inventory.size), demand).tolist()
    return found


def places(inventory: Inventory, where: facts.Where) -> list[bool]:
    """Return which rows a pod may be placed on."""
    found: list[bool] = (inventory.places(where).code == 0).tolist()
    return found


MANY = [f"n{number:02}" for number in range(40)]


def test_node_is_known_by_its_node_object_alone() -> None:
    """A Device or a bound pod makes a row, but no pod goes where there is no Node."""
    inventory = builders.inventory(builders.device("n1"), builders.hold("a", "n2"))

    found = {info.name: bool(inventory.table.known[inventory.index[info.name]]) for info in inventory.each()}

    assert found == {"n1": False, "n2": False}


@pytest.mark.parametrize(
    "leave",
    [
        pytest.param(["node", "device", "hold"], id="the hold last"),
        pytest.param(["hold", "device", "node"], id="the node last"),
        pytest.param(["hold", "node", "device"], id="the device last"),
    ],
)
def test_row_lives_as_long_as_anything_names_it(leave: list[str]) -> None:
    """A node is forgotten with the last thing that names it, and not earlier."""
    inventory = builders.inventory(*builders.nodes(1), builders.hold("a", shares=(0,)))
    steps: dict[str, Callable[[], object]] = {
        "node": lambda: inventory.drop_node("n1"),
        "device": lambda: inventory.drop_device("n1"),
        "hold": lambda: inventory.release("uid-a"),
    }

    seen = []
    for what in leave:
        steps[what]()
        seen.append(inventory.node("n1") is not None)

    assert seen == [True, True, False]
    assert inventories.leftovers(inventory) == []


def test_dropping_what_is_not_there_changes_nothing() -> None:
    """News of the end of something unknown is no news."""
    inventory = builders.inventory(*builders.nodes(1))
    before = inventories.contents(inventory)

    inventory.drop_node("nobody")
    inventory.drop_device("nobody")
    inventory.set_silent("nobody", False)

    assert inventories.contents(inventory) == before


def test_vacant_rows_are_used_again() -> None:
    """Nodes that come and go do not make the tables grow, and inherit nothing."""
    inventory = builders.inventory(*builders.nodes(2))
    inventory.charge(builders.hold("a", "n1", (0,), amounts=(("cpu", 8000),)))
    inventory.release("uid-a")
    inventory.drop_node("n1")
    inventory.drop_device("n1")

    inventory.put_node(builders.node("n9", cpu=1000))

    assert inventory.size == 2
    assert (
        inventories.contents(inventory)["n9"]
        == inventories.contents(builders.inventory(builders.node("n9", cpu=1000)))["n9"]
    )


def test_tables_grow_with_the_cluster() -> None:
    """Many nodes with many cards keep all that they had when the tables were small."""
    first = builders.inventory(*builders.nodes(1), builders.hold("a", shares=(0,), amounts=(("cpu", 500),)))
    before = inventories.contents(first)["n1"]

    for number in range(2, 100):
        first.put_node(builders.node(f"n{number}"))
        first.put_device(builders.device(f"n{number}", number % 20))
        first.set_silent(f"n{number}", False)

    assert inventories.contents(first)["n1"] == before
    found = inventories.contents(first)
    assert [found[f"n{number}"]["free cards"] for number in range(2, 100)] == [n % 20 for n in range(2, 100)]


def test_foreign_resources_get_columns_of_their_own() -> None:
    """A resource that only some nodes advertise is asked of those, and used up on them."""
    licences = builders.node("n2", extra={"example.com/licence": 2})
    inventory = builders.inventory(builders.node("n1"), licences)
    one, two = (builders.demand(extra={"example.com/licence": count}) for count in (1, 2))

    fresh = [room(inventory, one), room(inventory, two)]
    inventory.charge(builders.hold("a", "n2", amounts=(("example.com/licence", 1),)))
    used = [room(inventory, one), room(inventory, two)]

    assert fresh == [[False, True], [False, True]]
    assert used == [[False, True], [False, False]]


def test_nodes_that_name_resources_without_end_fill_no_memory() -> None:
    """After a thousand names new ones are nobody's, and what was known before stays."""
    inventory = builders.inventory(builders.node(extra={"example.com/licence": 3}))

    for turn in range(2, 32):
        inventory.put_node(
            builders.node(f"n{turn}", extra={f"example.com/{turn}-{at}": 1 for at in range(50)})
        )

    assert len(inventory.table.resources) == node_table.MOST_RESOURCES
    assert room(inventory, builders.demand(extra={"example.com/licence": 3})) == [True, *[False] * 30]
    assert not any(room(inventory, builders.demand(extra={"example.com/31-49": 1})))


def test_resources_that_a_node_has_no_more_leave_their_columns() -> None:
    """A node that names others at each write takes no more room than once, and gives what it names now."""
    inventory = builders.inventory(builders.node(extra={"example.com/licence": 3}))

    for turn in range(30):
        inventory.put_node(builders.node("n2", extra={f"example.com/{turn}-{at}": 1 for at in range(50)}))

    assert len(inventory.table.resources) == len(node_table.BASE) + 1 + 50
    assert room(inventory, builders.demand(extra={"example.com/licence": 3})) == [True, False]
    assert room(inventory, builders.demand(extra={"example.com/29-49": 1})) == [False, True]
    assert room(inventory, builders.demand(extra={"example.com/28-49": 1})) == [False, False]


def test_resource_unknown_to_all_nodes_has_no_room() -> None:
    """What no node advertises, no node has."""
    inventory = builders.inventory(*builders.nodes(2))

    found = room(inventory, builders.demand(extra={"example.com/unicorn": 1}))

    assert found == [False, False]


def test_resource_used_before_it_is_advertised_is_remembered() -> None:
    """Pods that were there before the node spoke of a resource still use it up."""
    inventory = builders.inventory(builders.node(), builders.hold("a", amounts=(("example.com/licence", 2),)))

    inventory.put_node(builders.node(extra={"example.com/licence": 3}))

    assert room(inventory, builders.demand(extra={"example.com/licence": 1})) == [True]
    assert room(inventory, builders.demand(extra={"example.com/licence": 2})) == [False]


def test_resource_no_longer_advertised_is_gone() -> None:
    """A node that stops advertising a resource has none of it."""
    inventory = builders.inventory(builders.node(extra={"example.com/licence": 3}))

    inventory.put_node(builders.node())

    assert room(inventory, builders.demand(extra={"example.com/licence": 1})) == [False]


@pytest.mark.parametrize(
    ("advertised", "enough"),
    [
        pytest.param({}, True, id="not advertised: the Device alone judges"),
        pytest.param({worlds.SERVED: 2}, True, id="advertised and enough"),
        pytest.param({worlds.SERVED: 1}, False, id="advertised and too few: the smaller holds"),
    ],
)
def test_served_names_are_asked_where_advertised(advertised: dict[str, int], enough: bool) -> None:  # noqa: FBT001  a column of the table
    """A name that Berth serves is asked of the node only where the node advertises it too."""
    inventory = builders.inventory(
        builders.node(extra=advertised), builders.node("n2", extra={worlds.SERVED: 9})
    )
    demand = facts.Demand(served=((worlds.SERVED, 2),))

    found = room(inventory, demand)

    assert found == [enough, True]


def test_answers_about_places_follow_the_nodes() -> None:
    """A remembered answer about selectors is asked anew when a node changes."""
    inventory = builders.inventory(builders.node())
    where = facts.Where(selector=(("zone", "a"),))
    before = places(inventory, where)

    inventory.put_node(builders.node(labels={"zone": "a"}))
    after = places(inventory, where)
    inventory.put_node(builders.node("n2", labels={"zone": "a"}))

    assert (before, after, places(inventory, where)) == ([False], [True], [True, True])


@pytest.mark.parametrize(
    "newcomer", [builders.device("n2"), builders.hold("a", "n2")], ids=["a Device", "a bound pod"]
)
def test_answers_about_places_cover_nodes_known_by_hearsay(newcomer: devices.Device | Hold) -> None:
    """A node that only a Device or a pod names is covered by every answer from then on, and is no place."""
    inventory = builders.inventory(builders.node())
    before = places(inventory, facts.ANYWHERE)

    if isinstance(newcomer, Hold):
        inventory.charge(newcomer)
    else:
        inventory.put_device(newcomer)

    assert (before, places(inventory, facts.ANYWHERE)) == ([True], [True, False])


def test_answers_about_places_are_not_hoarded() -> None:
    """Pods with a thousand different wishes do not fill the memory."""
    inventory = builders.inventory(builders.node())

    with mock.patch("berth_operator.scheduling.place_memory.MOST_PLACES", 4):
        for number in range(20):
            inventory.places(facts.Where(selector=(("zone", str(number)),)))

    assert len(inventory._places._answers) <= 4


def test_inventory_tells_its_state() -> None:
    """A person at a debugger reads how much there is."""
    inventory = builders.inventory(*builders.nodes(2), builders.hold("a"))

    assert repr(inventory) == "<Inventory: 2 nodes, 1 holds>"


def test_rank_follows_names_through_growth() -> None:
    """The order of names is right however nodes came, went and took the place of others."""
    inventory = Inventory()
    for name in reversed(MANY):
        inventory.put_node(builders.node(name))
        inventory.rank()
    for name in MANY[::3]:
        inventory.drop_node(name)
        inventory.rank()
    for name in ("a-first", "z-last"):
        inventory.put_node(builders.node(name))

    ranks = inventory.rank()
    found = sorted((info.name for info in inventory.each()), key=lambda name: ranks[inventory.index[name]])

    assert found == ["a-first", *(name for at, name in enumerate(MANY) if at % 3), "z-last"]


def test_long_answers_about_places_are_weighed() -> None:
    """A few pods with long affinities do not fill the memory either."""
    inventory = builders.inventory(builders.node())
    values = tuple(f"v{at}" for at in range(1000))

    with mock.patch("berth_operator.scheduling.place_memory.MOST_PLACES_BYTES", 300_000):
        for number in range(20):
            one = facts.LabelExpression(f"l{number}", "In", values)
            inventory.places(facts.Where(affinity=(facts.Term((one,)),)))

    assert len(inventory._places._answers) <= 3


def test_named_cards_follow_the_devices() -> None:
    """Which cards a list names is remembered until a Device changes, and of few lists only."""
    inventory = builders.inventory(*builders.nodes(2, cards=2))
    uuids = frozenset({"GPU-n2-1", "GPU-n3-0"})
    before = inventory.named(uuids).copy()

    inventory.put_device(builders.device("n3", 1))
    after = inventory.named(uuids)
    for at in range(3 * MOST_NAMED):
        inventory.named(frozenset({f"GPU-{at}"}))

    assert np.argwhere(before).tolist() == [[inventory.index["n2"], 1]]
    assert np.argwhere(after).tolist() == [[inventory.index["n2"], 1], [inventory.index["n3"], 0]]
    assert len(inventory._named) <= MOST_NAMED


def test_resources_that_no_node_has_take_no_column() -> None:
    """Pods on a node may ask for whatever they like: tables have columns for what nodes have."""
    inventory = builders.inventory(builders.node())
    wide = inventory.table.left.shape

    for at in range(100):
        inventory.charge(builders.hold(f"h{at}", amounts=((f"example.com/r{at}", 1), (facts.CPU, 1))))
    for at in range(100):
        inventory.release(f"uid-h{at}")

    assert inventory.table.left.shape == wide
    assert inventory.infos[0] is not None and not inventory.infos[0].amounts
