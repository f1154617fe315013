"""Whatever an agent says of its links, one decision about its node takes little work, and one reason too.

Work is counted, not timed: as steps, and as calls of functions.
"""

import gc
import random
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, ParamSpec, TypeVar

import pytest

from berth_crds import link_worths
from berth_crds.vocabulary import Scope
from berth_operator.scheduling import search
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import (
    allocator,
    card_sets,
    device_facts,
    equivalence,
    finder,
    node_topology,
    nvlink_cliques,
    requests,
)
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.translate import devices
from scheduling.placements import refused
from support import irregular_topologies, thorough, topologies
from support.builders import request, view

P = ParamSpec("P")
T = TypeVar("T")
# Calls of functions, Python's own included: some milliseconds.
MOST_CALLS: Final = 60_000
NVLINK: Final = requests.Grouping(scope=Scope.NVLINK)
GROUPINGS: Final = {
    "no scope": requests.Grouping(),
    "NVLink required": NVLINK,
    "NVLink preferred": requests.Grouping(scope=Scope.NVLINK, required=False),
    "one switch required": requests.Grouping(scope=Scope.PCIE),
    "one socket preferred": requests.Grouping(scope=Scope.NUMA, required=False),
}
ALL_CARDS: Final = (1 << irregular_topologies.CARDS) - 1
# For two containers whole cards, and for a third more shares than there are cards.
SEVERAL: Final = (2, 3, requests.Gpus(irregular_topologies.CARDS, core=50))


def calls(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[T, int]:
    """Return what some work gives and how many calls it takes; far beyond what is allowed, break it off."""
    count = 0

    def called(_frame: FrameType, event: str, _value: Any) -> None:
        nonlocal count
        count += event in {"call", "c_call"}
        if count > 2 * MOST_CALLS:
            raise AssertionError("far too many calls")

    sys.setprofile(called)
    try:
        return work(*args, **kwargs), count
    finally:
        sys.setprofile(None)


def device(sort: str) -> device_facts.Device:
    """Return a Device with a topology that nobody has seen before."""
    return irregular_topologies.device("n1", sort, places=16)


# ---------------------------------------------------------------- decisions and reasons


@pytest.mark.parametrize("grouping", GROUPINGS.values(), ids=GROUPINGS)
@pytest.mark.parametrize("sort", irregular_topologies.SORTS)
def test_whole_cards_of_an_irregular_board_take_little_work(sort: str, grouping: requests.Grouping) -> None:
    """For one to eight cards a decision is made, or a reason found, well within what a node is given."""
    for count in range(1, 9) if thorough.FULL else (1, 2, 4, 7, 8):
        given, asked = view(device(sort), dict.fromkeys((0, 7, 9))), request(count, grouping=grouping)
        effort = Effort(search.STEPS_PER_NODE)

        found, work = calls(allocator.allocate_or_explain, given, asked, effort=effort)

        assert not isinstance(found, allocator.Shortfall) or found.reason is not Reason.UNDECIDED
        assert work < MOST_CALLS
        assert effort.left > 0


@pytest.mark.parametrize("grouping", GROUPINGS.values(), ids=GROUPINGS)
@pytest.mark.parametrize("sort", irregular_topologies.SORTS)
def test_a_search_on_an_irregular_board_ends(sort: str, grouping: requests.Grouping) -> None:
    """Where no cards do, the search ends with the effort of a node, however many sets of cards there are."""
    given, effort = view(device(sort)), Effort(search.STEPS_PER_NODE)

    _, work = calls(allocator.allocate_or_explain, given, request(*SEVERAL, grouping=grouping), effort=effort)

    assert work < MOST_CALLS
    assert effort.left > -search.STEPS_PER_NODE // 2


@pytest.mark.parametrize("sort", irregular_topologies.SORTS)
def test_equal_signatures_cost_equal_steps(sort: str) -> None:
    """What was remembered costs as much as what was not, so that equal inputs end at the same place."""
    given, efforts = view(device(sort)), (Effort(), Effort())

    for effort in efforts:
        allocator.allocate_or_explain(given, request(4, grouping=NVLINK), effort=effort)

    assert efforts[0] == efforts[1]


def test_no_effort_leaves_a_scope_undecided() -> None:
    """Where others have used the effort up, a scope is not called unmet."""
    given = view(device("four cliques of sixteen"))

    shortfall = refused(given, request(4, grouping=NVLINK), effort=Effort(5))

    assert shortfall.reason is Reason.UNDECIDED


@pytest.mark.parametrize("shape", ["8xV100-SXM2-16GB", "8xA100-SXM4-80GB", "8xH100-80GB-HBM3"])
@pytest.mark.parametrize("grouping", GROUPINGS.values(), ids=GROUPINGS)
def test_boards_of_eight_cards_cost_nothing(shape: str, grouping: requests.Grouping) -> None:
    """To choose among the cards of a usual topology takes off no step."""
    effort = Effort()

    for count in range(1, 9):
        finder.find(view(topologies.device("n1", shape)), request(count, grouping=grouping), effort)

    assert effort == Effort()


# ---------------------------------------------------------------- what is a topology


@pytest.mark.parametrize("sort", irregular_topologies.SORTS)
def test_a_board_is_read_with_little_work(sort: str) -> None:
    """However many cliques a graph of links has, the walk over them has an end."""
    published = irregular_topologies.published("n1", irregular_topologies.SORTS[sort](), salt=1000)

    _, work = calls(devices.read, published)

    assert work < MOST_CALLS


@pytest.mark.parametrize(
    ("sort", "tangled"),
    [
        pytest.param("groups of three, joined with all others", True, id="complete, but for groups"),
        pytest.param("pairs, joined with all others", True, id="complete, but for pairs"),
        pytest.param("all joined but for twelve pairs", True, id="complete, but for twelve pairs"),
        pytest.param("cliques of cliques", True, id="cliques of cliques"),
        pytest.param("all joined unevenly", False, id="behind one switch"),
        pytest.param("eight cliques of eight", False, id="behind several switches"),
        pytest.param("a torus", False, id="a torus"),
        pytest.param("no links", False, id="none at all"),
    ],
)
def test_links_that_no_hardware_has_are_left_out(sort: str, tangled: bool) -> None:  # noqa: FBT001  a column of the table
    """Of a topology with too many cliques only places count; what hardware may have is kept."""
    topology = device(sort).topology

    linked = max(map(max, topology.worth)) > link_worths.NVLINK
    assert (topology.tangled, linked) == (tangled, not tangled and sort != "no links")
    assert topology.scope(Scope.NUMA)[0] == 0xFFFF


def test_partitions_can_be_tangled_as_well() -> None:
    """A table of partitions joins cards like links do, and may make as many cliques."""
    rng = random.Random(1)
    masks = (node_topology.mask_of(first + rng.randrange(3) for first in range(0, 63, 3)) for _ in range(64))
    table = tuple(map(node_topology.Partition, masks))
    topology = node_topology.NodeTopology(63, ((0,) * 63,) * 63, partitions=table)

    assert nvlink_cliques.find(topology) is None


def test_all_cards_behind_one_switch_are_one_ring() -> None:
    """However uneven its links, a topology where all are joined has one group, with every card in it."""
    assert nvlink_cliques.find(device("all joined unevenly").topology) == (ALL_CARDS,)


# ---------------------------------------------------------------- what is remembered


def test_a_board_is_forgotten_with_its_device() -> None:
    """What was worked out for a topology keeps it in memory no longer than a Device has it."""
    made, asked = device("four cliques of sixteen"), request(4, grouping=NVLINK)
    topology = weakref.ref(made.topology)
    for each in (asked, request(*SEVERAL)):
        allocator.allocate_or_explain(view(made), each)
    kind = equivalence.class_of(view(made), asked)

    del made
    gc.collect()

    assert topology() is None
    assert kind is not None


def test_equal_boards_are_one() -> None:
    """As long as a Device has a topology, others that are wired alike have the same one."""
    pairs = irregular_topologies.disjoint(8)

    first, second = (devices.read(irregular_topologies.published("n1", pairs)) for _ in range(2))

    assert first.topology is second.topology


# ---------------------------------------------------------------- the best set, all the same


def test_swaps_have_an_end() -> None:
    """However uneven the links, the search for the best set stops after so many rounds."""
    topology = device("all joined unevenly").topology

    found = card_sets._best(topology, ALL_CARDS, 30, ALL_CARDS, 1)

    assert found is not None
    assert found.steps <= min(
        card_sets.STEPS_PER_ROUND_OF_SWAPS * card_sets.ROUNDS_TOGETHER, card_sets.price(64, 30)
    )
    assert found.chosen.bit_count() == 30


def test_the_best_of_a_large_set_is_found_by_what_is_left_out() -> None:
    """All but two of sixty-four cards: the two that are joined worst stay."""
    badly = {5, 40}
    worth = [[0 if a == b else 2 if {a, b} & badly else 3 for b in range(64)] for a in range(64)]
    topology = node_topology.NodeTopology(64, tuple(map(tuple, worth)))

    chosen = card_sets.best_set(topology, ALL_CARDS, 62)

    assert chosen == ALL_CARDS & ~(1 << 5 | 1 << 40)


def test_an_order_of_whole_cards_has_its_price() -> None:
    """What the search asks of topology for each state is charged to it."""
    prices = [card_sets.price(*sizes) for sizes in ((8, 4), (64, 64), (64, 8))]

    assert prices == [0, 0, card_sets.STEPS_PER_ROUND_OF_SWAPS * card_sets.ROUNDS_TOGETHER]
