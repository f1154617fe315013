"""A node whose links no hardware has takes little time from pods, and they go to the other nodes."""

import dataclasses
from typing import Final

import pytest

from berth_crds.vocabulary import Scope
from berth_operator.scheduling import explain, queued_pods, round_limits, search_memory, signatures
from berth_operator.scheduling.devices import allocator, device_view, requests
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.search import Search
from scheduling.placements import RULES
from support import builders, irregular_topologies

BAD, GOOD = "n1", "n2"  # Of equal nodes the first by name is asked first.
# Only long searches place it.
HARD_SHARES: Final = [requests.Gpus(1, core=40, ratio=40)] * 3
HARD: Final = builders.pod_info(request=builders.request(*HARD_SHARES))


def cluster(sort: str) -> Inventory:
    """Return a node with a new topology of this sort, and one where all cards are joined."""
    topologies = (
        irregular_topologies.device(BAD, sort),
        irregular_topologies.device(GOOD, "all joined unevenly"),
    )
    return builders.inventory(builders.node(BAD), builders.node(GOOD), *topologies)


def linked(count: int, *, required: bool) -> queued_pods.PodInfo:
    """Make a pod of so many linked cards."""
    grouping = requests.Grouping(scope=Scope.NVLINK, required=required)
    return builders.pod_info(request=builders.request(count, grouping=grouping))


@pytest.mark.parametrize("required", [True, False], ids=["required", "preferred"])
@pytest.mark.parametrize("sort", irregular_topologies.SORTS)
def test_a_pod_of_linked_cards_is_placed_beside_an_irregular_topology(sort: str, required: bool) -> None:  # noqa: FBT001  a column of the table
    """What one pod is given suffices to ask that node and to go to another."""
    search = Search(cluster(sort))

    for count in range(1, 9):
        pod, effort = linked(count, required=required), Effort(round_limits.STEPS_PER_POD)
        assert search.place(pod.request, pod.demand, policy=RULES, effort=effort) is not None
        assert effort.left > 0


@pytest.mark.parametrize("sort", irregular_topologies.SORTS)
def test_what_stands_in_the_way_of_linked_cards_is_found(sort: str) -> None:
    """Explaining why more cards than a node has joined do not fit keeps within its effort."""
    inventory = cluster(sort)
    inventory.charge(builders.hold("h", GOOD, range(60)))
    pod, effort = linked(40, required=True), explain.effort_outside_rounds(all_nodes=False)

    explanation = explain.explain(Search(inventory), pod, policy=RULES, effort=effort)

    assert explanation.total == 2
    assert effort.left > 0


# ---------------------------------------------------------------- a node that takes all the time


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the nodes whose devices are searched, in order, as the test goes on."""
    nodes, place = list[str](), allocator.allocate_or_explain

    def noted(view: device_view.View, request: requests.DeviceRequest, *, effort: Effort) -> object:
        nodes.append(view.device.node)
        return place(view, request, effort=effort)

    monkeypatch.setattr(allocator, "allocate_or_explain", noted)
    return nodes


def test_a_node_that_takes_all_the_time_is_asked_last(asked: list[str]) -> None:
    """However often it changes meanwhile, it costs a pod one turn, and then another node is asked first."""
    sort = "all joined but for two pairs"
    search = Search(cluster(sort))
    found = []
    for _ in range(4):
        effort = Effort(expired=lambda: asked[-1] == BAD)
        placement = search.place(HARD.request, HARD.demand, policy=RULES, effort=effort)
        found.append(placement and placement.node)
        search.inventory.put_device(irregular_topologies.device(BAD, sort))

    assert found == [None, GOOD, GOOD, GOOD]


@pytest.mark.parametrize("changes", [True, False], ids=["it changes", "it stays"])
def test_a_node_that_alone_has_what_is_preferred_takes_no_more_time(
    asked: list[str],
    changes: bool,  # noqa: FBT001  a column of the table
) -> None:
    """What a pod prefers is sought first; where that takes all the time, the rest has the next turn."""
    sort = "all joined but for two pairs"
    topologies = (irregular_topologies.device(BAD, sort), builders.device(GOOD, 8))
    search = Search(builders.inventory(builders.node(BAD), builders.node(GOOD), *topologies))
    grouping = requests.Grouping(scope=Scope.NVLINK, required=False)
    soft = builders.request(requests.cards(2), *HARD_SHARES, grouping=grouping)
    found = []
    for _ in range(3):
        asked.clear()
        effort = Effort(expired=lambda: BAD in asked)
        placement = search.place(soft, HARD.demand, policy=RULES, effort=effort)
        found.append(placement and placement.node)
        if changes:
            search.inventory.put_device(irregular_topologies.device(BAD, sort))

    # The first turn ended on the second node that was asked; only what takes all of a turn is asked last.
    assert found == [None, None, GOOD]


def test_a_node_that_answers_in_time_is_asked_in_its_turn_again() -> None:
    """It is searched last only until it has answered, which it does where no other node fits."""
    last, signature = search_memory.NodesToSearchLast(), signatures.of(HARD.request, HARD.demand)

    found = []
    for late in (True, False):
        last.note(signature, BAD, undecided=late)
        found.append(list(last.of_any([signature])))

    assert found == [[BAD], []]


def test_a_node_that_takes_all_the_time_takes_it_from_few_signatures(asked: list[str]) -> None:
    """Whoever sends pods of ever new signatures does not pay for it each time, until it answers again."""
    search = Search(cluster("all joined but for two pairs"))
    found, late = [], True
    for cpu in range(search_memory.SLOW_FROM + 2):
        effort = Effort(expired=lambda: late and asked[-1] == BAD)
        placement = search.place(HARD.request, builders.demand(cpu), policy=RULES, effort=effort)
        found.append(placement and placement.node)

    assert found == [*[None] * search_memory.SLOW_FROM, GOOD, GOOD]

    late = False
    alone = dict.fromkeys((GOOD,))
    for cpu in range(100, 103):
        placement = search.place(HARD.request, builders.demand(cpu), policy=RULES, excluded=alone)
        found.append(placement and placement.node)
    placement = search.place(HARD.request, builders.demand(200), policy=RULES)
    assert [*found[-3:], placement and placement.node] == [BAD] * 4


def test_a_slow_node_is_as_good_as_any_for_pods_that_need_no_search() -> None:
    """What makes it slow does not concern them."""
    search = Search(cluster("all joined but for two pairs"))
    for cpu in range(search_memory.SLOW_FROM):
        signature = signatures.of(HARD.request, builders.demand(cpu))
        search._to_search_last.note(signature, BAD, undecided=True)

    placement = search.place(builders.request(1), HARD.demand, policy=RULES)

    assert placement is not None
    assert placement.node == BAD


def test_nodes_that_are_searched_last_are_remembered_within_bounds() -> None:
    """However many nodes and signatures there are."""
    last, count = search_memory.NodesToSearchLast(), search_memory.MOST_SIGNATURES + 9
    asked = [signatures.of(HARD.request, builders.demand(cpu)) for cpu in range(count)]

    for signature in asked:
        for at in range(search_memory.MOST_TO_SEARCH_LAST + 1):
            last.note(signature, f"n{at}", undecided=True)

    for at in range(search_memory.MOST_TO_SEARCH_LAST + 1):
        for _search in range(search_memory.SLOW_FROM):
            last.note(asked[1], f"slow-{at}", undecided=True)

    assert len(last.slow()) == search_memory.MOST_TO_SEARCH_LAST
    assert not last.of_any([asked[0]])
    assert last.of_any([asked[-1]]) == {f"n{at}" for at in range(1, search_memory.MOST_TO_SEARCH_LAST + 1)}


def test_a_search_that_lost_its_time_is_made_again() -> None:
    """A process that was paused amid the search has learnt nothing of its node, which need not change."""
    topology = irregular_topologies.device(BAD, "all joined unevenly")
    search = Search(builders.inventory(builders.node(BAD), topology))

    found = [tried(search, over=over) for over in (True, True, True, False)]

    assert found == [None, None, None, BAD]


def test_a_search_that_has_lost_its_time_too_often_waits_for_a_change() -> None:
    """One that takes all the time of its pods takes it from few of them."""
    topology = irregular_topologies.device(BAD, "all joined unevenly")
    search = Search(builders.inventory(builders.node(BAD), topology))

    found = [tried(search, over=True) for _ in range(search_memory.MOST_RETRIES + 1)]
    found.append(tried(search, over=False))
    search.inventory.put_device(dataclasses.replace(topology, cards=topology.cards[1:]))
    found.append(tried(search, over=False))

    assert found == [None] * (search_memory.MOST_RETRIES + 2) + [BAD]


def test_a_node_that_others_claim_is_not_searched_again() -> None:
    """Pods before this one have a right to it."""
    topology = irregular_topologies.device(BAD, "all joined unevenly")
    search = Search(builders.inventory(builders.node(BAD), topology))
    tried(search, over=True)

    assert tried(search, over=False, excluded=(BAD,)) is None
    assert tried(search, over=False) == BAD


def tried(search: Search, *, over: bool, excluded: tuple[str, ...] = ()) -> str | None:
    """Search for a place for the hard pod, with no time or all the time, and return its node."""
    effort = Effort(expired=lambda: over)
    found = search.place(HARD.request, HARD.demand, policy=RULES, effort=effort, excluded=excluded)
    return None if found is None else found.node
