"""Whatever an agent says of its links, one decision about its node takes little work, and one reason too.

Work is counted, not timed: as steps, and as calls of functions.
"""

import gc
import itertools
import random
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import pytest

from berth_crds.vocabulary import Scope
from berth_operator.scheduling import search
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import (
    allocator,
    device_view,
    equivalence,
    facts,
    finder,
    node_topology,
    nvlink_cliques,
    requests,
    topology,
)
from berth_operator.translate import devices
from scheduling.devices import build
from support import odd_boards

# Calls of functions, Python's own included: some milliseconds.
MOST_CALLS: Final = 60_000
MANNERS: Final = {
    "no scope": requests.Grouping(),
    "NVLink required": requests.Grouping(scope=Scope.NVLINK),
    "NVLink preferred": requests.Grouping(scope=Scope.NVLINK, required=False),
    "one switch required": requests.Grouping(scope=Scope.PCIE),
    "one socket preferred": requests.Grouping(scope=Scope.NUMA, required=False),
}


def calls(work: Callable[[], object]) -> int:
    """Count the calls that some work takes; far beyond what is allowed, it is broken off."""
    count = 0

    def called(_frame: FrameType, event: str, _value: Any) -> None:
        nonlocal count
        count += event in {"call", "c_call"}
        if count > 2 * MOST_CALLS:
            raise AssertionError("far too many calls")

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


_salts = itertools.count(1)


def odd(sort: str) -> facts.Device:
    """Return a node with a board that nobody has seen before."""
    pairs = odd_boards.SORTS[sort]()
    return devices.read(odd_boards.published("n", pairs, salt=next(_salts), size=size_of(sort), places=16))


def size_of(sort: str) -> int:
    """Return how many cards a board has."""
    return 63 if "three" in sort else odd_boards.CARDS


def several(grouping: requests.Grouping) -> requests.Request:
    """Ask for whole cards for two containers, and for more shares than there are cards."""
    asks = (requests.cards(2), requests.cards(3), requests.Gpus(odd_boards.CARDS, core=50))
    named = (requests.ContainerRequest(f"c{at}", (ask,)) for at, ask in enumerate(asks))
    return requests.Request(tuple(named), grouping=grouping)


# ---------------------------------------------------------------- decisions and reasons


@pytest.mark.parametrize("grouping", MANNERS.values(), ids=MANNERS)
@pytest.mark.parametrize("sort", odd_boards.SORTS)
def test_whole_cards_of_an_odd_board_take_little_work(sort: str, grouping: requests.Grouping) -> None:
    """For one to eight cards a decision is made, or a reason found, well within what a node is given."""
    for count in range(1, 9):
        view = build.view(odd(sort), build.held(0, 7, 9))
        asked = build.request(requests.cards(count), grouping=grouping)
        effort = allocator.Effort(search.STEPS_A_NODE)

        def place(view: device_view.View = view, asked: requests.Request = asked) -> None:
            found = allocator.place(view, asked, effort=effort)  # noqa: B023  called at once
            assert not isinstance(found, allocator.Shortfall) or found.reason is not Reason.UNDECIDED

        assert calls(place) < MOST_CALLS
        assert effort.left > 0


@pytest.mark.parametrize("grouping", MANNERS.values(), ids=MANNERS)
@pytest.mark.parametrize("sort", odd_boards.SORTS)
def test_a_search_on_an_odd_board_ends(sort: str, grouping: requests.Grouping) -> None:
    """Where no cards do, the search ends with the effort of a node, however many sets of cards there are."""
    view = build.view(odd(sort))
    effort = allocator.Effort(search.STEPS_A_NODE)

    work = calls(lambda: allocator.place(view, several(grouping), effort=effort))

    assert work < MOST_CALLS
    assert effort.left > -search.STEPS_A_NODE // 2


@pytest.mark.parametrize("sort", odd_boards.SORTS)
def test_equal_questions_cost_equal_steps(sort: str) -> None:
    """What was remembered costs as much as what was not, so that equal inputs end at the same place."""
    view = build.view(odd(sort))
    asked = build.request(requests.cards(4), grouping=MANNERS["NVLink required"])
    efforts = allocator.Effort(), allocator.Effort()

    for effort in efforts:
        allocator.place(view, asked, effort=effort)

    assert efforts[0] == efforts[1]


def test_no_effort_leaves_a_scope_undecided() -> None:
    """Where others have used the effort up, a scope is not called unmet."""
    view = build.view(odd("four rings of sixteen"))
    asked = build.request(requests.cards(4), grouping=MANNERS["NVLink required"])

    found = allocator.place(view, asked, effort=allocator.Effort(5))

    assert build.refused(found).reason is Reason.UNDECIDED


@pytest.mark.parametrize("model", ["Tesla V100-SXM2-16GB", "NVIDIA H100 80GB HBM3", "NVIDIA A40"])
@pytest.mark.parametrize("grouping", MANNERS.values(), ids=MANNERS)
def test_boards_of_eight_cards_cost_nothing(model: str, grouping: requests.Grouping) -> None:
    """To choose among the cards of a usual board takes off no step."""
    view, effort = build.view(build.node(model, table=True)), allocator.Effort()

    for count in range(1, 9):
        asked = build.request(requests.cards(count), grouping=grouping)
        finder.find(view, asked, effort)

    assert effort == allocator.Effort()


# ---------------------------------------------------------------- what is a board


@pytest.mark.parametrize("sort", odd_boards.SORTS)
def test_a_board_is_read_with_little_work(sort: str) -> None:
    """However many rings a graph of links has, the walk over them has an end."""
    published = odd_boards.published("n", odd_boards.SORTS[sort](), size=size_of(sort), salt=next(_salts))

    assert calls(lambda: devices.read(published)) < MOST_CALLS


@pytest.mark.parametrize(
    ("sort", "tangled"),
    [
        pytest.param("groups of three, joined with all others", True, id="complete, but for groups"),
        pytest.param("pairs, joined with all others", True, id="complete, but for pairs"),
        pytest.param("all joined but for twelve pairs", True, id="complete, but for twelve pairs"),
        pytest.param("rings of rings", True, id="rings of rings"),
        pytest.param("all joined unevenly", False, id="behind one switch"),
        pytest.param("eight rings of eight", False, id="behind several switches"),
        pytest.param("a torus", False, id="a torus"),
        pytest.param("no links", False, id="none at all"),
    ],
)
def test_links_that_no_hardware_has_are_left_out(sort: str, tangled: bool) -> None:  # noqa: FBT001  a column of the table
    """Of a board with too many rings only places count; what hardware may have is kept."""
    board = odd(sort).board

    assert board.tangled == tangled
    linked = max(map(max, board.worth)) > node_topology.NVLINK_WORTH
    assert linked == (not tangled and sort != "no links")
    assert board.scope(Scope.NUMA)[0] == 0xFFFF


def test_partitions_can_be_tangled_as_well() -> None:
    """A table of partitions joins cards like links do, and may make as many rings."""
    dice = random.Random(1)
    ways = (node_topology.mask_of(first + dice.randrange(3) for first in range(0, 63, 3)) for _ in range(64))
    board = node_topology.NodeTopology(
        63, ((0,) * 63,) * 63, partitions=tuple(map(node_topology.Partition, ways))
    )

    assert nvlink_cliques.find(board) is None


def test_all_cards_behind_one_switch_are_one_ring() -> None:
    """However uneven its links, a board where all are joined has one group, with every card in it."""
    assert nvlink_cliques.find(odd("all joined unevenly").board) == ((1 << odd_boards.CARDS) - 1,)


# ---------------------------------------------------------------- what is remembered


def test_a_board_is_forgotten_with_its_device() -> None:
    """What was worked out for a board keeps it in memory no longer than a Device has it."""
    made = odd("four rings of sixteen")
    board = weakref.ref(made.board)
    asked = build.request(requests.cards(4), grouping=MANNERS["NVLink required"])
    allocator.place(build.view(made), asked)
    allocator.place(build.view(made), several(MANNERS["no scope"]))
    kind = equivalence.of(build.view(made), asked)

    del made
    gc.collect()

    assert board() is None
    assert kind is not None


def test_equal_boards_are_one() -> None:
    """As long as a Device has a board, others that are wired alike have the same one."""
    pairs = odd_boards.disjoint(8)

    one, other = (devices.read(odd_boards.published("n", pairs)) for _ in range(2))

    assert one.board is other.board


# ---------------------------------------------------------------- the best set, all the same


def test_swaps_have_an_end() -> None:
    """However uneven the links, the search for the best set stops after so many rounds."""
    board = odd("all joined unevenly").board

    found = topology._best(board, (1 << 64) - 1, 30, (1 << 64) - 1, 1)

    assert found is not None
    assert found.steps <= topology.STEPS_A_ROUND * topology.ROUNDS_TOGETHER
    assert found.steps <= topology.price(64, 30)
    assert found.chosen.bit_count() == 30


def test_the_best_of_a_large_set_is_found_by_what_is_left_out() -> None:
    """All but two of sixty-four cards: the two that are joined worst stay."""
    worth = [[0 if a == b else 3 for b in range(64)] for a in range(64)]
    for at in range(64):
        worth[5][at] = worth[at][5] = worth[40][at] = worth[at][40] = 2
    worth[5][5] = worth[40][40] = 0
    board = node_topology.NodeTopology(64, tuple(map(tuple, worth)))

    chosen = topology.best_set(board, (1 << 64) - 1, 62)

    assert chosen == (1 << 64) - 1 & ~(1 << 5 | 1 << 40)


def test_an_order_of_whole_cards_has_its_price() -> None:
    """What the search asks of topology for each state is charged to it."""
    assert topology.price(8, 4) == 0
    assert topology.price(64, 64) == 0
    assert topology.price(64, 8) == topology.STEPS_A_ROUND * topology.ROUNDS_TOGETHER
