"""A node whose links are odd takes little time from pods, and they go to the other nodes."""

import dataclasses
import itertools
from typing import Final

import pytest

from berth_crds.vocabulary import Scope
from berth_operator.scheduling import (
    cycle,
    explain,
    questions,
    queued_pods,
    search_memory,
)
from berth_operator.scheduling.devices import allocator, device_view, requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from berth_operator.translate import devices
from support import builders, odd_boards

RULES: Final = Policy()
BAD, GOOD = "n1", "n2"  # Of equal nodes the first by name is asked first.
_salts = itertools.count(1)


def change(inventory: Inventory, sort: str) -> None:
    """Have the bad node publish a board that nobody has seen before."""
    size = 63 if "three" in sort else odd_boards.CARDS
    published = odd_boards.published(BAD, odd_boards.SORTS[sort](), size=size, salt=next(_salts))
    inventory.put_device(devices.read(published))
    inventory.set_silent(BAD, silent=False)


def cluster(sort: str) -> Inventory:
    """Make a node with an odd board, and one where all cards are joined."""
    inventory = builders.inventory(builders.node(BAD), builders.node(GOOD))
    joined = odd_boards.published(GOOD, odd_boards.apart(1, odd_boards.CARDS))
    inventory.put_device(devices.read(joined))
    inventory.set_silent(GOOD, silent=False)
    change(inventory, sort)
    return inventory


def linked(count: int, *, required: bool) -> queued_pods.Candidate:
    """Make a pod of so many linked cards."""
    grouping = requests.Grouping(scope=Scope.NVLINK, required=required)
    return builders.candidate(request=builders.request(count, grouping=grouping))


@pytest.mark.parametrize("required", [True, False], ids=["required", "preferred"])
@pytest.mark.parametrize("sort", odd_boards.SORTS)
def test_a_pod_of_linked_cards_is_placed_beside_an_odd_board(sort: str, required: bool) -> None:  # noqa: FBT001  a column of the table
    """What one pod is given suffices to ask the odd node and to go to another."""
    search = Search(cluster(sort))

    for count in range(1, 9):
        pod, effort = linked(count, required=required), allocator.Effort(cycle.STEPS_A_POD)
        assert search.place(pod.request, pod.demand, policy=RULES, effort=effort) is not None
        assert effort.left > 0


@pytest.mark.parametrize("sort", odd_boards.SORTS)
def test_what_stands_in_the_way_of_linked_cards_is_found(sort: str) -> None:
    """Explaining why more cards than a node has joined do not fit keeps within its effort."""
    inventory = cluster(sort)
    inventory.charge(builders.hold("h", GOOD, range(60)))
    pod, effort = linked(40, required=True), explain.work(whole=False)

    told = explain.explain(Search(inventory), pod, policy=RULES, effort=effort)

    assert told.total == 2
    assert effort.left > 0


# ---------------------------------------------------------------- a node that takes all the time


def hard() -> queued_pods.Candidate:
    """Make a pod that only long searches place."""
    shares = [requests.Gpus(1, core=40, ratio=40)] * 3
    return dataclasses.replace(builders.candidate(), request=builders.request(*shares))


@dataclasses.dataclass
class Clock:
    """Says that the time is over while the bad node is being asked, and not while another is."""

    asked: list[str] = dataclasses.field(default_factory=list)

    def expired(self) -> bool:
        """Return whether the node that is asked now takes all the time."""
        return self.asked[-1:] == [BAD]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return a clock that sees which node is asked."""
    made, place = Clock(), allocator.place

    def placed(view: device_view.View, request: requests.Request, *, effort: allocator.Effort) -> object:
        made.asked.append(view.device.node)
        return place(view, request, effort=effort)

    monkeypatch.setattr(allocator, "place", placed)
    return made


def test_a_node_that_takes_all_the_time_is_asked_last(clock: Clock) -> None:
    """However often it changes meanwhile, it costs a pod one turn, and then another node is asked first."""
    inventory = cluster("all joined but for two pairs")
    search, pod = Search(inventory), hard()

    def place() -> str | None:
        clock.asked.clear()
        change(inventory, "all joined but for two pairs")
        effort = allocator.Effort(expired=clock.expired)
        found = search.place(pod.request, pod.demand, policy=RULES, effort=effort)
        return found.node if found is not None else None

    assert [place() for _ in range(4)] == [None, GOOD, GOOD, GOOD]


def test_a_node_that_answers_in_time_is_asked_in_its_turn_again() -> None:
    """Who was slow once is not so for ever: where no other will do it is asked, and its answer counts."""
    slow, question = search_memory.SlowNodes(), questions.ask(hard().request, hard().demand)

    slow.note(question, BAD, slow=True)
    before = list(slow.of(question))
    slow.note(question, BAD, slow=False)

    assert (before, list(slow.of(question))) == ([BAD], [])


def test_slow_nodes_are_remembered_within_bounds() -> None:
    """However many nodes and questions there are."""
    slow = search_memory.SlowNodes()
    asked = [
        questions.ask(hard().request, builders.demand(cpu)) for cpu in range(search_memory.MOST_HARD + 9)
    ]

    for question in asked:
        for at in range(search_memory.MOST_SLOW + 1):
            slow.note(question, f"n{at}", slow=True)

    assert not slow.of(asked[0])
    assert list(slow.of(asked[-1])) == [f"n{at}" for at in range(1, search_memory.MOST_SLOW + 1)]
