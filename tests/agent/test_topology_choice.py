"""The agent's own choice of whole cards is the one that the scheduler's core would make (N3)."""

import random

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_agent.delivery import topology_choice
from berth_crds import wire
from berth_operator.scheduling.devices import card_sets, node_topology
from berth_operator.translate import devices, partition_tables
from support import topologies

SHAPES = ("8xV100-SXM2-16GB", "8xA100-SXM4-80GB", "8xT4", "2xT4+2xL4", "4xA100-SXM4-40GB", "8xA10")


def spec(shape: str) -> wire.DeviceSpec:
    """Return what the agent publishes of such a node."""
    return topologies.published("n1", shape).spec


def of_core(spec: wire.DeviceSpec, free: set[str], size: int) -> set[str]:
    """Return the set that the core chooses."""
    gpus = sorted(spec.devices, key=lambda card: card.minor)
    topology = devices.topology(gpus, partition_tables.published(spec, gpus))
    mask = node_topology.mask_of(at for at, card in enumerate(gpus) if card.uuid in free)
    chosen = card_sets.best_set(topology, mask, size)
    return {gpus[at].uuid for at in node_topology.slots(chosen)} if chosen is not None else set()


@pytest.mark.parametrize("shape", SHAPES)
@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=40, deadline=None)
def test_it_agrees_with_the_core(shape: str, data: st.DataObject) -> None:
    """Whatever is free, and however many are asked for."""
    made = spec(shape)
    uuids = [card.uuid for card in made.devices]
    free = data.draw(st.sets(st.sampled_from(uuids)))
    size = data.draw(st.integers(1, len(uuids)))

    chosen = topology_choice.best_set(made.devices, made.partitions, free, (), size)

    assert set(chosen) == of_core(made, free, size)
    assert len(chosen) in {0, size}


def test_what_must_be_is_among_them() -> None:
    """The rest is what is joined best to it; what is not free, or too much, cannot be had."""
    made = spec("8xV100-SXM2-16GB")
    by_minor = {card.minor: card.uuid for card in made.devices}
    free = set(by_minor.values())
    gpus = sorted(made.devices, key=lambda card: card.minor)
    topology = devices.topology(gpus, partition_tables.published(made, gpus))

    pair = topology_choice.best_set(made.devices, made.partitions, free, (by_minor[5],), 2)
    (partner,) = (minor for minor, uuid in by_minor.items() if uuid in pair and minor != 5)
    assert topology.worth[5][partner] == max(topology.worth[5])
    assert topology_choice.best_set(made.devices, (), free - {by_minor[5]}, (by_minor[5],), 2) == ()
    assert topology_choice.best_set(made.devices, (), free, tuple(free), 2) == ()
    assert set(topology_choice.best_set(made.devices, (), free, tuple(free), 8)) == free


def test_very_many_cards_are_not_compared() -> None:
    """Then the lowest minors are taken, at once."""
    cards = [wire.Card(f"GPU-{minor}", "gpu", minor) for minor in range(64)]
    random.Random(1).shuffle(cards)

    chosen = topology_choice.best_set(cards, (), {card.uuid for card in cards}, ("GPU-40",), 20)

    assert chosen == (*(f"GPU-{minor}" for minor in range(19)), "GPU-40")
