"""What depends on other pods alone is worked out once, however many meanings a request has."""

import dataclasses
from typing import Final
from unittest import mock

import pytest

from berth_crds import names
from berth_crds.vocabulary import Scope
from berth_operator.scheduling import queued_pods
from berth_operator.scheduling.constraints import registry
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.search import Search
from scheduling.placements import RULES
from scheduling.pod_clusters import HOST, WEB, node, pod, pod_info, read_node, spread
from support import builders

PROFILES: Final = ("1g.10gb", "2g.20gb", "3g.40gb")
PREFERRED: Final = requests.Grouping(scope=Scope.NUMA, required=False)


def cluster(units: int) -> Inventory:
    """Return nodes of so many gpu units, all of whose devices are in use."""
    found = Inventory()
    for at in range(units):
        name = f"n{at}"
        found.put_node(read_node(node(name, "a")))
        cut = builders.card(at=name, mig=True, instances=builders.instances(name, 0, 2, PROFILES[at - 1]))
        found.put_device(
            builders.device(name, [cut], gpu_unit=PROFILES[at - 1]) if at else builders.device(name, 1)
        )
        found.set_agent_not_ready(name, not_ready=False)
        found.charge(builders.hold(f"there-{at}", name, [builders.share(at=name)]))
    return found


def waiting(grouping: requests.Grouping = requests.NO_GROUPING) -> queued_pods.PodInfo:
    """Return a pod with a spread constraint that asks for a unit."""
    found = pod_info(pod(labels=WEB, topologySpreadConstraints=[spread(HOST)]))
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
