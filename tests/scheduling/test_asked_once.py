"""What depends on other pods alone is worked out once, however many meanings a request has."""

import dataclasses
from typing import Final
from unittest import mock

import pytest

from berth_crds import names
from berth_crds.vocabulary import Scope
from berth_operator.scheduling import cycle, decisions, explain, queued_pods, signatures
from berth_operator.scheduling.constraints import reason_counts, registry, topologies, topology_spread
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.search import Search
from scheduling.placements import RULES
from scheduling.pod_clusters import (
    HOST,
    WEB,
    ZONE,
    far,
    hold,
    node,
    pod,
    pod_info,
    read_node,
    spread,
    term,
    web,
)
from support import builders

PROFILES: Final = ("1g.10gb", "2g.20gb", "3g.40gb")
KEYS: Final = (HOST, ZONE, "rack")  # The nodes have the first two.
PREFERRED: Final = requests.Grouping(scope=Scope.NUMA, required=False)


def cluster(units: int) -> Inventory:
    """Return four nodes of so many gpu units, on each of which is a pod of the application."""
    found = Inventory()
    for at in range(4):
        name, profile = f"n{at}", PROFILES[at % units - 1] if at % units else ""
        cut = builders.card(at=name, mig=True, instances=builders.instances(name, 0, 1, profile))
        found.put_node(read_node(node(name, "a")))
        found.put_device(builders.device(name, [cut] if profile else 1, gpu_unit=profile))
        found.set_agent_not_ready(name, not_ready=False)
        found.charge(hold(web(f"web-{at}", name)))
    return found


def waiting(grouping: requests.Grouping = requests.NO_GROUPING) -> queued_pods.PodInfo:
    """Return a pod that asks for a unit, and that no node takes because of the pods there."""
    found = pod_info(pod(labels=WEB, topologySpreadConstraints=[spread(HOST, minDomains=9)]))
    demand = dataclasses.replace(found.demand, device_resources=((names.NVIDIA_GPU, 1),))
    return dataclasses.replace(found, request=builders.request(1, grouping=grouping), demand=demand)


@pytest.mark.parametrize(
    "pod_info_",
    [
        pytest.param(waiting(), id="a request that means something else on some nodes"),
        pytest.param(waiting(PREFERRED), id="a scope that is preferred, so that each is looked for"),
    ],
)
def test_a_search_asks_once_what_other_pods_rule_out(pod_info_: queued_pods.PodInfo) -> None:
    """That takes longer than all else where a pod has many constraints."""
    passing = registry.passes_inter_pod_filters

    with mock.patch.object(registry, "passes_inter_pod_filters", side_effect=passing) as asked:
        found = Search(cluster(4)).place(pod_info_.request, pod_info_.demand, policy=RULES)

    assert found is None
    assert asked.call_count == 1


def worked_out(units: int) -> tuple[int, int]:
    """Return how many spread constraints a decision works out, and an explanation."""
    search, asks = Search(cluster(units)), waiting()

    with mock.patch.object(topology_spread, "countable", side_effect=topology_spread.countable) as asked:
        decision = cycle.place_or_count_reasons(search, asks, RULES, {}, Effort())
        decided = asked.call_count
        told = explain.explain(search, asks, policy=RULES)

    assert isinstance(decision, decisions.Wait)
    assert told.counts == decision.counts
    return decided, asked.call_count - decided


def test_decisions_and_explanations_ask_once_what_depends_on_other_pods() -> None:
    """Of nodes of many gpu units they ask no more often than of those of one."""
    assert worked_out(4) == worked_out(1)


def test_which_pods_repel_is_worked_out_once_for_reasons_and_gaps() -> None:
    """An explanation wants both of the same nodes, and each term takes its time."""
    inventory, asks = cluster(1), pod_info(pod(labels=WEB, affinity=far(*(term(key) for key in KEYS))))
    query = Query.for_all_nodes(inventory, signatures.of(asks.request, asks.demand))

    with mock.patch.object(topologies, "sums", side_effect=topologies.sums) as summed:
        reasons = reason_counts.evaluate(query, {})
        gaps = registry.inter_pod_gaps(query)

    assert (reasons.counts()[0].reason, gaps.tolist()) == (Reason.POD_ANTI_AFFINITY, [2 / 3] * 4)
    assert summed.call_count == len(KEYS)


def test_an_explanation_scores_no_nodes_for_a_pod_that_was_never_searched() -> None:
    """It looks up why nodes refused when they were searched, and nothing is remembered yet."""
    search, asks = Search(cluster(2)), waiting()
    scores = Search._current_scores

    with mock.patch.object(Search, "_current_scores", autospec=True, side_effect=scores) as scored:
        explain.explain(search, asks, policy=RULES)

    assert all(call.args[0] is not search for call in scored.mock_calls)  # Trials have searches of their own.


def test_reasons_are_those_of_each_meaning_before_those_of_other_pods() -> None:
    """Each node has the first of its own, and those that lack nothing have that of the spread."""
    inventory, asks = cluster(2), waiting()
    (piece,) = builders.instances("n1", 0, 1, PROFILES[0])
    in_use = decisions.Share(piece.uuid, 0, 100, piece.memory, profile=piece.profile)
    inventory.charge(builders.hold("a", "n0", [0]))
    inventory.charge(builders.hold("b", "n1", [in_use]))

    counts = reason_counts.count(Query.for_all_nodes(inventory, signatures.of(asks.request, asks.demand)), {})

    assert {(one.reason, one.detail, one.nodes) for one in counts} == {
        (Reason.FULL, "", 1),
        (Reason.FULL, f"MIG {PROFILES[0]}", 1),
        (Reason.TOPOLOGY_SPREAD, f"{HOST}: skew 2, maxSkew 1", 2),
    }
