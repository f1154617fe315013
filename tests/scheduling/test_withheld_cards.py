"""What is said of a card elsewhere than in its Device keeps it from new pods (I1, I9)."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest

from berth_operator.scheduling import decisions, holds, uuid_records, withheld_cards
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import facts
from berth_operator.scheduling.inventory import Inventory
from support import builders, inventories

A = builders.card(0, at="n1")


def holding(
    *shares: decisions.Share, withheld: int = 0, marked: Iterable[str | int] = (), name: str = "a"
) -> holds.Hold:
    """Return what a pod on n1 has."""
    return holds.Hold(f"uid-{name}", f"ml/{name}", "n1", (), shares, withheld, frozenset(marked))


def free(inventory: Inventory, node: str = "n1") -> list[int]:
    """List the minors of the cards that may be given out, and none where all are kept back."""
    info = inventory.node(node)
    assert info is not None
    assert info.device is not None
    if inventories.free_cards(inventory, node) == 0:
        return []
    return [one.minor for one in info.device.cards if one.trouble is None and one.uuid not in info.used]


def missing(minor: int) -> decisions.Share:
    """Return a share of a card that n1 does not have."""
    return decisions.Share("GPU-unknown", minor, 100, builders.MEMORY)


HOLDS: dict[str, tuple[holds.Hold, list[int]]] = {
    "nothing is odd": (holding(builders.share(1)), [0, 2, 3]),
    "a uuid is marked": (holding(marked=["GPU-n1-2"]), [0, 1, 3]),
    "a minor is marked": (holding(marked=[3]), [0, 1, 2]),
    "both are marked": (holding(marked=[3, "GPU-n1-3"]), [0, 1, 2]),
    "they name different cards": (holding(marked=[0, "GPU-n1-3"]), [1, 2]),
    "beside what it holds": (holding(builders.share(1), marked=["GPU-n1-2"]), [0, 3]),
    "a marked card that is not there": (holding(marked=["GPU-unknown"]), []),
    "a marked card that is not there, beside one that is": (holding(marked=["GPU-unknown", 2]), [0, 1, 3]),
    "a marked card that is not there, beside one that it holds": (
        holding(builders.share(1), marked=["GPU-unknown"]),
        [0, 2, 3],
    ),
    "a card that is not there, at a known minor": (holding(missing(2)), [0, 1, 3]),
    "a card that is not there, nor its minor": (holding(missing(9)), []),
    "a card that is not there, beside one that is": (holding(builders.share(0), missing(9)), [1, 2, 3]),
}


@pytest.mark.parametrize(("hold", "expected"), HOLDS.values(), ids=HOLDS.keys())
def test_what_is_named_is_kept_back(hold: holds.Hold, expected: list[int]) -> None:
    """By uuid or by minor; where nothing that is named is there, everything that nobody holds."""
    inventory = builders.inventory(*builders.nodes(1))
    before = inventories.contents(inventory)

    inventory.charge(hold)
    kept = free(inventory)
    inventory.release(hold.uid)

    assert kept == expected
    assert inventories.contents(inventory) == before


@pytest.mark.parametrize(("hold", "expected"), HOLDS.values(), ids=HOLDS.keys())
def test_it_does_not_matter_what_is_heard_of_first(hold: holds.Hold, expected: list[int]) -> None:
    """The Device may come after the pod, and may come again."""
    inventory = builders.inventory(builders.node("n1"))

    inventory.charge(hold)
    inventory.put_device(builders.device("n1"))
    inventory.set_silent("n1", silent=False)
    first = free(inventory)
    inventory.drop_device("n1")
    inventory.put_device(builders.device("n1"))
    inventory.set_silent("n1", silent=False)

    assert (first, free(inventory)) == (expected, expected)


def test_a_marked_card_says_why_it_is_not_given() -> None:
    """The trouble that the card had before counts for more, for to mend that helps."""
    ill = builders.card(1, trouble=Reason.UNHEALTHY)
    inventory = builders.inventory(builders.node("n1"), builders.device("n1", [A, ill]))

    inventory.charge(holding(marked=[0, 1]))
    info = inventory.node("n1")
    device = info.device if info is not None else None

    assert device is not None
    assert [card.trouble for card in device.cards] == [Reason.WRONG_RECORD, Reason.UNHEALTHY]


def test_an_instance_that_is_marked_keeps_its_card() -> None:
    """Nobody can tell what else of the card the pod has."""
    cut = builders.card(0, mig=True, instances=builders.instances("n1", 0, 2))
    inventory = builders.inventory(builders.node("n1"), builders.device("n1", [cut, builders.card(1)]))

    inventory.charge(holding(marked=["MIG-n1-0-1"]))
    info = inventory.node("n1")
    device = info.device if info is not None else None

    assert device is not None
    assert [card.trouble for card in device.cards] == [Reason.WRONG_RECORD, None]


# ---------------------------------------------------------------- one uuid on two nodes


def twins() -> tuple[Inventory, set[str]]:
    """Return two nodes, the second of which publishes a card of the first; and for which that was news."""
    inventory = builders.inventory(*builders.nodes(2, cards=2))
    inventory.uuid_ownership.ordered = True
    news = inventory.put_device(builders.device("n2", [A, builders.card(1, at="n2")]))
    return inventory, news


def test_a_card_that_another_published_first_is_not_given() -> None:
    """The first keeps it; both are told."""
    inventory, news = twins()

    assert news == {"n1", "n2"}
    assert (free(inventory, "n1"), free(inventory, "n2")) == ([0, 1], [1])


def test_once_the_first_lets_go_it_is_given_to_nobody_until_it_is_back() -> None:
    """Whoever came too late does not inherit it; the first has it again."""
    inventory, _ = twins()

    inventory.put_device(builders.device("n1", [builders.card(1, at="n1")]))
    changed = free(inventory, "n2")
    inventory.put_device(builders.device("n1", [A]))
    back = free(inventory, "n1")
    gone = inventory.drop_device("n2")

    assert (changed, back, gone, free(inventory, "n1")) == ([1], [0], {"n1"}, [0])


def test_what_a_record_says_is_taken_in() -> None:
    """Nobody is known to be first until a record says so."""
    inventory = builders.inventory(
        *builders.nodes(1, cards=1), builders.node("n2"), builders.device("n2", [A])
    )
    inventory.set_silent("n2", silent=False)
    before = free(inventory, "n1"), free(inventory, "n2")

    inventory.put_device(builders.device("n1", [A]), uuid_records.Record([A.uuid]))

    assert before == ([], [])
    assert (free(inventory, "n1"), free(inventory, "n2")) == ([0], [])


def test_a_card_that_moved_is_its_old_nodes_again_only_when_its_pod_has_ended() -> None:
    """Its old node publishes it while a pod on the new one holds it: nobody else is given it meanwhile."""
    inventory = builders.inventory(*builders.nodes(2, cards=1))
    inventory.uuid_ownership.ordered = True
    inventory.put_device(builders.device("n1", []))
    inventory.put_device(builders.device("n2", [A]))
    inventory.charge(dataclasses.replace(builders.hold("p", "n2"), shares=(builders.share(0),)))

    inventory.put_device(builders.device("n1", [A]))
    meanwhile = free(inventory, "n1")
    inventory.release("uid-p")
    told = inventory.take_affected()

    assert (meanwhile, free(inventory, "n1"), free(inventory, "n2")) == ([], [0], [])
    assert "n1" in told


def test_a_claim_too_many_has_no_other_node_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose cards are given out as before is told of a claim, and nothing of its cards is worked out anew."""
    inventory = builders.inventory(*builders.nodes(40))
    inventory.uuid_ownership.ordered = True
    looked: list[str] = []
    after = withheld_cards.after_holds

    def counted(device: facts.Device, *rest: Any) -> tuple[facts.Device, int]:
        looked.append(device.node)
        return after(device, *rest)

    monkeypatch.setattr(withheld_cards, "after_holds", counted)
    names = [f"n{at}" for at in range(2, 41)]
    cards = [builders.card(at, at=name) for name in names for at in range(4)]
    told = inventory.put_device(builders.device("n1", cards))
    withdrawn = inventory.put_device(builders.device("n1"))

    assert told == withdrawn == {"n1", *names}
    assert looked == ["n1", "n1"]
    assert inventory.uuid_ownership.kept("n2") == tuple(builders.uuid("n2", at) for at in range(4))


def test_a_keeper_that_changes_has_both_nodes_looked_at() -> None:
    """A card that moved is given out on its new node, and on the old one again once it is back there."""
    inventory = builders.inventory(*builders.nodes(2, cards=1))
    inventory.uuid_ownership.ordered = True
    inventory.put_device(builders.device("n1", []))
    inventory.put_device(builders.device("n2", [A]))
    moved = free(inventory, "n2")

    inventory.put_device(builders.device("n1", [A]))

    assert (moved, free(inventory), free(inventory, "n2")) == ([0], [0], [])
