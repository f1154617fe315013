"""Nodes that are alike: what one of them says to a pod, all of them say.

Thousands of nodes are bought alike and filled alike, and a search on one of them may take
milliseconds. So what one has said can be told of the others, by what it depends on: the
devices, their wiring and their use, apart from the names of nodes, devices and pods. For
pods that name single devices no two nodes are alike.
"""

import weakref
from collections.abc import Hashable

from berth_operator.scheduling.devices import facts, requests, views


def of(view: views.View, request: requests.Request) -> Hashable:
    """Return all that the answer of a node to a request depends on; None where it is like no other.

    A board is meant, not kept: it would stay in memory as long as the answer.
    """
    if request.conditions.uuids or request.conditions.avoid_uuids:
        return None
    device = view.device
    devices = tuple(_device(view, one) for one in (*device.cards, *device.others))
    return view.open, view.withheld, device.failed, weakref.ref(device.board), devices


def _device(view: views.View, card: facts.Card) -> Hashable:
    plain = (card.type, card.model, card.memory, card.trouble, card.numa, card.root, card.mig, card.replicas)
    pieces = tuple(
        (one.profile, one.memory, one.start, one.size, view.usage(one.uuid)) for one in card.instances
    )
    functions = tuple((one.labels, one.bus in view.functions) for one in card.functions)
    return plain, card.minor, card.labels, view.usage(card.uuid), pieces, functions
