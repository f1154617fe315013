"""Core that a policy oversells: to pods of named PriorityClasses that ask for a part of a card, no further.

A pod of another class gets a part of a card only within 100 percent of its core, all pods counted.
"""

import dataclasses
from collections.abc import Iterable
from typing import Final

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds.vocabulary import Strategy
from berth_operator.scheduling import (
    cycle,
    decisions,
    node_scores,
    policy_rules,
    queued_pods,
    signatures,
)
from berth_operator.scheduling.decisions import Bind, Count, Reason, Wait
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.policy import Oversale, Policy
from berth_operator.scheduling.search import Search
from scheduling.oversold import BATCH, GIB, OVERSALE, RULES, WHOLE, holder, one_card, part, pod
from support import backlogs, builders, random_clusters


def decide(
    inventory: Inventory, *waiting: queued_pods.PodInfo, policy: Policy = RULES
) -> list[decisions.Decision]:
    """Make one round for these pods, in this order."""
    ordered = [dataclasses.replace(one, priority=-at) for at, one in enumerate(waiting)]
    return cycle.simulate(Search(inventory), backlogs.of(*ordered), 0.0, policy)


def shares(answer: decisions.Decision) -> list[tuple[int, int]]:
    """Return minor and core of what a pod is given; nothing where it has to wait."""
    if not isinstance(answer, Bind):
        return []
    return [(one.minor, one.core) for one in random_clusters.given(answer.placement)]


# ---------------------------------------------------------------- what fits on a card

UNKNOWN: Final = builders.card(memory=0)
FITS: Final[dict[str, tuple[Inventory, queued_pods.PodInfo, bool]]] = {
    "up to the limit": (one_card(holder("a", 90)), pod("p", part(60)), True),
    "a percent above the limit": (one_card(holder("a", 90)), pod("p", part(61)), False),
    "beside pods of its class": (one_card(holder("a", 75, limit=150)), pod("p", part(75)), True),
    "another named class": (one_card(holder("a", 100)), pod("p", part(50), of="spare"), True),
    "a class that is not named": (one_card(holder("a", 90)), pod("p", part(11), of="web"), False),
    "no class": (one_card(holder("a", 90)), pod("p", part(11), of=""), False),
    "no class, within the card": (one_card(holder("a", 90)), pod("p", part(10), of=""), True),
    "no class, where pods of the class count": (
        one_card(holder("a", 90, limit=150)),
        pod("p", part(20), of=""),
        False,
    ),
    "no class, beside more than 100 percent": (
        one_card(holder("a", 140, limit=150)),
        pod("p", part(1), of=""),
        False,
    ),
    "memory alone, beside more than 100 percent": (
        one_card(holder("a", 140, limit=150)),
        pod("p", part(0), of=""),
        True,
    ),
    "memory is never oversold": (one_card(holder("a", 10, 70)), pod("p", part(10, 11)), False),
    "the last of the memory": (one_card(holder("a", 100, 70)), pod("p", part(10, 10)), True),
    "a card without memory left": (
        one_card(holder("a", 100, 80)),
        pod("p", requests.Gpus(1, core=10)),
        False,
    ),
    "a card that a pod has whole": (one_card(builders.hold("a", shares=[0])), pod("p", part(10)), False),
    "a whole card that is shared": (one_card(holder("a", 10)), pod("p", WHOLE), False),
    "a card of unknown memory": (
        one_card(holder("a", 90, 0), card=UNKNOWN),
        pod("p", requests.Gpus(1, core=20)),
        False,
    ),
    "a card of unknown memory, within it": (
        one_card(holder("a", 90, 0), card=UNKNOWN),
        pod("p", requests.Gpus(1, core=10)),
        True,
    ),
    "parts of two cards, of which one is full": (
        builders.inventory(*builders.nodes(1, cards=2), holder("a", 120, limit=150)),
        pod("p", part(40, count=2)),
        False,
    ),
    "parts of two cards": (
        builders.inventory(*builders.nodes(1, cards=2), holder("a", 110, limit=150)),
        pod("p", part(40, count=2)),
        True,
    ),
    "two containers on one card": (one_card(), pod("p", part(75), part(75)), True),
    "two containers that are too much for it": (one_card(), pod("p", part(75), part(76)), False),
    "a whole card and a part of another": (
        builders.inventory(*builders.nodes(1, cards=2), holder("a", 100)),
        pod("p", WHOLE, part(50)),
        True,
    ),
    "a whole card and a part of the same": (one_card(), pod("p", WHOLE, requests.Gpus(1, core=50)), False),
}


@pytest.mark.parametrize(("inventory", "waiting", "fits"), FITS.values(), ids=FITS)
@pytest.mark.parametrize("strategy", Strategy)
def test_what_a_card_may_be_promised(
    inventory: Inventory,
    waiting: queued_pods.PodInfo,
    fits: bool,  # noqa: FBT001  a column of the table
    strategy: Strategy,
) -> None:
    """To a pod of a named class up to the limit, to another up to 100 percent, and of memory all of it."""
    (answer,) = decide(inventory, waiting, policy=Policy(strategy, oversale=OVERSALE))

    assert isinstance(answer, Bind if fits else Wait)


@pytest.mark.parametrize("policy", [Policy(), Policy(oversale=Oversale(100, frozenset({BATCH})))])
def test_nothing_is_oversold_by_itself(policy: Policy) -> None:
    """Neither without a word in the policy nor by a limit of 100 percent."""
    (answer,) = decide(one_card(holder("a", 90)), pod("p", part(11)), policy=policy)

    assert isinstance(answer, Wait)
    assert answer.counts == (Count(Reason.FULL, "", 1),)


def test_other_devices_are_not_oversold() -> None:
    """What a pod asks of an RDMA device is bandwidth, or a function."""
    device = builders.device(cards=1, others=[builders.nic()])
    held = builders.hold("a", shares=[decisions.Share("rdma-n1-0", 0, 90, 0, "rdma")])
    inventory = builders.inventory(builders.node(), device, held)

    (answer,) = decide(inventory, pod("p", (part(50), requests.OtherDevices("rdma", 1, 20))))

    assert isinstance(answer, Wait)


@pytest.mark.parametrize(
    ("card", "ask"),
    [
        pytest.param(builders.card(replicas=2), requests.Replicas(3), id="replicas"),
        pytest.param(
            builders.card(mig=True, instances=builders.instances("n1", 0, 2)),
            requests.Instances(builders.PROFILE, 3),
            id="MIG instances",
        ),
    ],
)
def test_pieces_are_not_oversold(card: PhysicalDevice, ask: requests.Ask) -> None:
    """There are as many as the node says."""
    (answer,) = decide(one_card(card=card), pod("p", ask))

    assert isinstance(answer, Wait)


def test_a_card_without_memory_left_is_full_for_filters_and_for_the_search() -> None:
    """Neither passes on to the other what a pod that asks for core alone may not have."""
    asked = builders.request(requests.Gpus(1, core=10), grouping=requests.Grouping(core_limit=150))
    inventory, signature = one_card(builders.hold("a", shares=[0])), signatures.of(asked, builders.demand())

    _, feasible = node_scores.scorer_of(signature, RULES).score(inventory, inventory.all_rows)

    assert not feasible.any()
    assert allocator.allocate(builders.view([builders.card()], {0: None}), asked) is None


def test_a_whole_card_is_not_oversold_where_its_node_lists_more_memory_than_it_did() -> None:
    """Such as after ECC was switched off; a part with all the core is told from it by its record."""
    listed = builders.card(memory=16 * GIB)
    before = one_card(builders.hold("a", shares=[builders.share(memory=15 * GIB)]), card=listed)
    beside = one_card(holder("a", 100, 15), card=listed)

    (refused,) = decide(before, pod("p", part(50)))
    (placed,) = decide(beside, pod("p", part(50)))

    assert isinstance(refused, Wait)
    assert shares(placed) == [(0, 50)]


def test_the_limit_is_recorded_with_what_is_given() -> None:
    """So that an audit knows, whatever the policy becomes; and a part with all the core is known as one."""
    inventory = builders.inventory(*builders.nodes(1, cards=4))
    waiting = (
        pod("a", part(50)),
        pod("b", part(50), of=""),
        pod("c", WHOLE),
        pod("d", part(60), part(60)),
        pod("e", part(100), of=""),
    )

    answers = decide(inventory, *waiting)

    given = [random_clusters.given(one.placement) for one in answers if isinstance(one, Bind)]
    assert [[share.core_limit for share in one] for one in given] == [[150], [0], [0], [150], [100]]


# ---------------------------------------------------------------- which card


def two_cards(first: int, second: int) -> Inventory:
    """Return a node with two cards of which so much core is promised."""
    held = holder("a", first, limit=150), holder("b", second, minor=1, limit=150)
    return builders.inventory(*builders.nodes(1, cards=2), *held)


@pytest.mark.parametrize(
    ("strategy", "minor"),
    [
        pytest.param(Strategy.FRAGMENTATION, 1, id="where others lose nothing"),
        pytest.param(Strategy.BINPACK, 1, id="the fuller one"),
        pytest.param(Strategy.SPREAD, 0, id="the emptier one"),
        pytest.param(Strategy.WEIGHTED, 0, id="the one with more left"),
    ],
)
def test_strategies_see_what_is_left_up_to_the_limit(strategy: Strategy, minor: int) -> None:
    """Also between cards of which more than 100 percent are promised."""
    rules = dataclasses.replace(RULES, strategy=strategy)

    (one,) = decide(two_cards(50, 100), pod("p", part(30)), policy=rules)
    (other,) = decide(two_cards(105, 110), pod("p", part(30)), policy=rules)

    assert shares(one) == [(minor, 30)]
    if strategy is not Strategy.FRAGMENTATION:  # To it such cards are alike.
        assert shares(other) == [(minor, 30)]


@pytest.mark.parametrize("strategy", Strategy)
def test_nodes_are_ranked_where_all_cards_are_full(strategy: Strategy) -> None:
    """A node with more left up to the limit is found, whatever the strategy."""
    full = [
        builders.hold(f"h{at}-{part}", f"n{at}", [builders.share(at=f"n{at}", core=core, memory=GIB)])
        for at, cores in ((1, (70, 70)), (2, (70, 50)))
        for part, core in enumerate(cores)
    ]
    inventory = builders.inventory(*builders.nodes(2, cards=1), *full)

    (answer,) = decide(inventory, pod("p", part(30)), policy=dataclasses.replace(RULES, strategy=strategy))

    assert isinstance(answer, Bind)
    assert answer.placement.node == "n2"


# ---------------------------------------------------------------- sums, whatever comes


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A pod that comes, or with an end one that goes; first the policy may change."""

    ask: requests.Gpus
    of: str
    ends: int | None
    limit: int | None


STEPS: Final = st.lists(
    st.builds(
        Step,
        ask=st.one_of(
            st.builds(
                part, st.sampled_from((10, 40, 60, 100)), st.sampled_from((1, 8, 30)), st.integers(1, 2)
            ),
            st.just(WHOLE),
        ),
        of=st.sampled_from((BATCH, BATCH, "web", "")),
        ends=st.none() | st.integers(0, 20),
        limit=st.none() | st.sampled_from((100, 130, 150, 300)),
    ),
    max_size=16,
)


@random_clusters.PROPERTY
@hypothesis.given(steps=STEPS, strategy=st.sampled_from(Strategy))
def test_no_sum_is_above_its_limit(steps: Iterable[Step], strategy: Strategy) -> None:
    """Whatever comes and goes under whatever policy: a pod is placed only where its own limit allows it (I1).

    Core up to the limit of its class, memory up to all of it, and whole cards are shared with nobody.
    """
    inventory = builders.inventory(*builders.nodes(2, cards=2))
    held: dict[str, Hold] = {}
    policy = Policy(strategy)
    for at, step in enumerate(steps):
        if step.limit is not None:
            policy = Policy(strategy, oversale=Oversale(step.limit, frozenset({BATCH})))
        if step.ends is not None and held:
            uid = sorted(held)[step.ends % len(held)]
            inventory.release(uid)
            del held[uid]
        waiting = pod(f"p{at:02}", step.ask, of=step.of)
        (answer,) = decide(inventory, waiting, policy=policy)
        if isinstance(answer, Bind):
            hold = held[waiting.uid] = cycle.hold_for(waiting, answer.placement)
            inventory.charge(hold)
            check(hold, list(held.values()), policy_rules.core_limit(policy, waiting))
        else:
            assert not any_room(waiting, list(held.values()), policy_rules.core_limit(policy, waiting))


def check(hold: Hold, held: list[Hold], limit: int) -> None:
    """Check the cards that a pod has just been given."""
    for share in hold.shares:
        there = [one for each in held for one in each.shares if one.uuid == share.uuid]
        assert sum(one.core for one in there) <= limit
        assert sum(one.memory for one in there) <= builders.MEMORY
        assert len(there) == 1 or builders.MEMORY not in {one.memory for one in there}


def any_room(waiting: queued_pods.PodInfo, held: list[Hold], limit: int) -> bool:
    """Whether a node has room after all, by the sums of its cards."""
    (ask,) = waiting.request.containers[0].asks
    assert isinstance(ask, requests.Gpus)
    return any(
        sum(has_room(builders.uuid(node, minor), ask, held, limit) for minor in (0, 1)) >= ask.count
        for node in ("n1", "n2")
    )


def has_room(uuid: str, ask: requests.Gpus, held: list[Hold], limit: int) -> bool:
    """Whether a card has room for a part, or for all of it."""
    there = [one for each in held for one in each.shares if one.uuid == uuid]
    core, memory = sum(one.core for one in there), sum(one.memory for one in there)
    if ask.is_whole:
        return not there
    return memory + ask.memory <= builders.MEMORY and core + ask.core <= limit


def test_a_pod_without_parts_of_cards_is_left_as_it_is() -> None:
    """No decision for others costs anything more, and remembered scores serve them as before."""
    whole, other = pod("p", WHOLE), pod("q", part(10), of="web")

    assert policy_rules.apply(RULES, whole) is whole
    assert policy_rules.apply(RULES, other) is other
    assert policy_rules.apply(RULES, pod("r", part(10))).request.grouping.core_limit == OVERSALE.core
