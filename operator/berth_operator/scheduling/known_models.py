"""Which models of cards and MIG profiles there are, for pods that ask for one that is lacking.

Of cards that a pod lists by uuid it is only known whether any node has one of them.

Models are named as people see them in `kubectl get devices`, those of most nodes first, and
only a few of many: a sentence has room for no more.
"""

import dataclasses
import heapq
from collections.abc import Iterable
from typing import Final

import numpy as np

from berth_crds import catalog, text
from berth_operator.scheduling import node_table
from berth_operator.scheduling.decisions import Count, Reason
from berth_operator.scheduling.inventory import Inventory

NAMED: Final = 4
LONGEST_NAME: Final = 48


@dataclasses.dataclass(frozen=True, slots=True)
class Models:
    """The most frequent models and MIG profiles, and how many others there are of each."""

    named: tuple[str, ...] = ()
    others: int = 0
    profiles: tuple[str, ...] = ()
    other_profiles: int = 0
    nowhere: bool = False  # No node has any of the cards that the pod lists.


UNTOLD: Final = Models()
OF_CARDS: Final = "GPU-"  # MIG instances and other devices have uuids, too, and are not looked up.
# Who reads one of these has to know which instances there are.
OF_INSTANCES: Final = frozenset({Reason.PROFILE_MISMATCH, Reason.MIG_MODE})


def instead(counts: Iterable[Count], inventory: Inventory, uuids: frozenset[str] = frozenset()) -> Models:
    """Return the models or MIG profiles that there are, if any node lacks the one that is asked for."""
    reasons = {count.reason for count in counts}
    known = UNTOLD
    if Reason.MODEL_MISMATCH in reasons:
        first, others = _most_frequent(inventory.table.models)
        known = Models(tuple(_name(inventory, key) for key in first), others)
    if not reasons.isdisjoint(OF_INSTANCES):
        first, others = _most_frequent(inventory.table.profiles)
        known = dataclasses.replace(known, profiles=tuple(first), other_profiles=others)
    if Reason.NOT_INCLUDED in reasons and all(one.startswith(OF_CARDS) for one in uuids):
        known = dataclasses.replace(known, nowhere=not inventory.named(uuids).any())
    return known


def _most_frequent(kinds: node_table.Names) -> tuple[list[str], int]:
    """Return what most nodes have, and how many others there are."""
    nodes = {key: count for key, count in kinds.users() if key}
    first = heapq.nsmallest(NAMED, nodes, key=lambda key: (-nodes[key], key))
    return first, len(nodes) - len(first)


def _name(inventory: Inventory, key: str) -> str:
    known = catalog.find(key)
    return known.normal_name if known else _published(inventory, key)


def _published(inventory: Inventory, key: str) -> str:
    """Return how an agent spells a model that the catalog does not have, in quotes: it may say anything."""
    number = inventory.table.models.get(key)
    for at, slot in np.argwhere(inventory.table.model == number)[:1].tolist():
        info = inventory.infos[at]
        if info is not None and info.device is not None:
            return text.quoted(catalog.normal_model(info.device.cards[slot].model), most=LONGEST_NAME)
    return key
