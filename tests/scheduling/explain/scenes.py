"""Pods for the tests of explanations, and their explanations."""

from typing import Any, Final

from berth_crds.vocabulary import Scope
from berth_operator.scheduling import explain, queued_pods
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from support import builders

RULES: Final = Policy()


def pod(
    *asks: requests.Ask,
    cpu: int = 1000,
    node_selection: nodes.NodeSelection = nodes.ANYWHERE,
    grouping: requests.Grouping = requests.NO_GROUPING,
    **conditions: Any,
) -> queued_pods.PodInfo:
    """Make a pod with one container; keywords are conditions on cards."""
    container = requests.ContainerRequest("main", asks)
    request = requests.DeviceRequest((container,), requests.Conditions(**conditions), grouping)
    demand = nodes.NodeDemand(((nodes.CPU, cpu), (nodes.PODS, 1)), node_selection=node_selection)
    return queued_pods.PodInfo("uid-p", "ml", "p", request, demand)


def cards(count: int = 1, **fields: Any) -> queued_pods.PodInfo:
    """Make a pod that asks for whole cards."""
    return pod(requests.cards(count), **fields)


def part(core: int = 50, gib: int = 40, count: int = 1, **fields: Any) -> queued_pods.PodInfo:
    """Make a pod that asks for a part of one card, or of several."""
    return pod(requests.Gpus(count, core, gib * builders.GIB), **fields)


def told(made: Inventory, asked: queued_pods.PodInfo, *, all_nodes: bool = False) -> explain.Explanation:
    """Explain."""
    return explain.explain(Search(made), asked, policy=RULES, all_nodes=all_nodes)


def said(made: Inventory, asked: queued_pods.PodInfo) -> str:
    """Explain in a sentence."""
    return explain.sentence(told(made, asked), asked)


# A pod that asks for more than one thing, each of which has its words.
PICKY: Final = pod(
    requests.cards(2),
    models=frozenset({"t4", "h200"}),
    memory_at_least=40 * builders.GIB,
    free_memory_at_least=20 * builders.GIB,
    grouping=requests.Grouping(scope=Scope.NVLINK, joint=("gpu", "rdma"), memory_together=60 * builders.GIB),
)
