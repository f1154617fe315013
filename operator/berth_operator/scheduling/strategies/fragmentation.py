"""The default strategy: put a pod where the least of the cards' usable rest is lost.

The usable rest of a node is its free card space, but no more than its free cpu and memory
will feed, by what the workload has taught (`lessons`). A placement costs what that falls
by. Among nodes that lose equally, a share goes to the card whose remaining space is then
worth most; among equal ones, to the fullest card (whole cards: to the node with the
fewest); then to the node that has the least cpu and memory to spare beyond its cards.
These are compared strictly in this order, never added up: mixing them was tried, and is
worse. One number holds them all: a whole one of 50 bits, so that it is exact and no
node's score depends on another's.
"""

from typing import Final

import numpy as np

from berth_operator.scheduling import columns
from berth_operator.scheduling.strategies import looks

MILLI: Final = 10  # Losses are compared in thousandths of a card, spaces counted in percent.
LOSS, CARD, FULL, SPARE = 15, 7, 10, 18  # Bits: up to 32 cards, 1/UNIT, thousandths, ± 131 cards.
ALL: Final = LOSS + CARD + FULL + SPARE
UNFIT: Final = 1 << 40


def fragmentation(look: looks.Look) -> looks.Ranking:
    """Rank nodes by the usable space that would be lost."""
    middle, slot, taken = _cards(look)
    before = look.space.sum(axis=1) * MILLI
    after = before - taken
    feeds = _fed(look, 0, 0)
    feeds_after = _fed(look, look.cpu, look.node_memory)
    loss = np.minimum(before, feeds) - np.minimum(after, feeds_after)
    key = _bits(loss * look.scarcity, LOSS) * float(1 << CARD + FULL + SPARE)
    if look.need.cards:
        spare = np.clip(np.rint(feeds_after - after) + (1 << SPARE - 1), 0, (1 << SPARE) - 1)
        key += _bits(middle, CARD + FULL) * float(1 << SPARE) + spare
    else:
        # A pod without cards goes where cpu and memory feed least after it: the others stay able.
        key += _bits(feeds_after * 16, CARD + FULL + SPARE)
    return looks.Ranking(looks.BEST - key * (looks.BEST / (1 << ALL)), slot)


def _bits(values: columns.Scores | columns.Numbers, bits: int) -> columns.Scores:
    kept: columns.Scores = np.clip(np.rint(values), 0, (1 << bits) - 1)
    return kept


def _fed(look: looks.Look, cpu: int, memory: int) -> columns.Scores:
    """Say how much card space the node's cpu and memory can feed once so much of them is taken."""
    by_cpu = (look.cpu_left - cpu) * (MILLI / look.lesson.cpu)
    by_memory = (look.memory_left - memory) * (MILLI / look.lesson.memory)
    fed: columns.Scores = np.maximum(np.minimum(by_cpu, by_memory), 0.0)
    return fed


def _cards(
    look: looks.Look,
) -> tuple[columns.Numbers, columns.Numbers | None, columns.Numbers | int]:
    """Give what comes after the loss, the slot of a simple share, and the space that is taken."""
    if look.fit is None or look.share is None:
        whole = look.whole.sum(axis=1)
        return whole, None, look.taken_core() * MILLI
    after = np.maximum(look.space_after(look.share), 0)
    space, worth = look.space, np.array(look.lesson.space)
    cost = (np.maximum(worth[space] - worth[after], 0) << FULL) + space * MILLI
    cost = np.where(look.fit, cost, UNFIT)
    slot = cost.argmin(axis=1)
    at = np.arange(len(slot))
    return cost[at, slot], slot, (space - after)[at, slot] * MILLI
