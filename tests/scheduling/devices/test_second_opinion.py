"""The allocator against an exhaustive search on tiny nodes, and what must hold for every answer."""

import dataclasses
import random
from collections.abc import Iterable
from typing import TypeVar

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling.decisions import Grant, Share
from berth_operator.scheduling.devices import (
    allocator,
    device_view,
    exclusivity,
    finder,
    packing_problems,
    requests,
    verdicts,
)
from berth_operator.scheduling.devices.search_effort import Effort
from scheduling.devices import brute, merits
from support import random_devices, thorough

T = TypeVar("T")
MOST_WAYS = 10_000
PATIENT = hypothesis.settings(
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.filter_too_much],
)
few = hypothesis.settings(PATIENT, max_examples=thorough.examples(120))
many = hypothesis.settings(PATIENT, max_examples=thorough.examples(250))

Case = tuple[device_view.View, requests.DeviceRequest]
PLAIN = random_devices.nodes(modes="p", most_others=0, least=2)
JOINT_ASKS = st.one_of(
    random_devices.WHOLE, random_devices.SHARES, random_devices.PARTS, random_devices.PARTS
)
CASES: dict[str, st.SearchStrategy[Case]] = {
    "any node and any pod": random_devices.nodes_and_pods(),
    "whole cards, shares and init containers": st.tuples(
        PLAIN, random_devices.pods(random_devices.CARDS_ONLY)
    ),
    "shares of several containers, where the first choice may be a dead end": st.tuples(
        PLAIN, random_devices.pods(random_devices.SHARES | random_devices.RATIOS, most_asks=6)
    ),
    "cards beside which the other devices fit": st.tuples(
        random_devices.nodes(modes="pppps", least=2),
        random_devices.pods(
            JOINT_ASKS, most_asks=3, first=random_devices.CARDS_ONLY, groupings=random_devices.jointly()
        ),
    ),
    "shares of cards whose core is oversold": st.tuples(
        PLAIN,
        random_devices.pods(
            random_devices.SHARES | random_devices.RATIOS | random_devices.WHOLE,
            groupings=random_devices.OVERSOLD,
        ),
    ),
    "instances and replicas": st.tuples(
        random_devices.nodes(modes="mms", most_others=0, least=3),
        random_devices.pods(random_devices.INSTANCES | random_devices.REPLICAS, most_asks=3),
    ),
    "a required scope": st.tuples(
        random_devices.nodes(modes="p", most_others=0, least=3),
        random_devices.pods(
            random_devices.WHOLE | random_devices.SHARES, most_asks=2, groupings=random_devices.close()
        ),
    ),
}


@pytest.mark.parametrize("cases", CASES.values(), ids=CASES)
@many
@hypothesis.given(st.data())
def test_a_pod_is_placed_exactly_where_it_can_be(cases: st.SearchStrategy[Case], data: st.DataObject) -> None:
    """A pod is placed if and only if some way to place it exists."""
    view, request = data.draw(cases)
    hypothesis.assume(random_devices.effort(view, request) <= MOST_WAYS)
    exists = next(brute.ways(view.up_to(request.grouping.core_limit), request), None) is not None
    hypothesis.event(f"possible: {exists}")

    found = allocator.allocate(view, request)

    assert (found is not None) == exists


@many
@hypothesis.given(random_devices.nodes_and_pods(most_asks=3))
def test_every_answer_is_one_of_the_possible_ones(case: Case) -> None:
    """An answer names the right amounts of devices that exist, in bytes of the very card (I2, I10)."""
    view, request = case
    hypothesis.assume(random_devices.effort(view, request) <= MOST_WAYS // 10)

    found = allocator.allocate(view, request)

    if found is not None:
        assert listed(found) in {brute.amounts(request, way) for way in brute.ways(view, request)}


BESIDE_SEVERAL_CARDS: st.SearchStrategy[Case] = st.tuples(
    random_devices.nodes(modes="p", least=4),
    random_devices.pods(
        st.builds(requests.OtherDevices, st.just("rdma"), st.just(1), st.sampled_from((40, 60))),
        most_asks=2,
        first=st.builds(requests.cards, st.sampled_from((2, 3))),
        groupings=random_devices.jointly(),
    ),
)


@many
@hypothesis.given(CASES["cards beside which the other devices fit"] | BESIDE_SEVERAL_CARDS)
def test_a_wish_to_be_joint_costs_a_pod_nothing(case: Case) -> None:
    """A pod gets the cards that it would get without the wish, and is refused no other device for it."""
    view, request = case
    alone, wished = (
        dataclasses.replace(request, grouping=dataclasses.replace(request.grouping, joint=(), joint_wish=one))
        for one in ((), request.grouping.joint)
    )
    found, expected = allocator.allocate(view, wished), allocator.allocate(view, alone)

    assert (found is None) == (expected is None)
    assert of_type("gpu", found) == of_type("gpu", expected)
    for kind in ("rdma", "fpga"):
        given = len(of_type(kind, expected)), len(of_type(kind, found))
        hypothesis.event(f"raised: {given[0] < given[1]}")
        assert given[0] <= given[1]


def of_type(kind: str, found: tuple[Grant, ...] | None) -> list[tuple[str, Share]]:
    """List what each container gets of a type."""
    return [(one.container, share) for one in found or () for share in one.shares if share.type == kind]


@many
@hypothesis.given(
    random_devices.nodes_and_pods(most_asks=6) | CASES["shares of cards whose core is oversold"]
)
def test_no_device_is_promised_above_its_capacity(case: Case) -> None:
    """What others hold and what the pod holds fit together on each device (I1, I2)."""
    view, request = case
    cards = view.device.cards + view.device.others
    pieces = [piece for card in cards for piece in card.instances]
    size = {**{card.uuid: card.memory for card in cards}, **{piece.uuid: piece.memory for piece in pieces}}

    found = allocator.allocate(view, request)

    for share in allocator.peak_shares(found or ()):
        used = view.usage(share.uuid)
        most = request.grouping.core_limit if share.core_limit else requests.WHOLE
        assert used.core + share.core <= most
        assert used.memory + share.memory <= max(size[share.uuid], used.memory)
        assert share.function not in view.functions


@many
@hypothesis.given(random_devices.nodes_and_pods(), st.randoms(use_true_random=False))
def test_the_order_of_lists_does_not_change_the_answer(case: Case, chance: random.Random) -> None:
    """Equal devices and holds give equal answers, in whatever order they are listed (I11)."""
    view, request = case

    shuffled = allocator.allocate_or_explain(shuffle(view, chance), request)

    assert shuffled == allocator.allocate_or_explain(view, request)


@few
@hypothesis.given(PLAIN, random_devices.pods(random_devices.CARDS_ONLY, most_asks=1))
def test_the_short_way_leads_where_the_long_one_does(
    view: device_view.View, request: requests.DeviceRequest
) -> None:
    """What is answered without a search is what the search would have answered."""
    # To whom a single card is enough, a wish to sit close says nothing; only the short way knows that.
    hypothesis.assume(request.grouping.required or request.need.whole_cards or request.grouping.scope is None)

    long_way = finder.search(exclusivity.for_request(view, request), request, Effort())

    assert allocator.allocate(view, request) == long_way


@few
@hypothesis.given(PLAIN, st.lists(st.sampled_from((10, 30, 50, 80)), min_size=2, max_size=3))
def test_the_parts_of_init_containers_are_of_the_card_of_the_main_one(
    view: device_view.View, percents: list[int]
) -> None:
    """Where a kubelet counts parts, it gives those of init containers to the main one, and asks nobody."""
    asks = [(requests.Gpus(1, core=percent, ratio=percent),) for percent in percents]
    *before, main = (requests.ContainerRequest(f"c{at}", ask) for at, ask in enumerate(asks))
    init = (dataclasses.replace(one, runs=False) for one in before)
    found = allocator.allocate(view, requests.DeviceRequest((*init, main)))

    hypothesis.assume(found is not None)
    assert len({share.uuid for grant in found or () for share in grant.shares}) == 1


@few
@hypothesis.given(PLAIN, random_devices.pods(random_devices.CARDS_ONLY, borrows=True, most_asks=3))
def test_init_containers_cost_no_card_that_can_be_borrowed(
    view: device_view.View, request: requests.DeviceRequest
) -> None:
    """A pod holds no more cards than it must, or than its running containers take alone."""
    request = requests.DeviceRequest(request.containers, request.conditions)
    running = requests.DeviceRequest(request.containers[1:], request.conditions)
    found, alone = allocator.allocate(view, request), allocator.allocate(view, running)
    hypothesis.assume(found is not None)

    fewest = min(map(cards_of, brute.ways(view, request)))

    assert len(allocator.peak_shares(found or ())) <= max(fewest, len(allocator.peak_shares(alone or ())))


def cards_of(way: brute.Way) -> int:
    """Count the cards that a way takes."""
    return len({thing.card.uuid for one in way for thing in one.things})


@pytest.mark.slow
@many
@hypothesis.given(
    PLAIN, random_devices.pods(random_devices.CARDS_ONLY, most_asks=3, first=random_devices.WHOLE)
)
def test_the_best_set_of_whole_cards_wins_for_which_the_rest_fits(
    view: device_view.View, request: requests.DeviceRequest
) -> None:
    """No way that takes as few whole cards takes a set that is worth more, or that leaves more."""
    hypothesis.assume(request.grouping.scope is None or request.grouping.required)
    found, count = allocator.allocate(view, request), request.need.whole_cards
    hypothesis.assume(found is not None)
    answer, most = listed(found or ()), len(allocator.peak_shares(found or ()))
    borrows = not all(container.runs for container in request.containers)
    # A pod that borrows prefers fewer cards to better ones, so only what is as frugal compares.
    ways = [way for way in brute.ways(view, request) if not borrows or cards_of(way) <= most]

    chosen = {brute.whole_slots(view, way) for way in ways if brute.amounts(request, way) == answer}

    grades = {
        slots: merits.merit(view, slots)
        for way in ways
        if len(slots := brute.whole_slots(view, way)) == count
    }
    assert max(grades[slots] for slots in chosen) == max(grades.values())


def shuffle(view: device_view.View, chance: random.Random) -> device_view.View:
    """Show the same node with all its lists in another order."""

    def mixed(listed: Iterable[T]) -> tuple[T, ...]:
        elements = list(listed)
        return tuple(chance.sample(elements, len(elements)))

    cards, others = (
        mixed(
            dataclasses.replace(card, instances=mixed(card.instances), functions=mixed(card.functions))
            for card in cards
        )
        for cards in (view.device.cards, view.device.others)
    )
    device = dataclasses.replace(view.device, cards=cards, others=others)
    return view._replace(device=device, used=dict(mixed(view.used.items())))


def listed(found: tuple[Grant, ...]) -> frozenset[tuple[str, str, str, int, int]]:
    """Put an answer as the exhaustive search does."""
    shares = [(grant.container, share) for grant in found for share in grant.shares]
    assert len({(name, share.uuid, share.function) for name, share in shares}) == len(shares)
    return frozenset((name, share.uuid, share.function, share.core, share.memory) for name, share in shares)


@many
@hypothesis.given(random_devices.nodes_and_pods())
def test_devices_that_are_alike_get_the_same_answer(case: Case) -> None:
    """So of sixty-four equal cards one is asked what each container wants, and each card has been counted."""
    view, request = case
    problem = packing_problems.NodeProblem(view, request)

    assert sorted(number for group in problem.alike for number in group) == list(range(len(problem.devices)))
    for group in problem.alike:
        for ask in {ask for one in request.containers for ask in one.asks}:
            judged = {
                verdicts.reason_against(
                    view, problem.devices[number], ask, request.conditions, grouping=request.grouping
                )
                for number in group
            }
            assert len(judged) == 1
