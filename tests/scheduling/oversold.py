"""Pods and cards for what is said and decided of core that a policy oversells."""

import dataclasses
from typing import Final

from berth_operator.scheduling import queued_pods
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.policy import Oversale, Policy
from support import builders

GIB: Final = builders.GIB
BATCH: Final = "batch"
OVERSALE: Final = Oversale(150, frozenset({BATCH, "spare"}))
RULES: Final = Policy(oversale=OVERSALE)
WHOLE: Final = requests.cards(1)


def part(core: int, gib: int = 1, count: int = 1) -> requests.Gpus:
    """Ask for a part of each of so many cards."""
    return requests.Gpus(count, core=core, memory=gib * GIB)


def pod(name: str, ask: builders.Asks, *more: builders.Asks, of: str = BATCH) -> queued_pods.PodInfo:
    """Return a pod of a PriorityClass that waits."""
    return builders.pod_info(name, request=builders.request(ask, *more), priority_class=of)


def holder(name: str, core: int, gib: int = 1, *, minor: int = 0, limit: int = 0) -> Hold:
    """Return a pod that has a part of a card; one with all the core has a record of that."""
    limit = limit or (100 if core >= 100 else 0)
    share = builders.share(minor, core=core, memory=gib * GIB)
    return builders.hold(name, shares=[dataclasses.replace(share, core_limit=limit)])


def one_card(*held: Hold, card: PhysicalDevice | None = None) -> Inventory:
    """Return a node with one card, and what pods hold of it."""
    return builders.inventory(builders.node(), builders.device(cards=[card or builders.card()]), *held)
