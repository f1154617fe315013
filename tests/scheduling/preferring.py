"""What tests of preferences share: pods that prefer something, the node that one gets, and weights."""

from typing import Any

from berth_crds.vocabulary import Strategy
from berth_operator.scheduling import queued_pods
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.policy import Policy, PreferenceWeights
from berth_operator.scheduling.search import Search
from scheduling.placements import RULES
from support import builders


def pod(cards: int | requests.Ask = 0, **demand: Any) -> queued_pods.PodInfo:
    """Return a pod with these preferences."""
    return builders.pod_info(cards=cards, demand=builders.demand(**demand))


def chosen(
    inventory: Inventory, asking: queued_pods.PodInfo, policy: Policy = RULES, search: Search | None = None
) -> str | None:
    """Return the node that a pod gets."""
    search = search or Search(inventory)
    found = search.place(asking.request, asking.demand, policy=policy)
    return found.node if found is not None else None


def weighing(by: Strategy = Strategy.FRAGMENTATION, /, **weights: int) -> Policy:
    """Return a policy with these weights of preferences."""
    return Policy(by, preferences=PreferenceWeights(**weights))
