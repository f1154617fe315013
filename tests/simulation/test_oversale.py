"""What `place` does with core that a policy oversells: as the operator, also with what nodes list of it."""

from typing import Any

import pytest

from berth_crds import names
from simulation import simulator
from support import manifests

OVERSOLD = manifests.own(
    "PlacementPolicy", "default", spec={"oversale": {"core": 150, "priorityClasses": ["batch"]}}
)


CORE: dict[str, Any] = {names.GPU_CORE: 100}


def parts(name: str, core: int, **spec: str) -> simulator.Body:
    """Return a pod that asks for so much core of a card, and a little memory."""
    pod = simulator.pod(name, {names.GPU_CORE: core, names.GPU_MEMORY: "1Gi"})
    return pod | {"spec": pod["spec"] | spec}


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)], ids=["policy last", "policy first"])
def test_core_is_oversold_as_the_policy_says(order: slice) -> None:
    """Pods of the class come last here; the node lists as much core as it would with the operator."""
    listing = simulator.node("n1", **CORE)
    around = [listing, simulator.device("n1", "1xT4"), manifests.priority_class("batch", 0), OVERSOLD][order]
    usual = manifests.priority_class("usual", 5, globalDefault=True)
    batch = (parts(name, core, priorityClassName="batch") for name, core in (("b", 40), ("d", 20)))
    waiting = parts("a", 90), *batch, parts("c", 10)

    answers = simulator.place(*around, usual, *waiting)

    assert [(one["pod"], one["node"]) for one in answers] == [
        ("ml/a", "n1"),
        ("ml/c", "n1"),
        ("ml/b", "n1"),
        ("ml/d", None),
    ]
    assert "10 % core free, 20 % wanted, 150 % may be promised" in answers[3]["refusals"][-1]["message"]


def test_the_class_of_pods_that_name_none_may_be_oversold() -> None:
    """As the API server writes it into them."""
    usual = manifests.priority_class("batch", 0, globalDefault=True)

    answers = simulator.place(
        simulator.node(), simulator.device("n1", "1xT4"), usual, OVERSOLD, parts("a", 90), parts("b", 60)
    )

    assert [one["node"] for one in answers] == ["n1", "n1"]
