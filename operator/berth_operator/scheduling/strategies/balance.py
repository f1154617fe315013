"""The strategies that look at how full a node is: binpack, spread, and the weighted mean.

Fullness is the mean, weighted as the policy says, of the used parts of compute and of
memory over the node's cards after the placement, so a request in bytes and one in percent
are measured alike; of replicas and MIG instances the number counts. For a pod without
cards, nodes with fewer free cards come first whatever the strategy, so that work on cpus
does not sit down beside free cards.
"""

from typing import Final

import numpy as np

from berth_operator.scheduling import node_table
from berth_operator.scheduling.strategies import score_inputs

MANY: Final = 99  # Free cards and pieces; beyond that, nodes are equally bad for pods without cards.


def binpack(look: score_inputs.Look) -> score_inputs.Ranking:
    """Prefer the node that is fullest afterwards, and its fullest card."""
    slot = score_inputs.fullest_slot(look) if look.fit is not None else None
    return score_inputs.Ranking(_clipped(_fullness(look)), slot)


def spread(look: score_inputs.Look) -> score_inputs.Ranking:
    """Prefer the node that is emptiest afterwards, and its emptiest card."""
    if not look.need.cards:
        return score_inputs.Ranking(_clipped(_without_cards(look, empty=True)))
    slot = score_inputs.emptiest_slot(look) if look.fit is not None else None
    return score_inputs.Ranking(_clipped(score_inputs.BEST - _fullness(look)), slot)


def weighted(look: score_inputs.Look) -> score_inputs.Ranking:
    """Prefer large hardware with much of it free: each part relative to the largest node of the cluster.

    The static half says what the node has, the dynamic half what is left of it.
    """
    if not look.need.cards:
        return spread(look)
    cards, memory = node_table.count(look.open), np.where(look.open, look.total, 0).sum(axis=1)
    static = look.weights.mean(cards / look.scale.cards, memory / look.scale.memory)
    left_core = look.core.sum(axis=1) / (100 * look.scale.cards)
    left_memory = look.memory.sum(axis=1) / look.scale.memory
    dynamic = look.weights.mean(left_core, left_memory)
    slot = score_inputs.emptiest_slot(look) if look.fit is not None else None
    return score_inputs.Ranking(_clipped(score_inputs.BEST * (static + 2 * dynamic) / 3), slot)


def _fullness(look: score_inputs.Look) -> node_table.Scores:
    if not look.need.cards:
        return _without_cards(look, empty=False)
    if look.taken_pieces():
        return score_inputs.BEST * (1 - (look.pieces_left - look.taken_pieces()) / np.maximum(look.pieces, 1))
    cards = np.maximum(node_table.count(look.open), 1)
    total = np.maximum(np.where(look.open, look.total, 0).sum(axis=1), 1)
    core = (look.core.sum(axis=1) - look.taken_core()) / (100 * cards)
    memory = (look.memory.sum(axis=1) - look.taken_memory()) / total
    full: node_table.Scores = score_inputs.BEST * (1 - look.weights.mean(core, memory))
    return full


def _without_cards(look: score_inputs.Look, *, empty: bool) -> node_table.Scores:
    """Prefer nodes with few free cards or pieces of cards, and the full or the empty ones among them."""
    free = np.minimum(node_table.count(look.whole) + look.pieces_left, MANY)
    cpu = np.clip((look.cpu_left - look.cpu) / np.maximum(look.cpu_total, 1), 0, 1)
    # One free card or piece more outweighs all of the cpu.
    score: node_table.Scores = score_inputs.BEST * (MANY - free + (cpu if empty else 1 - cpu)) / (MANY + 1)
    return score


def _clipped(score: node_table.Scores) -> node_table.Scores:
    clipped: node_table.Scores = np.clip(score, 0.0, score_inputs.BEST)
    return clipped
