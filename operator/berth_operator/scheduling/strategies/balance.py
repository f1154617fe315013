"""The strategies that look at how full a node is: binpack, spread, and the weighted mean.

Fullness is the mean, weighted as the policy says, of the used parts of compute and of
memory over the node's cards after the placement, so a request in bytes and one in percent
are measured alike. For a pod without cards, nodes with fewer free cards come first and
fuller ones among them, so that work on cpus does not sit down beside free cards.
"""

import numpy as np

from berth_operator.scheduling import columns
from berth_operator.scheduling.strategies import looks


def binpack(look: looks.Look) -> looks.Ranking:
    """Prefer the node that is fullest afterwards, and its fullest card."""
    slot = looks.fullest_slot(look) if look.fit is not None else None
    return looks.Ranking(_clipped(_fullness(look)), slot)


def spread(look: looks.Look) -> looks.Ranking:
    """Prefer the node that is emptiest afterwards, and its emptiest card."""
    slot = looks.emptiest_slot(look) if look.fit is not None else None
    return looks.Ranking(_clipped(looks.BEST - _fullness(look)), slot)


def weighted(look: looks.Look) -> looks.Ranking:
    """Prefer large hardware with much of it free: each part relative to the largest node of the cluster.

    The static half says what the node has, the dynamic half what is left of it.
    """
    cards, memory = columns.count(look.open), np.where(look.open, look.total, 0).sum(axis=1)
    static = look.weights.mean(cards / look.scale.cards, memory / look.scale.memory)
    left_core = look.core.sum(axis=1) / (100 * look.scale.cards)
    left_memory = look.memory.sum(axis=1) / look.scale.memory
    dynamic = look.weights.mean(left_core, left_memory)
    slot = looks.emptiest_slot(look) if look.fit is not None else None
    return looks.Ranking(_clipped(looks.BEST * (static + 2 * dynamic) / 3), slot)


def _fullness(look: looks.Look) -> columns.Scores:
    if not look.need.cards:
        return _without_cards(look)
    cards = np.maximum(columns.count(look.open), 1)
    total = np.maximum(np.where(look.open, look.total, 0).sum(axis=1), 1)
    core = (look.core.sum(axis=1) - look.taken_core()) / (100 * cards)
    memory = (look.memory.sum(axis=1) - look.taken_memory()) / total
    full: columns.Scores = looks.BEST * (1 - look.weights.mean(core, memory))
    return full


def _without_cards(look: looks.Look) -> columns.Scores:
    cards = 1 - columns.count(look.whole) / look.scale.cards
    cpu = 1 - (look.cpu_left - look.cpu) / np.maximum(look.cpu_total, 1)
    full: columns.Scores = looks.BEST * (0.9 * cards + 0.1 * cpu)
    return full


def _clipped(score: columns.Scores) -> columns.Scores:
    clipped: columns.Scores = np.clip(score, 0.0, looks.BEST)
    return clipped
