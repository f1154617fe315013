"""What is said of a card elsewhere than in its Device keeps it from new pods (I1, I9)."""

from collections.abc import Iterable
from unittest import mock

import pytest

from berth_operator.scheduling import decisions, holds, uuid_records, withheld_cards
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.inventory import Inventory
from support import builders, inventories

A = builders.card(0, at="n1")


def holding(*shares: int | decisions.Share, marked: Iterable[str | int] = ()) -> holds.Hold:
    """Return what a pod on n1 has."""
    return builders.hold("a", shares=shares, marked=frozenset(marked))


def free(inventory: Inventory, node: str = "n1") -> list[int]:
    """Return the minors of the cards that may be given out."""
    return [int(uuid.rpartition("-")[2]) for uuid in inventories.open_cards(inventory, node)]


def missing(minor: int) -> decisions.Share:
    """Return a share of a card that n1 does not have."""
    return decisions.Share("GPU-unknown", minor, 100, builders.MEMORY)


HOLDS: dict[str, tuple[holds.Hold, list[int]]] = {
    "nothing is odd": (holding(1), [0, 2, 3]),
    "a uuid is marked": (holding(marked=["GPU-n1-2"]), [0, 1, 3]),
    "a minor is marked": (holding(marked=[3]), [0, 1, 2]),
    "both are marked": (holding(marked=[3, "GPU-n1-3"]), [0, 1, 2]),
    "they name different cards": (holding(marked=[0, "GPU-n1-3"]), [1, 2]),
    "beside what it holds": (holding(1, marked=["GPU-n1-2"]), [0, 3]),
    "a marked card that is not there": (holding(marked=["GPU-unknown"]), []),
    "a marked card that is not there, beside one that is": (holding(marked=["GPU-unknown", 2]), [0, 1, 3]),
    "a marked card that is not there, beside one that it holds": (
        holding(1, marked=["GPU-unknown"]),
        [0, 2, 3],
    ),
    "a card that is not there, at a known minor": (holding(missing(2)), [0, 1, 3]),
    "a card that is not there, nor its minor": (holding(missing(9)), []),
    "a card that is not there, beside one that is": (holding(0, missing(9)), [1, 2, 3]),
}


@pytest.mark.parametrize(("hold", "expected"), HOLDS.values(), ids=HOLDS)
def test_what_is_named_is_kept_back(hold: holds.Hold, expected: list[int]) -> None:
    """By uuid or by minor; where nothing that is named is there, everything that nobody holds."""
    inventory = builders.inventory(*builders.nodes(1))
    before = inventories.contents(inventory)

    inventory.charge(hold)
    found = [free(inventory)]
    inventory.drop_device("n1")
    inventory.put_device(builders.device())
    inventory.set_agent_not_ready("n1", not_ready=False)
    found.append(free(inventory))
    inventory.release(hold.uid)

    assert found == [expected, expected]
    assert inventories.contents(inventory) == before


CUT = builders.card(0, mig=True, instances=builders.instances("n1", 0, 2))


@pytest.mark.parametrize(
    ("cards", "marked", "troubles"),
    [
        pytest.param(
            [A, builders.card(1, trouble=Reason.UNHEALTHY)],
            (0, 1),
            [Reason.INVALID_ALLOCATION, Reason.UNHEALTHY],
            id="the trouble that it had before counts for more, for to mend that helps",
        ),
        pytest.param(
            [CUT, builders.card(1)],
            ("MIG-n1-0-1",),
            [Reason.INVALID_ALLOCATION, None],
            id="an instance that is marked keeps its card: nobody can tell what else of it the pod has",
        ),
    ],
)
def test_a_marked_card_says_why_it_is_not_given(
    cards: list[PhysicalDevice], marked: tuple[str | int, ...], troubles: list[Reason | None]
) -> None:
    """A card that a pod may have beside its shares is in trouble for that."""
    inventory = builders.inventory(builders.node("n1"), builders.device("n1", cards))

    inventory.charge(holding(marked=marked))

    device = inventories.contents(inventory)["n1"]["device"]
    assert [card.trouble for card in device.cards] == troubles


# ---------------------------------------------------------------- one uuid on two nodes


def moved() -> Inventory:
    """Return two nodes, of which the second has the only card of the first, whose Node was away meanwhile."""
    inventory = builders.inventory(*builders.nodes(2, cards=1))
    inventory.uuid_ownership.ordered = True
    away = inventory.drop_node("n1")
    assert away is not None
    inventory.put_device(builders.device("n1", []))
    inventory.put_device(builders.device("n2", [A]))
    inventory.put_node(away)
    return inventory


def test_a_card_that_another_published_first_is_not_given() -> None:
    """The first keeps it; both are told."""
    inventory = builders.inventory(*builders.nodes(2, cards=2))
    inventory.uuid_ownership.ordered = True

    changed = inventory.put_device(builders.device("n2", [A, builders.card(1, at="n2")]))

    assert changed == {"n1", "n2"}
    assert (free(inventory, "n1"), free(inventory, "n2")) == ([0, 1], [1])
    assert inventory.drop_device("n2") == {"n1"}


def test_what_a_record_says_is_taken_in() -> None:
    """Nobody is known to be first until a record says so."""
    inventory = builders.inventory(
        *builders.nodes(1, cards=1), builders.node("n2"), builders.device("n2", [A])
    )
    inventory.set_agent_not_ready("n2", not_ready=False)
    before = free(inventory, "n1"), free(inventory, "n2")

    inventory.put_device(builders.device("n1", [A]), uuid_records.Record([A.uuid]))

    assert before == ([], [])
    assert (free(inventory, "n1"), free(inventory, "n2")) == ([0], [])


def test_a_card_that_moved_is_its_old_nodes_again() -> None:
    """Both nodes are looked at: its new node gives it out until it is back on the old one."""
    inventory = moved()
    before = free(inventory, "n2")

    inventory.put_device(builders.device("n1", [A]))

    assert (before, free(inventory), free(inventory, "n2")) == ([0], [0], [])


def test_a_card_that_moved_stays_where_its_pod_is() -> None:
    """Its old node publishes it again, and gives it out when the pod on the new one has ended."""
    inventory = moved()
    inventory.charge(builders.hold("p", "n2", [builders.share(0)]))

    inventory.put_device(builders.device("n1", [A]))
    meanwhile = free(inventory, "n1")
    inventory.release("uid-p")

    assert "n1" in inventory.take_affected()
    assert (meanwhile, free(inventory, "n1"), free(inventory, "n2")) == ([], [0], [])


def test_a_claim_too_many_has_no_other_node_looked_at() -> None:
    """Whose cards are given out as before is told of a claim, and nothing of its cards is worked out anew."""
    inventory = builders.inventory(*builders.nodes(40))
    inventory.uuid_ownership.ordered = True
    names = [f"n{at}" for at in range(2, 41)]
    cards = [builders.card(at, at=name) for name in names for at in range(4)]

    with mock.patch.object(withheld_cards, "after_holds", wraps=withheld_cards.after_holds) as looked:
        affected = [inventory.put_device(builders.device("n1", made)) for made in (cards, 4)]

    assert affected == [{"n1", *names}] * 2
    assert [call.args[0].node for call in looked.call_args_list] == ["n1", "n1"]
    assert inventory.uuid_ownership.kept("n2") == tuple(builders.uuid("n2", at) for at in range(4))


def test_of_a_type_that_a_pod_may_have_nothing_is_given() -> None:
    """Devices of other types, and all cards, are as before; what is ill stays ill, for to mend that helps."""
    ill = builders.nic(1, trouble=Reason.UNHEALTHY)
    fpga = PhysicalDevice("fpga", 0, type="fpga")
    device = builders.device("n1", others=[builders.nic(0), ill, fpga])
    hold = builders.hold("a", withheld_types=frozenset({"rdma"}))

    found, withheld = withheld_cards.after_holds(device, frozenset(), [hold])

    assert [one.trouble for one in found.others] == [Reason.INVALID_ALLOCATION, Reason.UNHEALTHY, None]
    assert (found.cards, withheld) == (device.cards, 0)
