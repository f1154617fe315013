"""The strategies that look at how full a node is: binpack, spread, and the weighted mean.

Fullness is the mean, weighted as the policy says, of the used parts of compute and of
memory over the node's cards after the placement, so a request in bytes and one in percent
are measured alike; of replicas and MIG instances the number counts. For a pod without
cards, nodes with fewer free cards come first whatever the strategy, so that work on cpus
does not sit down beside free cards.
"""

from typing import Final

import numpy as np

from berth_operator.scheduling import columns
from berth_operator.scheduling.strategies import looks

MANY: Final = 99  # Free cards and pieces; beyond that, nodes are equally bad for pods without cards.


def binpack(look: looks.Look) -> looks.Ranking:
    """Prefer the node that is fullest afterwards, and its fullest card."""
    slot = looks.fullest_slot(look) if look.fit is not None else None
    return looks.Ranking(_clipped(_fullness(look)), slot)


def spread(look: looks.Look) -> looks.Ranking:
    """Prefer the node that is emptiest afterwards, and its emptiest card."""
    if not look.need.cards:
        return looks.Ranking(_clipped(_without_cards(look, empty=True)))
    slot = looks.emptiest_slot(look) if look.fit is not None else None
    return looks.Ranking(_clipped(looks.BEST - _fullness(look)), slot)


def weighted(look: looks.Look) -> looks.Ranking:
    """Prefer large hardware with much of it free: each part relative to the largest node of the cluster.

    The static half says what the node has, the dynamic half what is left of it.
    """
    if not look.need.cards:
        return spread(look)
    cards, memory = columns.count(look.open), np.where(look.open, look.total, 0).sum(axis=1)
    static = look.weights.mean(cards / look.scale.cards, memory / look.scale.memory)
    left_core = look.core.sum(axis=1) / (100 * look.scale.cards)
    left_memory = look.memory.sum(axis=1) / look.scale.memory
    dynamic = look.weights.mean(left_core, left_memory)
    slot = looks.emptiest_slot(look) if look.fit is not None else None
    return looks.Ranking(_clipped(looks.BEST * (static + 2 * dynamic) / 3), slot)


def _fullness(look: looks.Look) -> columns.Scores:
    if not look.need.cards:
        return _without_cards(look, empty=False)
    if look.taken_pieces():
        return looks.BEST * (1 - (look.pieces_left - look.taken_pieces()) / np.maximum(look.pieces, 1))
    cards = np.maximum(columns.count(look.open), 1)
    total = np.maximum(np.where(look.open, look.total, 0).sum(axis=1), 1)
    core = (look.core.sum(axis=1) - look.taken_core()) / (100 * cards)
    memory = (look.memory.sum(axis=1) - look.taken_memory()) / total
    full: columns.Scores = looks.BEST * (1 - look.weights.mean(core, memory))
    return full


def _without_cards(look: looks.Look, *, empty: bool) -> columns.Scores:
    """Prefer nodes with few free cards or pieces of cards, and the full or the empty ones among them."""
    free = np.minimum(columns.count(look.whole) + look.pieces_left, MANY)
    cpu = np.clip((look.cpu_left - look.cpu) / np.maximum(look.cpu_total, 1), 0, 1)
    # One free card or piece more outweighs all of the cpu.
    score: columns.Scores = looks.BEST * (MANY - free + (cpu if empty else 1 - cpu)) / (MANY + 1)
    return score


def _clipped(score: columns.Scores) -> columns.Scores:
    clipped: columns.Scores = np.clip(score, 0.0, looks.BEST)
    return clipped
