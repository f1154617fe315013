"""Which models of cards there are, for pods that ask for one that is lacking.

Models are named as people see them in `kubectl get devices`, those of most nodes first, and
only a few of many: a sentence has room for no more.
"""

import dataclasses
import heapq
from collections.abc import Iterable
from typing import Final

import numpy as np

from berth_crds import catalog
from berth_operator.scheduling import inventory
from berth_operator.scheduling.decisions import Count, Reason

NAMED: Final = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Models:
    """The most frequent models, and how many others there are."""

    named: tuple[str, ...] = ()
    others: int = 0


UNTOLD: Final = Models()


def instead(counts: Iterable[Count], picture: inventory.Inventory) -> Models:
    """Return the models that there are, if any node lacks the one that is asked for."""
    lacking = any(count.reason is Reason.MODEL_MISMATCH for count in counts)
    return _there(picture) if lacking else UNTOLD


def _there(picture: inventory.Inventory) -> Models:
    nodes = {key: count for key, count in picture.columns.models.users() if key}
    first = heapq.nsmallest(NAMED, nodes, key=lambda key: (-nodes[key], key))
    return Models(tuple(_name(picture, key) for key in first), len(nodes) - len(first))


def _name(picture: inventory.Inventory, key: str) -> str:
    known = catalog.find(key)
    return known.normal_name if known else _published(picture, key)


def _published(picture: inventory.Inventory, key: str) -> str:
    """Return how an agent spells a model that the catalog does not have."""
    number = picture.columns.models.get(key)
    for at, slot in np.argwhere(picture.columns.model == number)[:1].tolist():
        device = picture.device_at(at)
        if device is not None:
            return catalog.normal_model(device.cards[slot].model)
    return key
