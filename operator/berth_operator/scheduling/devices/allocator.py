"""Which cards of which node: the search for a place.

First every node is asked at once whether it could take the pod, then the strategy ranks
those that can, then the cards are picked on the best one.
"""

import numpy as np

from berth_operator.scheduling import decisions, inventory, policy
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts


def place(
    picture: inventory.Inventory, request: requests.Request, demand: facts.Demand, *, rules: policy.Policy
) -> decisions.Placement | None:
    """Find the best node and cards for a pod, or None where nothing fits."""
    able = able_nodes(picture, request, demand)
    best = best_node(picture, able, rules)
    if best is None:
        return None
    cards = pick_cards(picture, best, request)
    return decisions.Placement(best.name, requests.deal(request, cards))


def able_nodes(
    picture: inventory.Inventory, request: requests.Request, demand: facts.Demand
) -> inventory.Mask:
    """Tell which nodes could take the pod now."""
    able = picture.spots(demand.where) & picture.room(demand)
    if request.cards:
        # What is withheld without a name may be any card, so it counts against each choice.
        free = picture.free_matching(request.models).sum(axis=1) - picture.withheld[: picture.size]
        able &= free >= request.cards
    return able


def best_node(
    picture: inventory.Inventory, able: inventory.Mask, rules: policy.Policy
) -> inventory.Row | None:
    """Take the lowest score among the able; equal ones by name."""
    rows = np.flatnonzero(able)
    if not len(rows):
        return None
    scores = policy.STRATEGIES[rules.strategy](picture)[rows]
    first = int(rows[np.lexsort((picture.rank()[rows], scores))[0]])
    return picture.rows[first]


def pick_cards(
    picture: inventory.Inventory, row: inventory.Row, request: requests.Request
) -> tuple[decisions.Share, ...]:
    """Take the free cards with the lowest minors that meet the conditions."""
    if not request.cards or row.device is None:
        return ()
    free = picture.free_matching(request.models)[picture.index[row.name]]
    cards = [row.device.cards[slot] for slot in np.flatnonzero(free)[: request.cards]]
    return tuple(decisions.Share(card.uuid, card.minor, 100, card.memory) for card in cards)
