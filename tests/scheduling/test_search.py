"""The search finds the best place if there is one, and never a card that must not be given."""

import dataclasses
from unittest import mock

import pytest

from berth_crds.vocabulary import Scope, Strategy
from berth_operator.scheduling import decisions, questions
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, node_topology, requests
from berth_operator.scheduling.devices import facts as devices
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from scheduling.placements import HALF, TENTH, minors, place
from support import builders, worlds

# ---------------------------------------------------------------- what is given


def test_lowest_minors_are_taken() -> None:
    """Of equal cards the lowest minors are given, around those that are held."""
    inventory = builders.inventory(*builders.nodes(1, cards=6), builders.hold("a", shares=(0, 3)))

    found = place(inventory, builders.candidate(cards=3))

    assert minors(found) == [1, 2, 4]


def test_whole_card_is_given_whole() -> None:
    """A share of a whole card is all of its core and all of its memory, in bytes (I10)."""
    inventory = builders.inventory(*builders.nodes(1))

    found = place(inventory, builders.candidate())

    assert found is not None
    assert worlds.given(found) == (decisions.Share("GPU-n1-0", 0, 100, builders.MEMORY),)


def test_share_is_given_in_bytes() -> None:
    """A share in percent of a card is written in bytes of that very card, rounded up (I10)."""
    card = builders.card(memory=builders.GIB + 1)
    inventory = builders.inventory(builders.node(), builders.device(cards=[card]))

    found = place(inventory, builders.candidate(cards=HALF))

    assert found is not None
    assert worlds.given(found) == (decisions.Share("GPU-n1-0", 0, 50, builders.GIB // 2 + 1),)


@pytest.mark.parametrize("silent", [[], ["n1"]], ids=["no Device", "a silent agent"])
def test_pod_without_cards_asks_no_device(silent: list[str]) -> None:
    """A pod that asks for no card goes where there is none, or none to be had, and gets no grant."""
    known = builders.nodes(1) if silent else (builders.node(),)
    inventory = builders.inventory(*known, silent=silent)

    found = place(inventory, builders.candidate(cards=0))

    assert found == decisions.Placement("n1", ())


def test_equal_nodes_go_by_name() -> None:
    """Between equal nodes the name decides, whichever came first."""
    inventory = builders.inventory(*reversed(builders.nodes(3)))

    found = [place(inventory, builders.candidate(), Policy(strategy)) for strategy in Strategy]

    assert [one and one.node for one in found] == ["n1"] * len(Strategy)


def test_pod_chooses_its_own_strategy() -> None:
    """What a pod says of the strategy goes before the policy."""
    inventory = builders.inventory(*builders.nodes(2), builders.hold("a", "n1", (0,)))
    spread = builders.request(1, grouping=requests.Grouping(strategy=Strategy.SPREAD))
    binpack = Policy(Strategy.BINPACK)

    plain = place(inventory, builders.candidate(), binpack)
    own = place(inventory, builders.candidate(request=spread), binpack)

    assert plain is not None
    assert own is not None
    assert (plain.node, own.node) == ("n1", "n2")


@pytest.mark.parametrize(
    ("numa", "required", "minors_"),
    [
        pytest.param((0, 1, 1), True, [1, 2], id="required and to be had"),
        pytest.param((0, 1, 2), True, None, id="required and not to be had"),
        pytest.param((0, 1, 2), False, [0, 1], id="preferred and not to be had"),
        pytest.param((0, 1, 1), False, [1, 2], id="preferred and to be had"),
    ],
)
def test_scope(numa: tuple[int, ...], required: bool, minors_: list[int] | None) -> None:  # noqa: FBT001  a column of the table
    """A preferred scope is tried as a condition first, and given up where it cannot be had."""
    cards = [builders.card(minor, numa=at) for minor, at in enumerate(numa)]
    groups = tuple(
        node_topology.mask_of(slot for slot, at in enumerate(numa) if at == which)
        for which in sorted(set(numa))
    )
    flat = tuple(tuple(0 for _ in numa) for _ in numa)
    device = dataclasses.replace(
        builders.device(cards=cards),
        board=node_topology.NodeTopology(len(numa), flat, ((Scope.NUMA, groups),)),
    )
    asked = builders.request(2, grouping=requests.Grouping(scope=Scope.NUMA, required=required))

    found = place(builders.inventory(builders.node(), device), builders.candidate(request=asked))

    assert minors(found) == minors_


# ---------------------------------------------------------------- what is never given

FORBIDDEN: dict[str, devices.Device] = {
    "unhealthy": builders.device(cards=[builders.card(trouble=Reason.UNHEALTHY)]),
    "cordoned": builders.device(cards=[builders.card(trouble=Reason.CORDONED)]),
    "occupied by a stranger": builders.device(cards=[builders.card(trouble=Reason.OCCUPIED)]),
    "in MIG mode": builders.device(cards=[builders.card(mig=True)]),
    "in MIG mode and cut": builders.device(
        cards=[builders.card(mig=True, instances=builders.instances("n1", 0, 2))]
    ),
    "shared by replicas": builders.device(cards=[builders.card(replicas=2)]),
    "of a failed source": builders.device(cards=1, failed="NVMLDown"),
    "of another model": builders.device(cards=[builders.card(model="Tesla T4")]),
    "not there": builders.device(cards=0),
}


@pytest.mark.parametrize("ask", [requests.cards(1), TENTH], ids=["a whole card", "a share"])
@pytest.mark.parametrize("device", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_card_that_must_not_be_given(device: devices.Device, ask: requests.Ask) -> None:
    """No pod gets such a card, nor any part of it (I6)."""
    inventory = builders.inventory(builders.node(), device)

    found = place(inventory, builders.candidate(cards=ask, models=[builders.MODEL]))

    assert found is None


@pytest.mark.parametrize(
    "hold",
    [
        pytest.param(builders.hold("a", shares=(0,)), id="by name"),
        pytest.param(builders.hold("a", withheld=1), id="without a name"),
    ],
)
@pytest.mark.parametrize("ask", [requests.cards(1), TENTH], ids=["a whole card", "a share"])
def test_held_card_is_not_given(hold: Hold, ask: requests.Ask) -> None:
    """What somebody holds is not given, whether or not it can be named (I9)."""
    inventory = builders.inventory(*builders.nodes(1, cards=1), hold)

    found = place(inventory, builders.candidate(cards=ask))

    assert found is None


@pytest.mark.parametrize("ask", [requests.cards(1), TENTH], ids=["a whole card", "a share"])
def test_cards_of_an_absent_node_are_not_given(ask: requests.Ask) -> None:
    """A Device without its Node takes no pod."""
    inventory = builders.inventory(builders.device())

    found = place(inventory, builders.candidate(cards=ask))

    assert found is None


@pytest.mark.parametrize("ask", [requests.cards(1), TENTH], ids=["a whole card", "a share"])
def test_cards_of_a_silent_agent_are_not_given(ask: requests.Ask) -> None:
    """A silent agent's cards take no pod; those of the others do."""
    inventory = builders.inventory(*builders.nodes(2), silent=["n1"])

    found = place(inventory, builders.candidate(cards=ask))

    assert found is not None
    assert found.node == "n2"


def test_withheld_cards_count_against_any_choice_of_model() -> None:
    """A card that nobody can name may be of the very model that is asked for."""
    cards = [builders.card(0, model="Tesla T4"), builders.card(1), builders.card(2)]
    inventory = builders.inventory(
        builders.node(), builders.device(cards=cards), builders.hold("a", withheld=1)
    )

    one_of_two = place(inventory, builders.candidate(models=[builders.MODEL]))
    the_only = place(inventory, builders.candidate(models=["T4"]))

    assert minors(one_of_two) == [1]
    assert the_only is None


def test_withheld_cards_leave_started_ones_to_share() -> None:
    """A card that is held by name in part cannot be the one that nobody can name: its rest is given."""
    started = dataclasses.replace(builders.hold("a"), shares=(builders.share(1, core=50, memory=1),))
    inventory = builders.inventory(*builders.nodes(1, cards=2), started, builders.hold("b", withheld=1))

    found = place(inventory, builders.candidate(cards=TENTH))

    assert minors(found) == [1]


# ---------------------------------------------------------------- shares


@pytest.mark.parametrize(
    ("ask", "fits"),
    [
        pytest.param(requests.Gpus(1, core=40, ratio=25), True, id="exactly what is left"),
        pytest.param(requests.Gpus(1, core=41, ratio=25), False, id="too much compute"),
        pytest.param(requests.Gpus(1, core=40, ratio=26), False, id="too much memory in percent"),
        pytest.param(requests.Gpus(1, memory=20 * builders.GIB), True, id="exactly the bytes that are left"),
        pytest.param(requests.Gpus(1, memory=20 * builders.GIB + 1), False, id="a byte too much"),
        pytest.param(requests.Gpus(2, core=1, memory=1), False, id="shares of more cards than there are"),
    ],
)
def test_share_of_a_started_card(ask: requests.Gpus, fits: bool) -> None:  # noqa: FBT001  a column of the table
    """A share fits where compute and memory are left for it, to the last percent and byte."""
    taken = builders.share(core=60, memory=60 * builders.GIB)
    hold = dataclasses.replace(builders.hold("a"), shares=(taken,))
    inventory = builders.inventory(*builders.nodes(1, cards=1), hold)

    found = place(inventory, builders.candidate(cards=ask))

    assert (found is not None) is fits


# ---------------------------------------------------------------- conditions

CONDITIONS: dict[str, tuple[requests.Conditions, list[int] | None]] = {
    "a model": (requests.Conditions(models=frozenset({"t4"})), [1]),
    "any model but one": (requests.Conditions(avoid_models=frozenset({builders.MODEL})), [1]),
    "a pattern": (requests.Conditions(pattern="h.00"), [2]),
    "any model but those of a pattern": (requests.Conditions(avoid_pattern="a1|t4"), [2]),
    "a pattern that cannot be read": (requests.Conditions(pattern="("), None),
    "a list of uuids": (requests.Conditions(uuids=frozenset({"GPU-n1-2", "GPU-gone"})), [2]),
    "any uuid but these": (requests.Conditions(avoid_uuids=frozenset({"GPU-n1-0", "GPU-n1-1"})), [2]),
    "much memory": (requests.Conditions(memory_at_least=100 * builders.GIB), [2]),
    "two that no card meets at once": (
        requests.Conditions(models=frozenset({"t4"}), memory_at_least=100 * builders.GIB),
        None,
    ),
}


@pytest.mark.parametrize("ask", [requests.cards(1), TENTH], ids=["a whole card", "a share"])
@pytest.mark.parametrize(("asked", "expected"), CONDITIONS.values(), ids=CONDITIONS.keys())
def test_conditions(asked: requests.Conditions, expected: list[int] | None, ask: requests.Ask) -> None:
    """All conditions hold of the very card that is given, whole or in part."""
    cards = [
        builders.card(0),
        builders.card(1, model="Tesla T4", memory=15 * builders.GIB),
        builders.card(2, model="H200", memory=141 * builders.GIB),
    ]
    inventory = builders.inventory(builders.node(), builders.device(cards=cards))

    found = place(inventory, builders.candidate(request=builders.request(ask, conditions=asked)))

    assert minors(found) == expected


def test_nodes_that_are_alike_are_looked_at_once() -> None:
    """A search on one node tells what all say that have the same cards and as much left of them."""
    inventory = builders.inventory(*builders.nodes(100, cards=8))
    inventory.charge(builders.hold("a", "n7", (0,)))
    search = Search(inventory)
    tight = builders.request(*[requests.Gpus(1, core=40, memory=builders.GIB)] * 17)

    with mock.patch.object(allocator, "place", wraps=allocator.place) as looked:
        assert search.place(tight, builders.demand(), policy=Policy()) is None

    assert looked.call_count == 2
    assert len(search.searched(questions.ask(tight, builders.demand()), Policy())) == 100


def test_nodes_are_alike_in_nothing_to_who_names_cards() -> None:
    """Where single cards are wanted or avoided, every node is another."""
    search = Search(builders.inventory(*builders.nodes(5, cards=8)))
    named = requests.Conditions(avoid_uuids=frozenset({"GPU-n1-0"}))
    tight = builders.request(*[requests.Gpus(1, core=40, memory=builders.GIB)] * 17, conditions=named)

    with mock.patch.object(allocator, "place", wraps=allocator.place) as looked:
        assert search.place(tight, builders.demand(), policy=Policy()) is None

    assert looked.call_count == 5
