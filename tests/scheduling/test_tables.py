"""The inventory's rows, slots and columns come and go with the cluster, and keep nothing that is not so."""

from typing import Final
from unittest import mock

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling import node_selection_reasons, node_table
from berth_operator.scheduling.card_masks import MOST_MASKS
from berth_operator.scheduling.devices import conditions, requests
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.node_selection_reasons import MOST_UPDATED
from berth_operator.scheduling.nodes import facts, labels
from support import builders, inventories, random_clusters
from support.inventories import room


def places(inventory: Inventory, node_selection: facts.NodeSelection) -> list[bool]:
    """Return which rows a pod may be placed on."""
    found: list[bool] = (inventory.node_selection_reasons(node_selection).reason_index == 0).tolist()
    return found


def licences(count: int) -> facts.NodeDemand:
    """Ask for so many licences."""
    return builders.demand(extra={random_clusters.LICENCE: count})


POOL_A: Final = (("pool", "a"),)
MANY: Final = [f"n{number:02}" for number in range(40)]


def test_vacant_rows_are_used_again() -> None:
    """Nodes that come and go do not make the tables grow, and inherit nothing."""
    inventory = builders.inventory(*builders.nodes(2))
    inventory.drop_node("n1")
    inventory.drop_device("n1")

    inventory.put_node(builders.node("n9", cpu=1000))

    assert inventory.size == 2
    fresh = builders.inventory(builders.node("n9", cpu=1000))
    assert inventories.contents(inventory)["n9"] == inventories.contents(fresh)["n9"]


def test_nodes_that_name_resources_without_end_fill_no_memory() -> None:
    """After a thousand names new ones are nobody's, and what was known before stays."""
    inventory = builders.inventory(builders.node(extra={random_clusters.LICENCE: 3}))

    for turn in range(2, 32):
        inventory.put_node(
            builders.node(f"n{turn}", extra={f"example.com/{turn}-{at}": 1 for at in range(50)})
        )

    assert len(inventory.table.resources) == node_table.MOST_RESOURCES
    assert room(inventory, licences(3)) == [True, *[False] * 30]
    assert not any(room(inventory, builders.demand(extra={"example.com/31-49": 1})))


def test_resources_that_a_node_has_no_more_leave_their_columns() -> None:
    """A node that names others at each write takes no more room than once, and gives what it names now."""
    inventory = builders.inventory(builders.node(extra={random_clusters.LICENCE: 3}))

    for turn in range(30):
        inventory.put_node(builders.node("n2", extra={f"example.com/{turn}-{at}": 1 for at in range(50)}))

    assert len(inventory.table.resources) == len(node_table.BASE) + 1 + 50
    assert room(inventory, licences(3)) == [True, False]
    now, before = (builders.demand(extra={f"example.com/{turn}-49": 1}) for turn in (29, 28))
    assert [room(inventory, now), room(inventory, before)] == [[False, True], [False, False]]


LICENCES: Final = builders.node("n2", extra={random_clusters.LICENCE: 2})
USED: Final = builders.hold("a", "n2", amounts=((random_clusters.LICENCE, 1),))
SERVED: Final = facts.NodeDemand(device_resources=((random_clusters.SERVED, 2),))
# What an inventory has been told, one after the other; a demand; which nodes have room for it.
ROOM: Final[dict[str, tuple[tuple[facts.Node | Hold, ...], facts.NodeDemand, list[bool]]]] = {
    "a resource that only some nodes advertise": ((builders.node(), LICENCES), licences(2), [False, True]),
    "what is left of it": ((builders.node(), LICENCES, USED), licences(1), [False, True]),
    "and no more": ((builders.node(), LICENCES, USED), licences(2), [False, False]),
    "what pods use that were there before it was advertised": (
        (builders.node(), builders.node("n2"), USED, LICENCES),
        licences(2),
        [False, False],
    ),
    "what is advertised no more": ((LICENCES, builders.node("n2")), licences(1), [False]),
    "what no node advertises": ((builders.node(), builders.node("n2")), licences(1), [False, False]),
    "a name that Berth serves and no node advertises: the Device alone judges": (
        (builders.node(),),
        SERVED,
        [True],
    ),
    "a name that Berth serves, advertised and enough": (
        (builders.node(extra={random_clusters.SERVED: 2}),),
        SERVED,
        [True],
    ),
    "a name that Berth serves, advertised and too few: the smaller holds": (
        (
            builders.node(extra={random_clusters.SERVED: 1}),
            builders.node("n2", extra={random_clusters.SERVED: 9}),
        ),
        SERVED,
        [False, True],
    ),
}


@pytest.mark.parametrize(("known", "demand", "expected"), ROOM.values(), ids=ROOM)
def test_which_nodes_have_room(
    known: tuple[facts.Node | Hold, ...], demand: facts.NodeDemand, expected: list[bool]
) -> None:
    """A resource is asked of the nodes that advertise it, and used up on them."""
    assert room(builders.inventory(*known), demand) == expected


def test_answers_about_places_follow_the_nodes() -> None:
    """A remembered answer about selectors is asked anew when a node changes."""
    inventory = builders.inventory(builders.node())
    node_selection = facts.NodeSelection(selector=(("zone", "a"),))
    before = places(inventory, node_selection)

    inventory.put_node(builders.node(labels={"zone": "a"}))
    after = places(inventory, node_selection)
    inventory.put_node(builders.node("n2", labels={"zone": "a"}))

    assert (before, after, places(inventory, node_selection)) == ([False], [True], [True, True])


def test_answers_about_places_cover_nodes_of_which_only_a_device_is_known() -> None:
    """Such a node is covered by every answer from then on, and is no place."""
    inventory = builders.inventory(builders.node())
    before = places(inventory, facts.ANYWHERE)

    inventory.put_device(builders.device("n2"))

    assert (before, places(inventory, facts.ANYWHERE)) == ([True], [True, False])


def test_pods_on_absent_nodes_void_nothing_that_is_remembered() -> None:
    """Anybody may make pods with any `nodeName`: such a name takes no row, and voids no answer."""
    inventory = builders.inventory(builders.node())
    before = inventory.node_selection_reasons(facts.ANYWHERE)
    remembered = inventory.size, inventory.score_epoch, inventory.table.version

    for at in range(100):
        inventory.charge(builders.hold(f"h{at}", f"absent-{at}"))
    for at in range(50):
        inventory.release(f"uid-h{at}")

    assert (inventory.size, inventory.score_epoch, inventory.table.version) == remembered
    assert inventory.node_selection_reasons(facts.ANYWHERE) is before
    assert [info.name for info in inventory.each()] == [*(f"absent-{at}" for at in range(50, 100)), "n1"]
    assert [inventory.hold(f"uid-h{at}") is None for at in (7, 70)] == [True, False]


def test_what_pods_hold_on_an_absent_node_counts_once_the_node_is_known() -> None:
    """Pods may be read before their Node, and outlive it."""
    hold = builders.hold("h", shares=(0,), amounts=((facts.CPU, 700),), host_ports=(facts.HostPort(80),))
    there = builders.nodes(1)
    inventory, expected = builders.inventory(hold, *there), builders.inventory(*there, hold)

    arrived = inventories.contents(inventory)
    inventory.drop_node("n1")
    inventory.drop_device("n1")

    assert arrived == inventories.contents(expected)
    assert (list(inventory.index), inventories.leftovers(inventory)) == ([], [])
    assert inventory.node("n1") is not None and inventory.hold("uid-h") == hold
    inventory.release("uid-h")
    assert inventory.node("n1") is None


def test_answers_about_places_are_not_hoarded() -> None:
    """Pods with a thousand different wishes do not fill the memory."""
    inventory = builders.inventory(builders.node())

    with mock.patch("berth_operator.scheduling.node_selection_reasons.MOST_SELECTIONS", 4):
        for number in range(20):
            inventory.node_selection_reasons(facts.NodeSelection(selector=(("zone", str(number)),)))

    assert len(inventory._node_selection._known) <= 4


@pytest.mark.parametrize("most", [256, 1, 0], ids=["row by row", "at times", "all at once"])
@random_clusters.PROPERTY
@hypothesis.given(
    changes=st.lists(st.sampled_from(MANY[:4]).flatmap(random_clusters.nodes), max_size=12),
    gone=st.sets(st.integers(0, 11)),
    selections=st.lists(random_clusters.NODE_SELECTIONS, min_size=1, max_size=3),
)
def test_reasons_follow_nodes_that_change(
    most: int, changes: list[facts.Node], gone: set[int], selections: list[facts.NodeSelection]
) -> None:
    """What is remembered says of each node what it says without memory, whatever came and went."""
    inventory = builders.inventory(*(builders.node(name) for name in MANY[:4]))

    with mock.patch("berth_operator.scheduling.node_selection_reasons.MOST_UPDATED", most):
        for at, node in enumerate(changes):
            if at in gone:
                inventory.drop_node(node.name)
            else:
                inventory.put_node(node)
            for node_selection in selections:
                rows = range(inventory.size)
                accepted = [inventory.accepts(row, node_selection) for row in rows]  # None is not remembered.
                nodes = [info.node if info else None for info in inventory.infos]
                found = inventory.node_selection_reasons(node_selection)
                fresh = node_selection_reasons.node_selection_reasons(
                    inventory.infos, node_selection, labels.Labels(nodes)
                )
                assert found.obstacle_counts.tolist() == fresh.obstacle_counts.tolist()
                assert said(found) == said(fresh)
                assert all(
                    one in {None, reason is None} for one, reason in zip(accepted, said(fresh), strict=True)
                )


def said(found: node_selection_reasons.NodeSelectionReasons) -> list[object]:
    """Return the reason of each node."""
    return [(None, *found.reasons)[code] for code in found.reason_index]


def test_changes_of_nodes_fill_no_memory() -> None:
    """Nor do the keys of taints that come and go."""
    inventory = builders.inventory(*builders.nodes(2))
    node_selection = facts.NodeSelection()

    with mock.patch("berth_operator.scheduling.node_selection_reasons.MOST_CHANGES", 10):
        for number in range(600):
            taint = facts.Taint(f"t{number}", "", "NoSchedule")
            inventory.put_node(builders.node("n1", taints=[taint]))
            if number % 3:
                assert len(inventory.node_selection_reasons(node_selection).reasons) <= MOST_UPDATED + 1

    assert len(inventory._node_selection._changed) <= 10


def test_inventory_tells_its_state() -> None:
    """A person at a debugger reads how much there is."""
    inventory = builders.inventory(*builders.nodes(2), builders.hold("a"))

    assert repr(inventory) == "<Inventory: 2 nodes, 1 holds>"


def test_rank_follows_names_through_growth() -> None:
    """The order of names is right however nodes came, went and took the place of others."""
    inventory = Inventory()
    for name in reversed(MANY):
        inventory.put_node(builders.node(name))
        inventory.name_positions()
    for name in MANY[::3]:
        inventory.drop_node(name)
        inventory.name_positions()
    for name in ("a-first", "z-last"):
        inventory.put_node(builders.node(name))

    ranks = inventory.name_positions()
    found = sorted((info.name for info in inventory.each()), key=lambda name: ranks[inventory.index[name]])

    assert found == ["a-first", *(name for at, name in enumerate(MANY) if at % 3), "z-last"]


def test_long_answers_about_places_are_weighed() -> None:
    """A few pods with long affinities do not fill the memory either."""
    inventory = builders.inventory(builders.node())
    values = tuple(f"v{at}" for at in range(1000))

    with mock.patch("berth_operator.scheduling.node_selection_reasons.MOST_SELECTIONS_BYTES", 300_000):
        for number in range(20):
            one = facts.LabelExpression(f"l{number}", "In", values)
            inventory.node_selection_reasons(facts.NodeSelection(affinity=(facts.Term((one,)),)))

    assert len(inventory._node_selection._known) <= 3


def test_named_cards_follow_the_devices() -> None:
    """Which cards a list names is remembered until a Device changes, and of few lists only."""
    inventory = builders.inventory(*builders.nodes(2, cards=2))
    uuids = frozenset({"GPU-n2-1", "GPU-n3-0"})
    before = inventory.named(uuids).copy()

    inventory.put_device(builders.device("n3", 1))
    after = inventory.named(uuids)
    for at in range(3 * MOST_MASKS):
        inventory.named(frozenset({f"GPU-{at}"}))

    assert np.argwhere(before).tolist() == [[inventory.index["n2"], 1]]
    assert np.argwhere(after).tolist() == [[inventory.index["n2"], 1], [inventory.index["n3"], 0]]
    assert len(inventory._card_masks._masks) <= MOST_MASKS


def test_labelled_cards_of_one_changed_node_are_looked_at_anew() -> None:
    """An agent may change its Device all the time: the cards of the other nodes are not asked again."""
    inventory = builders.inventory(*builders.nodes(9, cards=1))
    selectors = (requests.LabelSelector("gpu", (facts.LabelExpression("pool", "In", ("a",)),)),)
    with mock.patch(
        "berth_operator.scheduling.devices.conditions.selected", wraps=conditions.selected
    ) as asked:
        for at, labels_ in (("n3", POOL_A), ("n5", POOL_A), ("n3", ())):
            inventory.put_device(builders.device(at, [builders.card(at=at, labels=labels_)]))
            found = inventory.labelled(selectors)
        inventory.drop_device("n5")
        emptied = inventory.labelled(selectors)

    assert np.argwhere(found).tolist() == [[inventory.index["n5"], 0]]
    assert not emptied.any()
    assert asked.call_count == 4  # First for two kinds of labels, then for those of one node each time.


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
