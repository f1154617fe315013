"""Only the present matters: what was kept up to date equals what is made afresh (I8, I11)."""

from unittest import mock

import hypothesis
from hypothesis import strategies as st

from berth_crds.vocabulary import Strategy
from berth_operator.scheduling import cycle, decisions, node_table, queued_pods
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from scheduling.placements import THOROUGH
from support import backlogs, inventories, worlds


@worlds.PROPERTY
@hypothesis.given(
    changes=st.lists(worlds.changes(), max_size=30), rows=st.integers(1, 3), slots=st.integers(1, 3)
)
def test_only_the_present_matters(changes: list[worlds.Change], rows: int, slots: int) -> None:
    """After any arrivals and departures an inventory equals one made afresh of what is true now (I8)."""
    world = worlds.World()
    with mock.patch.multiple(node_table, ROWS=rows, SLOTS=slots):
        inventory = Inventory()

        for change in changes:
            worlds.change(world, inventory, *change)

    assert inventories.contents(inventory) == inventories.contents(world.paint())
    assert inventories.workload(inventory) == inventories.workload(world.paint())
    assert inventories.leftovers(inventory) == []


def decide(search: Search, pod: queued_pods.Candidate, policy: Policy) -> list[decisions.Decision]:
    """Decide for one pod."""
    return cycle.decide(search, backlogs.of(pod), 0.0, policy)


@THOROUGH
@hypothesis.given(
    world=worlds.worlds(),
    pods=st.lists(worlds.candidates(), min_size=1, max_size=3),
    strategy=st.sampled_from(list(Strategy)),
    rounds=st.lists(st.lists(worlds.changes(), max_size=3), max_size=12),
)
def test_remembered_answers_are_true(
    world: worlds.World,
    pods: list[queued_pods.Candidate],
    strategy: Strategy,
    rounds: list[list[worlds.Change]],
) -> None:
    """After any changes a search that remembers answers as one that has just begun."""
    policy, search = Policy(strategy), Search(world.paint())

    for changes in [[], *rounds]:
        for change in changes:
            worlds.change(world, search.inventory, *change)
        for pod in pods:
            assert decide(search, pod, policy) == decide(Search(world.paint()), pod, policy)
