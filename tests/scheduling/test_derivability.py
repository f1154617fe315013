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
from support import backlogs, inventories, random_clusters


@random_clusters.PROPERTY
@hypothesis.given(
    changes=st.lists(random_clusters.changes(), max_size=30), rows=st.integers(1, 3), slots=st.integers(1, 3)
)
def test_only_the_present_matters(changes: list[random_clusters.Change], rows: int, slots: int) -> None:
    """After any arrivals and departures an inventory equals one made afresh of what is true now (I8)."""
    cluster = random_clusters.ClusterState()
    with mock.patch.multiple(node_table, ROWS=rows, SLOTS=slots):
        inventory = Inventory()

        for change in changes:
            random_clusters.change(cluster, inventory, *change)

    assert inventories.contents(inventory) == inventories.contents(cluster.inventory())
    assert inventories.workload(inventory) == inventories.workload(cluster.inventory())
    assert inventories.leftovers(inventory) == []


def decide(search: Search, pod: queued_pods.PodInfo, policy: Policy) -> list[decisions.Decision]:
    """Decide for one pod."""
    return cycle.simulate(search, backlogs.of(pod), 0.0, policy)


@THOROUGH
@hypothesis.given(
    cluster=random_clusters.clusters(),
    pods=st.lists(random_clusters.pod_infos(), min_size=1, max_size=3),
    strategy=st.sampled_from(list(Strategy)),
    rounds=st.lists(st.lists(random_clusters.changes(), max_size=3), max_size=12),
)
def test_remembered_answers_are_true(
    cluster: random_clusters.ClusterState,
    pods: list[queued_pods.PodInfo],
    strategy: Strategy,
    rounds: list[list[random_clusters.Change]],
) -> None:
    """After any changes a search that remembers answers as one that has just begun."""
    policy, search = Policy(strategy), Search(cluster.inventory())

    for changes in [[], *rounds]:
        for change in changes:
            random_clusters.change(cluster, search.inventory, *change)
        for pod in pods:
            assert decide(search, pod, policy) == decide(Search(cluster.inventory()), pod, policy)
