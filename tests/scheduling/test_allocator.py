"""The allocator finds the best place if there is one, and never a card that must not be given."""

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds.vocabulary import Strategy
from berth_operator.scheduling import backlog, decisions, inventory, policy
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator
from berth_operator.scheduling.holds import Hold
from scheduling import second_opinion
from support import builders, worlds


def place(
    picture: inventory.Inventory, candidate: backlog.Candidate, strategy: Strategy = Strategy.BINPACK
) -> decisions.Placement | None:
    """Look for a place."""
    return allocator.place(
        picture, candidate.request, candidate.demand, rules=policy.Policy(strategy=strategy)
    )


def minors(placement: decisions.Placement | None) -> list[int] | None:
    """List the minors of a placement."""
    return None if placement is None else [share.minor for share in placement.shares]


def test_lowest_minors_are_taken() -> None:
    """Of equal cards the lowest minors are given, around those that are held."""
    picture = builders.picture(*builders.nodes(1, cards=6), builders.hold("a", minors=(0, 3)))

    found = place(picture, builders.candidate(cards=3))

    assert minors(found) == [1, 2, 4]


def test_whole_card_is_given_whole() -> None:
    """A share of a whole card is all of its core and all of its memory, in bytes (I10)."""
    picture = builders.picture(*builders.nodes(1))

    found = place(picture, builders.candidate())

    assert found is not None
    assert found.shares == (decisions.Share("GPU-n1-0", 0, 100, builders.MEMORY),)


def test_pod_without_cards_needs_no_device() -> None:
    """A pod that asks for no card goes to a node without any, and gets no grant."""
    picture = builders.picture(builders.node("n1"))

    found = place(picture, builders.candidate(cards=0))

    assert found == decisions.Placement("n1", ())


def test_pod_without_cards_may_go_to_a_silent_node() -> None:
    """A silent agent keeps cards back, not the node."""
    picture = builders.picture(*builders.nodes(1), silent=["n1"])

    found = place(picture, builders.candidate(cards=0))

    assert found == decisions.Placement("n1", ())


FORBIDDEN = {
    "unhealthy": builders.device(cards=[builders.card(trouble=Reason.UNHEALTHY)]),
    "cordoned": builders.device(cards=[builders.card(trouble=Reason.CORDONED)]),
    "occupied by a stranger": builders.device(cards=[builders.card(trouble=Reason.OCCUPIED)]),
    "in MIG mode": builders.device(cards=[builders.card(trouble=Reason.MIG_MODE)]),
    "of a failed source": builders.device(cards=1, failed="NVMLDown"),
    "of another model": builders.device(cards=[builders.card(model="Tesla T4")]),
    "not there": builders.device(cards=0),
}


@pytest.mark.parametrize("device", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_card_that_must_not_be_given(device: inventory.Device) -> None:
    """No pod gets such a card (I6)."""
    picture = builders.picture(builders.node(), device)

    found = place(picture, builders.candidate(models=[builders.MODEL]))

    assert found is None


@pytest.mark.parametrize(
    "hold",
    [
        pytest.param(builders.hold("a", minors=(0,)), id="by name"),
        pytest.param(builders.hold("a", withheld=1), id="without a name"),
    ],
)
def test_held_card_is_not_given(hold: Hold) -> None:
    """What somebody holds is not given, whether or not it can be named (I9)."""
    picture = builders.picture(*builders.nodes(1, cards=1), hold)

    found = place(picture, builders.candidate())

    assert found is None


def test_cards_of_an_absent_node_are_not_given() -> None:
    """A Device without its Node takes no pod."""
    picture = builders.picture(builders.device())

    found = place(picture, builders.candidate())

    assert found is None


def test_cards_of_a_silent_agent_are_not_given() -> None:
    """A silent agent's cards take no pod; those of the others do."""
    picture = builders.picture(*builders.nodes(2), silent=["n1"])

    found = place(picture, builders.candidate())

    assert found is not None
    assert found.node == "n2"


def test_withheld_cards_count_against_any_choice_of_model() -> None:
    """A card that nobody can name may be of the very model that is asked for."""
    cards = [builders.card(0, model="Tesla T4"), builders.card(1), builders.card(2)]
    picture = builders.picture(builders.node(), builders.device(cards=cards), builders.hold("a", withheld=1))

    one_of_two = place(picture, builders.candidate(models=[builders.MODEL]))
    the_only = place(picture, builders.candidate(models=["T4"]))

    assert minors(one_of_two) == [1]
    assert the_only is None


@worlds.PROPERTY
@hypothesis.given(world=worlds.worlds(), pod=worlds.candidates(), strategy=st.sampled_from(list(Strategy)))
def test_second_opinion_agrees(world: worlds.World, pod: backlog.Candidate, strategy: Strategy) -> None:
    """Brute force finds the same node and the same cards, or none as well."""
    expected = second_opinion.best(world, pod, strategy)

    found = place(world.paint(), pod, strategy)

    assert (found and (found.node, list(found.shares))) == expected


@worlds.PROPERTY
@hypothesis.given(world=worlds.worlds(), pod=worlds.candidates())
def test_second_opinion_agrees_on_every_node(world: worlds.World, pod: backlog.Candidate) -> None:
    """Not only the best node: each one is found able exactly when brute force finds it so."""
    picture = world.paint()

    mask = allocator.able_nodes(picture, pod.request, pod.demand)

    found = {row.name for row in picture.each() if mask[picture.index[row.name]]}
    assert found == set(second_opinion.able(world, pod))


@worlds.PROPERTY
@hypothesis.given(world=worlds.worlds(), pod=worlds.candidates())
def test_grants_are_what_was_asked(world: worlds.World, pod: backlog.Candidate) -> None:
    """Each container gets exactly as many cards as it asks for, all of one node (I2)."""
    found = place(world.paint(), pod)

    grants = found.grants if found else ()
    asked = [(one.name, one.cards) for one in pod.request.containers]
    assert [(grant.container, len(grant.shares)) for grant in grants] == (asked if found else [])
    assert {share.uuid.rsplit("-", 1)[0] for grant in grants for share in grant.shares} <= {
        f"GPU-{found and found.node}"
    }
