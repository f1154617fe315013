"""The strategies that score how full a node is: binpack, spread, and the weighted mean.

Fullness is the mean, weighted as the policy says, of the used parts of compute and of
memory after the placement, so a request in bytes and one in percent are measured alike; of
replicas and MIG instances the number counts. Only the cards count that the pod may use: of
a node with two models, those of the model that it asks for. For a pod without cards, nodes
with fewer free cards come first whatever the strategy, so that work on cpus does not sit
down beside free cards. Devices that are no cards count for pods that ask for them (`other_devices`).
"""

from typing import Final

import numpy as np

from berth_operator.scheduling import node_table
from berth_operator.scheduling.strategies import other_devices, score_inputs, weighted_points

MANY: Final = 99  # Free cards and pieces; beyond that, nodes are equally bad for pods without cards.


def binpack(score_input: score_inputs.ScoreInput) -> score_inputs.Ranking:
    """Prefer the node that is fullest afterwards, and its fullest card."""
    slot, score = score_inputs.card_slot(score_input, fullest=True), _clipped(_fullness(score_input))
    if score_input.need.other_types:
        score = other_devices.mixed(score_input, score, other_devices.fullness(score_input))
    return score_inputs.Ranking(score, slot)


def spread(score_input: score_inputs.ScoreInput) -> score_inputs.Ranking:
    """Prefer the node that is emptiest afterwards, and its emptiest card."""
    score, slot = _emptiness(score_input), score_inputs.card_slot(score_input, fullest=False)
    if score_input.need.other_types:
        score = other_devices.mixed(score_input, score, 1 - other_devices.fullness(score_input))
    return score_inputs.Ranking(score, slot)


def weighted(score_input: score_inputs.ScoreInput) -> score_inputs.Ranking:
    """Prefer large hardware with much of it free: each part relative to the largest node of the cluster.

    What the node has counts for one third, what is left of it for two thirds. The policy may give weights to
    further points (`points`).
    """
    if not score_input.need.cards:
        score, slot = _emptiness(score_input), None
    else:
        score, slot = _weighted(score_input)
    if score_input.need.other_types:
        score = other_devices.mixed(score_input, score, other_devices.plenty(score_input))
    return score_inputs.Ranking(score, slot)


def _weighted(
    score_input: score_inputs.ScoreInput,
) -> tuple[node_table.Scores, node_table.Numbers | None]:
    """Return how large and how free the hardware is for a pod with cards, and the card for a simple share."""
    cards, memory = node_table.count(score_input.usable), score_input.total_of_usable(score_input.total)
    static = score_input.weights.mean(cards / score_input.scale.cards, memory / score_input.scale.memory)
    left_core = score_input.total_of_usable(score_input.core_left) / (100 * score_input.scale.cards)
    left_memory = score_input.total_of_usable(score_input.memory) / score_input.scale.memory
    dynamic = score_input.weights.mean(left_core, left_memory)
    weights, score = score_input.weights, _clipped(score_inputs.BEST * (static + 2 * dynamic) / 3)
    if weights.hardware or weights.load:
        score = _clipped(weighted_points.mixed(score_input, score))
    if weights.load:
        return score, weighted_points.card_slot(score_input)
    return score, score_inputs.card_slot(score_input, fullest=False)


def _emptiness(score_input: score_inputs.ScoreInput) -> node_table.Scores:
    if not score_input.need.cards:
        return _clipped(_without_cards(score_input, empty=True))
    return _clipped(score_inputs.BEST - _fullness(score_input))


def _fullness(score_input: score_inputs.ScoreInput) -> node_table.Scores:
    if not score_input.need.cards:
        return _without_cards(score_input, empty=False)
    if score_input.taken_pieces():
        return score_inputs.BEST * (
            1 - (score_input.pieces_left - score_input.taken_pieces()) / np.maximum(score_input.pieces, 1)
        )
    cards = np.maximum(node_table.count(score_input.usable), 1)
    total = np.maximum(score_input.total_of_usable(score_input.total), 1)
    left = score_input.total_of_usable(score_input.core_left) - score_input.taken_of_limit()
    core = left / (100 * cards)
    memory = (score_input.total_of_usable(score_input.memory) - score_input.taken_memory()) / total
    full: node_table.Scores = score_inputs.BEST * (1 - score_input.weights.mean(core, memory))
    return full


def _without_cards(score_input: score_inputs.ScoreInput, *, empty: bool) -> node_table.Scores:
    """Prefer nodes with few free cards or pieces of cards, and the full or the empty ones among them."""
    free = np.minimum(node_table.count(score_input.unused) + score_input.pieces_left, MANY)
    cpu = np.clip((score_input.cpu_left - score_input.cpu) / np.maximum(score_input.cpu_total, 1), 0, 1)
    # One free card or piece more outweighs all of the cpu.
    score: node_table.Scores = score_inputs.BEST * (MANY - free + (cpu if empty else 1 - cpu)) / (MANY + 1)
    return score


def _clipped(score: node_table.Scores) -> node_table.Scores:
    clipped: node_table.Scores = np.clip(score, 0.0, score_inputs.BEST)
    return clipped
