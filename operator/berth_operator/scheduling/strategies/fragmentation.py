"""The default strategy: put a pod where the least usable card space is lost.

The usable space of a node is the free space on its cards, but no more than its free cpu and memory
support, as the workload shows (`workload_model`), and less where these run out before the cards. A
placement costs what the usable space falls by. Among nodes that lose equally, a share goes to the card
whose remaining space is then worth most; among equal ones, to the fullest card (whole cards, replicas and
instances: to the node with the fewest left); then, where the pod asks for other devices as well, to the
node where these are fullest (`other_devices`); then to the node that has the least cpu and memory to spare
beyond its cards. These are compared strictly in this order, never added up: mixing them was tried, and is
worse. One number holds them all: a whole one of 50 bits, so that it is exact and no node's score depends
on another's.
"""

import functools
from typing import Final, NamedTuple

import numpy as np

from berth_operator.scheduling import node_table
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.strategies import other_devices, score_inputs

# The bits of each part of a score: a loss in thousandths of up to 32 cards; what the space that remains on
# the card is worth, in 1/`workload_model.UNIT`; how full the card is, in thousandths; how many cards more its
# cpu and memory would support, in thousandths.
LOSS, CARD, FULL, SPARE = 15, 7, 10, 18
ALL: Final = LOSS + CARD + FULL + SPARE
# For a pod that asks for other devices as well, these decide before the cpu and memory to spare, which then
# count in fewer steps: how full the devices are.
OTHERS: Final = 8
UNFIT: Final = 1 << 40
# Constants for numpy, which needs half as long again for a number of Python.
THOUSANDTHS_PER_PERCENT: Final = np.array(10)  # Losses are in thousandths of a card, spaces in percent.
NOTHING, ONE = np.array(0.0), np.array(1.0)
LOSS_STEP, CARD_STEP = (np.array(float(1 << bits)) for bits in (CARD + FULL + SPARE, SPARE))
MOST_LOSS, MOST_SPARE = (np.array(float((1 << bits) - 1)) for bits in (LOSS, SPARE))
MOST_OF_CARD: Final = np.array((1 << CARD + FULL) - 1)
MIDDLE_OF_SPARE: Final = np.array(float(1 << SPARE - 1))
BEST: Final = np.array(score_inputs.BEST)
POINTS: Final = np.array(score_inputs.BEST / (1 << ALL))  # Of one step of a whole score.


def fragmentation(score_input: score_inputs.ScoreInput) -> score_inputs.Ranking:
    """Rank nodes by the usable space that would be lost."""
    space = score_input.space
    middle, slot, taken = _cards(score_input, space)
    before = node_table.total(space) * THOUSANDTHS_PER_PERCENT
    after = before - taken
    feeds, feeds_after = _fed(score_input)
    usable = _usable_if_scarce if score_input.model.scarce else np.minimum
    loss = usable(before, feeds) - usable(after, feeds_after)
    if score_input.model.surplus:
        loss *= score_input.scarcity
    key = np.minimum(np.rint(loss), MOST_LOSS) * LOSS_STEP
    if score_input.need.cards:
        spare = np.rint(feeds_after - after) + MIDDLE_OF_SPARE
        key += np.minimum(middle, MOST_OF_CARD) * CARD_STEP
        spare = np.minimum(np.maximum(spare, NOTHING), MOST_SPARE)
        key += _after_others(score_input, spare, SPARE)
    else:
        # A pod without cards goes where there is none, then where cpu and memory feed least after it.
        bits = CARD + FULL + SPARE - 1
        fed = np.minimum(np.rint(feeds_after * 16), float((1 << bits) - 1))
        key += _after_others(score_input, fed, bits) + score_input.served * float(1 << bits)
    return score_inputs.Ranking(BEST - key * POINTS, slot)


def _usable_if_scarce(space: node_table.Scores, fed: node_table.Scores) -> node_table.Scores:
    """Return how much card space is usable where cpu or memory run out before the cards.

    It is at most the smaller of the two, and falls further below that the closer they are to each other,
    because pods ask for more cpu or less than the average. So a placement costs least where it takes what
    the node has plenty of.
    """
    together = np.sqrt(np.square(space, dtype=np.float64) + np.square(fed))
    usable: node_table.Scores = space * fed / np.maximum(together, ONE)
    return usable


def _after_others(
    score_input: score_inputs.ScoreInput, part: node_table.Scores, bits: int
) -> node_table.Scores:
    """Return the last bits of a score, so many, behind how full the other devices are, if any count."""
    if not score_input.need.other_types:
        return part
    empty = np.rint((1 - other_devices.fullness(score_input)) * float((1 << OTHERS) - 1))
    together: node_table.Scores = empty * float(1 << bits - OTHERS) + np.floor(part / (1 << OTHERS))
    return together


def _fed(score_input: score_inputs.ScoreInput) -> tuple[node_table.Scores, node_table.Scores]:
    """Return how much card space the node's cpu and memory can feed, before and after the placement."""
    model = score_input.model
    for_cpu, for_memory, cpu, memory = _feeding(
        model.cpu, model.memory, score_input.cpu, score_input.node_memory
    )
    by_cpu, by_memory = score_input.cpu_left * for_cpu, score_input.memory_left * for_memory
    before: node_table.Scores = np.maximum(np.minimum(by_cpu, by_memory), NOTHING)
    by_cpu -= cpu
    by_memory -= memory
    after: node_table.Scores = np.maximum(np.minimum(by_cpu, by_memory), NOTHING)
    return before, after


@functools.lru_cache(maxsize=1024)
def _feeding(cpu_each: float, memory_each: float, cpu: int, memory: int) -> tuple[node_table.Scores, ...]:
    """Return how much card space a unit of cpu feeds, and one of memory; and so much of each together."""
    for_cpu, for_memory = (int(THOUSANDTHS_PER_PERCENT) / each for each in (cpu_each, memory_each))
    return np.array(for_cpu), np.array(for_memory), np.array(cpu * for_cpu), np.array(memory * for_memory)


def _cards(
    score_input: score_inputs.ScoreInput, space: node_table.Numbers
) -> tuple[node_table.Numbers, node_table.Numbers | None, node_table.Numbers | int]:
    """Return what comes after the loss, the slot of a simple share, and the space that is taken."""
    if score_input.cards_with_room is None or score_input.share is None:
        # Of cut cards those go first that are nearly given out.
        rest = score_input.pieces_left if score_input.taken_pieces() else node_table.count(score_input.unused)
        return rest, None, score_input.taken_core() * int(THOUSANDTHS_PER_PERCENT)
    # Cost and slot in one number: so the cheapest card of each node is one minimum over columns.
    slots = _numbered_slots(score_input.cards_with_room.shape[1])
    cost = (_costs(score_input, score_input.share, space) << slots.bits) + slots.numbers
    cost += ~score_input.cards_with_room * slots.unfit
    cheapest = np.minimum.reduce(cost, axis=1)
    slot: node_table.Numbers = cheapest & slots.mask
    taken = _taken(score_input, score_input.share, slot, space) * THOUSANDTHS_PER_PERCENT
    return cheapest >> slots.bits, slot, taken


class _Slots(NamedTuple):
    """The numbers of so many slots, how many bits they take, and what is added where a card does not fit."""

    numbers: node_table.Numbers
    bits: node_table.Numbers
    mask: node_table.Numbers
    unfit: node_table.Numbers


@functools.cache
def _numbered_slots(count: int) -> _Slots:
    bits = count.bit_length()
    return _Slots(np.arange(count), np.array(bits), np.array((1 << bits) - 1), np.array(UNFIT << bits))


def _costs(
    score_input: score_inputs.ScoreInput, ask: requests.Gpus, space: node_table.Numbers
) -> node_table.Numbers:
    """Return what a share would cost on each card."""
    if ask.memory == 0:
        found: node_table.Numbers = node_table.gather(
            _costs_by_space(score_input.model.space, ask.percent), space
        )
        return found
    return _cost(np.array(score_input.model.space), space, np.maximum(score_input.space_after(ask), 0))


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
    score_input: score_inputs.ScoreInput,
    ask: requests.Gpus,
    slot: node_table.Numbers,
    space: node_table.Numbers,
) -> node_table.Numbers:
    chosen = np.arange(len(slot)), slot
    if ask.memory == 0:
        return np.minimum(space[chosen], ask.percent)
    taken: node_table.Numbers = space[chosen] - np.maximum(score_input.space_after(ask), 0)[chosen]
    return taken
