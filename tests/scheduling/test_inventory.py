"""Who holds what, and which cards are free: the inventory counts right, and gives back what it took."""

from typing import Any

import numpy as np
import pytest

from berth_operator.scheduling.constraints.query import matching_cards
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from support import builders, inventories


def free(inventory: Inventory, node: str = "n1") -> list[object]:
    """List the free cards of a node."""
    found: list[object] = inventories.contents(inventory)[node]["free"]
    return found


def matching(inventory: Inventory, models: set[str]) -> list[int]:
    """List the slots of n1 whose cards are of one of these models."""
    asked = requests.Conditions(models=frozenset(models))
    found = matching_cards(inventory, inventory.all_rows, asked)
    table = inventory.table.in_service if found is None else found
    return list(np.flatnonzero(table[inventory.index["n1"]]))


# ---------------------------------------------------------------- charge and release


def test_charge_takes_and_release_gives_back() -> None:
    """What a pod held is as free as before once it is gone."""
    inventory = builders.inventory(*builders.nodes(1))
    before = inventories.contents(inventory)
    hold = builders.hold("a", shares=(1, 3), amounts=(("cpu", 500), ("pods", 1)))

    inventory.charge(hold)
    charged = inventories.contents(inventory)["n1"]
    released = inventory.release(hold.uid)

    assert charged["free"] == ["GPU-n1-0", "GPU-n1-2"]
    assert charged["left"] == charged["allocatable"] | {"cpu": 7500, "pods": 109}
    assert released == hold
    assert inventories.contents(inventory) == before


def test_nobody_holds_twice() -> None:
    """A second hold of one pod is a mistake, and changes nothing."""
    inventory = builders.inventory(*builders.nodes(1), builders.hold("a", shares=(0,)))
    before = inventories.contents(inventory)

    with pytest.raises(ValueError, match="ml/a holds something already"):
        inventory.charge(builders.hold("a", shares=(1,)))

    assert inventories.contents(inventory) == before


def test_cards_held_twice_are_free_when_both_are_gone() -> None:
    """A card that two records name, as a broken one may, stays held until nobody names it."""
    inventory = builders.inventory(
        *builders.nodes(1), builders.hold("a", shares=(0,)), builders.hold("b", shares=(0,))
    )

    inventory.release("uid-a")
    after_one = free(inventory)
    inventory.release("uid-b")

    assert "GPU-n1-0" not in after_one
    assert "GPU-n1-0" in free(inventory)


@pytest.mark.parametrize(
    "amount",
    [
        pytest.param(facts.LARGEST, id="the largest that is read"),
        pytest.param(2**63 - 1, id="all of 64 bits"),
        pytest.param(2**80, id="beyond 64 bits"),
    ],
)
def test_absurd_amounts_overflow_nothing(amount: int) -> None:
    """However much others claim on a node, sums stay right and come back to what they were."""
    inventory = builders.inventory(*builders.nodes(1))
    before = inventories.contents(inventory)
    names = [f"greedy{at}" for at in range(3)]

    for name in names:
        inventory.charge(builders.hold(name, amounts=(("cpu", amount),)))
    full = inventories.room(inventory, builders.demand(1))
    for name in names:
        inventory.release(f"uid-{name}")

    assert full == [False]
    assert inventories.contents(inventory) == before


# ---------------------------------------------------------------- which cards are free


@pytest.mark.parametrize(
    ("card", "minors"),
    [
        pytest.param({"trouble": Reason.UNHEALTHY}, [0, 2], id="unhealthy"),
        pytest.param({"trouble": Reason.CARD_CORDONED}, [0, 2], id="cordoned"),
        pytest.param({"trouble": Reason.OCCUPIED}, [0, 2], id="occupied by a stranger"),
        pytest.param({"mig": True}, [0, 2], id="in MIG mode"),
        pytest.param({"replicas": 2}, [0, 2], id="shared by replicas"),
        pytest.param({}, [0, 1, 2], id="nothing of that"),
    ],
)
def test_card_in_trouble_is_not_free(card: dict[str, Any], minors: list[int]) -> None:
    """A card in any trouble or given out otherwise is not free, its neighbours are."""
    cards = [builders.card(0), builders.card(1, **card), builders.card(2)]

    inventory = builders.inventory(builders.node(), builders.device(cards=cards))

    assert free(inventory) == [f"GPU-n1-{minor}" for minor in minors]


def test_no_card_of_a_failed_source_is_free() -> None:
    """An agent that cannot read its cards vouches for none of them."""
    inventory = builders.inventory(builders.node(), builders.device(failed="NVMLDown"))

    assert free(inventory) == []


def test_device_is_silent_until_its_agent_is_heard() -> None:
    """A Device alone is no sign of life, the first time, while its agent is silent or after it was gone."""
    inventory = builders.inventory(*builders.nodes(1, cards=1), silent=["n1"])
    found = [free(inventory)]

    inventory.set_agent_not_ready("n1", False)
    found.append(free(inventory))
    inventory.drop_device("n1")
    inventory.put_device(builders.device())
    found.append(free(inventory))

    assert found == [[], ["GPU-n1-0"], []]


def test_withheld_cards_count() -> None:
    """Cards that nobody can name are taken from the count, never below nothing."""
    inventory = builders.inventory(*builders.nodes(1), builders.hold("a", withheld=3))
    few = inventories.free_cards(inventory)

    inventory.charge(builders.hold("b", withheld=1 << 16))

    assert (few, inventories.free_cards(inventory)) == (1, 0)


def test_republished_device_forgets_cards_that_are_gone() -> None:
    """A card that was taken out of the node is not free any more, nor is its slot."""
    inventory = builders.inventory(*builders.nodes(1, cards=4))

    inventory.put_device(builders.device(cards=[builders.card(3, model="H200")]))

    assert free(inventory) == ["GPU-n1-3"]
    assert inventories.contents(inventory)["n1"]["beyond the cards"] == []
    assert matching(inventory, {builders.MODEL}) == []


def test_hold_of_a_vanished_card_comes_back_with_it() -> None:
    """A card that reappears while its pod lives is still that pod's."""
    inventory = builders.inventory(*builders.nodes(1, cards=2), builders.hold("a", shares=(0,)))
    inventory.put_device(builders.device(cards=[builders.card(1)]))

    inventory.put_device(builders.device(cards=2))

    assert free(inventory) == ["GPU-n1-1"]


@pytest.mark.parametrize(
    ("asked", "minors"),
    [
        pytest.param(set[str](), [0, 1, 2], id="any model"),
        pytest.param({"tesla t4"}, [1], id="as the driver spells it"),
        pytest.param({"T4"}, [1], id="as people spell it"),
        pytest.param({"t4", "h200"}, [1, 2], id="one of several"),
        pytest.param({"h100"}, list[int](), id="a model that nobody has"),
    ],
)
def test_models_by_any_spelling(asked: set[str], minors: list[int]) -> None:
    """Cards match the models asked for, however either side spells them."""
    models = (builders.MODEL, "Tesla T4", "NVIDIA H200")
    cards = [builders.card(minor, model=model) for minor, model in enumerate(models)]
    inventory = builders.inventory(builders.node(), builders.device(cards=cards))

    assert matching(inventory, asked) == minors
