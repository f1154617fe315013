"""What a strategy sees: a question, and the numbers of the nodes it is put to.

Arrays have one entry for each node in question, matrices one column more for each card.
All quantities are those before the placement; `core` and `memory` say what the pod
would take of a card, or of all its cards together, in percent and bytes.
"""

import dataclasses
from typing import Final

import numpy as np

from berth_operator.scheduling import columns, lessons
from berth_operator.scheduling.devices import requests

NO_SLOT: Final = -1
BEST: Final = 100.0


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """Some nodes, and a question to them."""

    need: requests.Need
    fit: columns.Mask | None  # [node, slot]: cards that could take the simple share.
    core: columns.Numbers  # [node, slot]: free percent of cards that are given out.
    memory: columns.Numbers  # [node, slot]: free bytes of them.
    total: columns.Numbers  # [node, slot]: bytes they have.
    whole: columns.Mask  # [node, slot]: nobody holds anything of them.
    open: columns.Mask  # [node, slot]: they are given out at all.
    cpu_left: columns.Numbers  # [node]
    cpu_total: columns.Numbers  # [node]
    memory_left: columns.Numbers  # [node]
    scarcity: columns.Scores | float  # [node]: what the node's cards are worth, 1 unless they are in surplus
    cpu: int  # what the pod asks of the node
    node_memory: int  # likewise
    lesson: lessons.Lesson
    scale: "Scale"

    @property
    def share(self) -> requests.Gpus | None:
        """The simple share that is asked, if that is what it is."""
        return self.need.shares[0] if self.need.simple and self.need.shares else None

    def space(self) -> columns.Numbers:
        """Say how much of each card is left, in percent: the scarcer of compute and memory."""
        left: columns.Numbers = np.minimum(self.core, _percent(self.memory, self.total))
        return left

    def space_after(self, ask: requests.Gpus) -> columns.Numbers:
        """Say how much would be left of each card after a share is taken."""
        taken = -(-self.total * ask.ratio // requests.WHOLE) if ask.ratio else ask.memory
        left: columns.Numbers = np.minimum(self.core - ask.core, _percent(self.memory - taken, self.total))
        return left

    def taken_core(self) -> int:
        """Say how much compute the pod would take of the node's cards, in percent."""
        return self.need.whole * requests.WHOLE + sum(ask.core * ask.count for ask in self.need.shares)

    def taken_memory(self) -> columns.Scores:
        """Say how much memory the pod would take of each node's cards, in bytes."""
        cards = np.maximum(self.open.sum(axis=1), 1)
        mean = np.where(self.open, self.total, 0).sum(axis=1) / cards
        taken = self.need.whole * mean
        for ask in self.need.shares:
            taken = taken + ask.count * (mean * ask.ratio / requests.WHOLE if ask.ratio else ask.memory)
        return taken


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """The largest node of the cluster, to compare others with."""

    cards: int = 1
    memory: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Ranking:
    """How good each node is, 0 to 100, and which slot of it a simple share should come from."""

    score: columns.Scores
    slot: columns.Numbers | None = None


def _percent(memory: columns.Numbers, total: columns.Numbers) -> columns.Numbers:
    """Memory in percent of the card, rounded down; a card of unknown size is judged by its compute alone."""
    percent: columns.Numbers = np.where(
        total > 0, memory * requests.WHOLE // np.maximum(total, 1), requests.WHOLE
    )
    return percent


def fullest_slot(look: Look) -> columns.Numbers:
    """Choose for each node the started card that fits and has least left; then the lowest."""
    assert look.fit is not None, "asked for a simple share"  # noqa: S101
    left = np.where(look.fit, look.core * _SPAN + _memory_part(look), _NEVER)
    slot: columns.Numbers = left.argmin(axis=1)
    return slot


def emptiest_slot(look: Look) -> columns.Numbers:
    """Choose for each node the card that fits and has most left; then the lowest."""
    assert look.fit is not None, "asked for a simple share"  # noqa: S101
    left = np.where(look.fit, look.core * _SPAN + _memory_part(look), -1)
    slot: columns.Numbers = left.argmax(axis=1)
    return slot


_SPAN: Final = 1 << 20
_NEVER: Final = 1 << 40


def _memory_part(look: Look) -> columns.Numbers:
    """Free memory in millionths of the card, to compare cards whose free compute is equal."""
    scaled = look.memory / np.maximum(look.total, 1)
    part: columns.Numbers = (scaled * (_SPAN - 1)).astype(np.int64)
    return part
