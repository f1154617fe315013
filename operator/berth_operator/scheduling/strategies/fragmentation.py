"""The default strategy: put a pod where the least usable card space is lost.

The usable space of a node is the free space on its cards, but no more than its free cpu and memory
support, as the workload shows (`demand_model`). A placement costs what the usable space falls by. Among
nodes that lose equally, a share goes to the card whose remaining space is then
worth most; among equal ones, to the fullest card (whole cards, replicas and instances: to
the node with the fewest left); then, where the pod asks for other devices as well, to the node where these
are fullest (`other_devices`); then to the node that has the least cpu and memory to spare beyond its cards.
These are compared strictly in this order, never added up: mixing them was tried, and is
worse. One number holds them all: a whole one of 50 bits, so that it is exact and no
node's score depends on another's.
"""

import functools
from typing import Final

import numpy as np

from berth_operator.scheduling import node_table
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.strategies import other_devices, score_inputs

THOUSANDTHS_PER_PERCENT: Final = (
    10  # Losses are compared in thousandths of a card, spaces counted in percent.
)
# The bits of each part of a score: a loss in thousandths of up to 32 cards; what the space that remains on
# the card is worth, in 1/`demand_model.UNIT`; how full the card is, in thousandths; how many cards more its
# cpu and memory would support, in thousandths.
LOSS, CARD, FULL, SPARE = 15, 7, 10, 18
ALL: Final = LOSS + CARD + FULL + SPARE
# One step of the loss and of what remains on the card, in a whole score; and of a score in points.
LOSS_STEP: Final = float(1 << CARD + FULL + SPARE)
CARD_STEP: Final = float(1 << SPARE)
POINT_STEP: Final = score_inputs.BEST / (1 << ALL)
MOST_LOSS: Final = float((1 << LOSS) - 1)
MOST_OF_CARD: Final = float((1 << CARD + FULL) - 1)
MOST_SPARE: Final = float((1 << SPARE) - 1)
# For a pod that asks for other devices as well, these decide before the cpu and memory to spare, which then
# count in fewer steps: how full the devices are.
OTHERS: Final = 8
UNFIT: Final = 1 << 40


def fragmentation(score_input: score_inputs.ScoreInput) -> score_inputs.Ranking:
    """Rank nodes by the usable space that would be lost."""
    middle, slot, taken = _cards(score_input)
    before = node_table.total(score_input.space) * THOUSANDTHS_PER_PERCENT
    after = before - taken
    feeds, feeds_after = _fed(score_input)
    loss = np.minimum(before, feeds) - np.minimum(after, feeds_after)
    if score_input.model.surplus:
        loss *= score_input.scarcity
    key = np.minimum(np.rint(loss), MOST_LOSS) * LOSS_STEP
    if score_input.need.cards:
        spare = np.rint(feeds_after - after) + float(1 << SPARE - 1)
        key += np.minimum(middle, MOST_OF_CARD) * CARD_STEP
        spare = np.minimum(np.maximum(spare, 0.0), MOST_SPARE)
        key += _after_others(score_input, spare, SPARE)
    else:
        # A pod without cards goes where there is none, then where cpu and memory feed least after it.
        bits = CARD + FULL + SPARE - 1
        fed = np.minimum(np.rint(feeds_after * 16), _top(bits))
        key += _after_others(score_input, fed, bits) + score_input.served * float(1 << bits)
    return score_inputs.Ranking(score_inputs.BEST - key * POINT_STEP, slot)


def _after_others(
    score_input: score_inputs.ScoreInput, part: node_table.Scores, bits: int
) -> node_table.Scores:
    """Return the last bits of a score, so many, behind how full the other devices are, if any count."""
    if not score_input.need.other_types:
        return part
    empty = np.rint((1 - other_devices.fullness(score_input)) * _top(OTHERS))
    together: node_table.Scores = empty * float(1 << bits - OTHERS) + np.floor(part / (1 << OTHERS))
    return together


def _top(bits: int) -> float:
    return float((1 << bits) - 1)


def _fed(score_input: score_inputs.ScoreInput) -> tuple[node_table.Scores, node_table.Scores]:
    """Return how much card space the node's cpu and memory can feed, before and after the placement."""
    for_cpu, for_memory = (
        THOUSANDTHS_PER_PERCENT / score_input.model.cpu,
        THOUSANDTHS_PER_PERCENT / score_input.model.memory,
    )
    by_cpu, by_memory = score_input.cpu_left * for_cpu, score_input.memory_left * for_memory
    before: node_table.Scores = np.maximum(np.minimum(by_cpu, by_memory), 0.0)
    by_cpu -= score_input.cpu * for_cpu
    by_memory -= score_input.node_memory * for_memory
    after: node_table.Scores = np.maximum(np.minimum(by_cpu, by_memory), 0.0)
    return before, after


def _cards(
    score_input: score_inputs.ScoreInput,
) -> tuple[node_table.Numbers, node_table.Numbers | None, node_table.Numbers | int]:
    """Return what comes after the loss, the slot of a simple share, and the space that is taken."""
    if score_input.cards_with_room is None or score_input.share is None:
        # Of cut cards those go first that are nearly given out.
        rest = score_input.pieces_left if score_input.taken_pieces() else node_table.count(score_input.whole)
        return rest, None, score_input.taken_core() * THOUSANDTHS_PER_PERCENT
    # Cost and slot in one number: so the cheapest card of each node is one minimum over columns.
    bits = score_input.cards_with_room.shape[1].bit_length()
    cost = (_costs(score_input, score_input.share) << bits) + np.arange(score_input.cards_with_room.shape[1])
    cost += ~score_input.cards_with_room * (UNFIT << bits)
    cheapest = cost.min(axis=1)
    slot: node_table.Numbers = cheapest & (1 << bits) - 1
    return cheapest >> bits, slot, _taken(score_input, score_input.share, slot) * THOUSANDTHS_PER_PERCENT


def _costs(score_input: score_inputs.ScoreInput, ask: requests.Gpus) -> node_table.Numbers:
    """Return what a share would cost on each card."""
    if ask.memory == 0:
        found: node_table.Numbers = node_table.gather(
            _costs_by_space(score_input.model.space, ask.percent), score_input.space
        )
        return found
    return _cost(
        np.array(score_input.model.space), score_input.space, np.maximum(score_input.space_after(ask), 0)
    )


@functools.lru_cache(maxsize=1024)
def _costs_by_space(worth: tuple[int, ...], percent: int) -> node_table.Numbers:
    """Return what a share in percent costs on a card with so much space: a hundred answers serve all."""
    space = np.arange(len(worth))
    return _cost(np.array(worth), space, np.maximum(space - percent, 0))


def _cost(
    worth: node_table.Numbers, space: node_table.Numbers, after: node_table.Numbers
) -> node_table.Numbers:
    """Put first what the space loses in worth, then how much of it there is."""
    cost: node_table.Numbers = (
        np.maximum(worth[space] - worth[after], 0) << FULL
    ) + space * THOUSANDTHS_PER_PERCENT
    return cost


def _taken(
    score_input: score_inputs.ScoreInput, ask: requests.Gpus, slot: node_table.Numbers
) -> node_table.Numbers:
    chosen = np.arange(len(slot)), slot
    space = score_input.space[chosen]
    if ask.memory == 0:
        return np.minimum(space, ask.percent)
    taken: node_table.Numbers = space - np.maximum(score_input.space_after(ask), 0)[chosen]
    return taken
