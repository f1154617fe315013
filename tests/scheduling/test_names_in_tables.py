"""Models, MIG profiles and types have columns while a node has them: names that come and go fill nothing."""

from unittest import mock

from berth_operator.scheduling import node_table
from berth_operator.scheduling.constraints.query import matching_cards
from berth_operator.scheduling.devices import conditions, device_facts, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from support import builders, inventories


def named_device(turn: int, count: int, at: str = "n1") -> device_facts.Device:
    """Make a Device of models, MIG profiles and types that nobody else has, so many of each."""
    cut = tuple(
        device_facts.Instance(f"M-{at}-{one}", f"1g.{turn * count + one}gb", 1) for one in range(count)
    )
    cards = (
        PhysicalDevice(f"C-{at}", 0, "A100", mig=True, instances=cut),
        *(PhysicalDevice(f"C-{at}-{one}", one, f"model {turn} {one}", 1) for one in range(1, count)),
    )
    others = tuple(PhysicalDevice(f"O-{at}-{one}", one, type=f"type-{turn}-{one}") for one in range(count))
    return device_facts.Device(at, cards, others)


def test_names_that_a_node_has_no_more_leave_their_columns() -> None:
    """A Device that is full of new names at each write takes no more room than the first did."""
    others = builders.nodes(2)[2:]
    inventory = builders.inventory(builders.node(), *others)

    widths = set()
    for turn in range(30):
        inventory.put_device(named_device(turn, 20))
        table = inventory.table
        widths.add((table.instances.shape, table.others.shape, table.models.width, len(table.profiles)))

    assert len(widths) == 1
    fresh = builders.inventory(builders.node(), *others, named_device(29, 20))
    inventory.set_agent_not_ready("n1", False)
    assert inventories.contents(inventory)["n1"] == inventories.contents(fresh)["n1"]


def test_many_names_at_once_are_made_room_for_at_once() -> None:
    """A hundred profiles of one Device copy each table once."""
    inventory = builders.inventory(builders.node())

    with mock.patch.object(node_table, "_grown", wraps=node_table._grown) as grown:
        inventory.table.use_kinds(0, profiles=map(str, range(100)), types=())

    assert grown.call_count == len(node_table.INSTANCE_TABLES)


def test_names_of_a_node_without_devices_are_nobodys() -> None:
    """With the Device its models, profiles and types are gone, and the next one has their numbers."""
    inventory = builders.inventory(builders.node(), named_device(0, 5))

    inventory.drop_device("n1")

    names = inventory.table.models, inventory.table.profiles, inventory.table.types
    assert [len(one) for one in names] == [0, 0, 0]
    inventory.put_device(named_device(1, 5))
    assert [one.width for one in names] == [5, 5, 5]


def test_name_that_two_nodes_have_stays_with_the_second() -> None:
    """A node that changes takes nothing from another, which keeps its numbers."""
    inventory = builders.inventory(
        builders.node(), builders.node("n2"), named_device(0, 5), named_device(0, 5, "n2")
    )
    before = inventories.contents(inventory)["n2"]

    for turn in range(1, 4):
        inventory.put_device(named_device(turn, 5))

    assert inventories.contents(inventory)["n2"] == before


def test_profiles_beyond_the_limit_of_all_nodes_are_not_given() -> None:
    """What has no column is not given, nobody else's is touched, and the node can say how many that are."""
    inventory = builders.inventory(builders.node(), builders.node("n2"), named_device(0, 5, "n2"))
    before = inventories.contents(inventory)["n2"]

    inventory.put_device(named_device(1, node_table.MOST_KINDS))

    (info,) = (info for info in inventory.each() if info.name == "n1")
    assert info.uncounted == 10
    assert (len(inventory.table.profiles), len(inventory.table.types)) == (node_table.MOST_KINDS,) * 2
    assert inventories.contents(inventory)["n2"] == before
    inventory.put_device(named_device(2, 5))
    assert info.uncounted == 0


def test_models_are_asked_for_only_while_a_node_has_them() -> None:
    """A pattern is tried on the models that there are now, however many there have been."""
    inventory = builders.inventory(builders.node())
    asked = requests.Conditions(pattern="A1")

    with mock.patch.object(conditions, "model_meets", wraps=conditions.model_meets) as meets:
        for turn in range(20):
            inventory.put_device(named_device(turn, 10))
            matching_cards(inventory, inventory.all_rows, asked)

    assert meets.call_count == 20 * 10
