"""What a strategy sees: the signature of a pod, and the numbers of some nodes.

Arrays have one entry for each of the nodes, matrices one column more for each card.
All quantities are those before the placement, in percent and bytes; `taken_core` and `taken_memory`
return what the pod would take of all its cards together.
"""

import functools
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from berth_operator.scheduling import cluster_supply, node_table, workload_model
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Weights

BEST: Final = 100.0


class ScoreInput(NamedTuple):
    """Some nodes, and the signature of a pod; numbers are gathered when a strategy asks for them."""

    table: node_table.NodeTable
    rows: node_table.Rows
    need: requests.Need
    matching: (
        node_table.Mask | None
    )  # [node, slot]: cards in service that meet the conditions; None: all of them.
    cards_with_room: node_table.Mask | None  # [node, slot]: cards that could take the simple share.
    cpu: int  # What the pod asks of the node, as `node_memory` is.
    node_memory: int
    model: workload_model.WorkloadModel
    scale: cluster_supply.Scale
    weights: Weights

    @property
    def core(self) -> node_table.Numbers:
        """Free percent of the cards that are given out: [node, slot]."""
        return self.table.core[self.rows]

    @property
    def core_left(self) -> node_table.Numbers:
        """What is left of the core that the pod lets be promised of each card, in percent of that."""
        left = self.table.core_up_to(self.need.core_limit, self.rows)
        return (
            left if self.need.core_limit == requests.WHOLE else left * requests.WHOLE // self.need.core_limit
        )

    @property
    def memory(self) -> node_table.Numbers:
        """Free bytes of them."""
        return self.table.memory[self.rows]

    @property
    def space(self) -> node_table.Numbers:
        """The scarcer of both, in percent of the card."""
        return self.table.space[self.rows]

    @property
    def total(self) -> node_table.Numbers:
        """Bytes that the cards have."""
        return self.table.total[self.rows]

    @property
    def unused(self) -> node_table.Mask:
        """Cards that are given out, and of which no pod holds anything."""
        return self.table.unused[self.rows]

    @property
    def in_service(self) -> node_table.Mask:
        """Cards that are given out at all."""
        return self.table.in_service[self.rows]

    @property
    def usable(self) -> node_table.Mask:
        """Cards that are given out, and that the pod may use by their model and whatever else it says."""
        return self.in_service if self.matching is None else self.matching

    def total_of_usable(self, numbers: node_table.Numbers) -> node_table.Numbers:
        """Return the sum of these numbers over the usable cards of each node."""
        found: node_table.Numbers = np.where(self.usable, numbers, 0).sum(axis=1)
        return found

    @property
    def cpu_left(self) -> node_table.Numbers:
        """Thousandths of cpu that each node has left."""
        return self._left(facts.CPU)

    @property
    def cpu_total(self) -> node_table.Numbers:
        """Thousandths of cpu that each node has."""
        return self.table.allocatable[self.rows, self.table.resources.of[facts.CPU]]

    @property
    def memory_left(self) -> node_table.Numbers:
        """Bytes that each node has left."""
        return self._left(facts.MEMORY)

    @property
    def pieces(self) -> node_table.Numbers:
        """Replicas and MIG instances that each node gives out."""
        instances = node_table.total(self.table.instances_well[self.rows])
        well: node_table.Numbers = self.table.replicas_well[self.rows] + instances
        return well

    @property
    def pieces_left(self) -> node_table.Numbers:
        """Those of them that are unused."""
        left: node_table.Numbers = self.table.replicas[self.rows] + node_table.total(
            self.table.instances[self.rows]
        )
        return left

    def other_devices(self) -> Iterator[tuple[node_table.Numbers, node_table.Numbers, int]]:
        """Yield of each type beside cards that the pod asks for the percents there, left and taken by it."""
        table = self.table
        for kind, taken in self.need.other_parts:
            well = node_table.known_of(table.types, kind, table.others_well, self.rows)
            yield (
                well * requests.WHOLE,
                node_table.known_of(table.types, kind, table.others_free, self.rows),
                taken,
            )

    @property
    def served(self) -> node_table.Mask:
        """Nodes with anything that pods without cards had better leave to others."""
        served: node_table.Mask = self.in_service.any(axis=1) | (self.pieces > 0)
        return served

    def _left(self, name: str) -> node_table.Numbers:
        return self.table.left[self.rows, self.table.resources.of[name]]

    @property
    def scarcity(self) -> node_table.Scores:
        """What each node's cards are worth: 1, or less for a model of which there is too much."""
        worth = _worth_of_models(self.table.models.listed, self.model.surplus)
        found: node_table.Scores = worth[self.table.model[self.rows, 0]]
        return found

    @property
    def share(self) -> requests.Gpus | None:
        """The simple share that is asked, if that is what it is."""
        return self.need.shares[0] if self.need.filters_suffice and self.need.shares else None

    def space_after(self, ask: requests.Gpus) -> node_table.Numbers:
        """Return how much would be left of each card after a share is taken."""
        if ask.memory == 0:
            # Asked in percent, compute and memory fall alike.
            return self.space - ask.percent
        by_memory = percent_of(self.memory - ask.memory, self.total)
        left: node_table.Numbers = np.minimum(self.core - ask.core, by_memory)
        return left

    def taken_pieces(self) -> int:
        """Return how many replicas and instances the pod would take."""
        return self.need.replicas + sum(ask.count for ask in self.need.instances)

    def taken_core(self) -> int:
        """Return how much compute the pod would take of the node's cards, in percent."""
        return self.need.whole_cards * requests.WHOLE + sum(ask.core * ask.count for ask in self.need.shares)

    def taken_of_limit(self) -> float:
        """Return how much of what `core_left` counts the pod would take."""
        return self.taken_core() * requests.WHOLE / self.need.core_limit

    def taken_memory(self) -> node_table.Scores:
        """Return how much memory the pod would take of each node's cards, in bytes."""
        cards = np.maximum(node_table.count(self.usable), 1)
        mean = self.total_of_usable(self.total) / cards
        percent = sum(ask.count * ask.ratio for ask in self.need.shares)
        given = sum(ask.count * ask.memory for ask in self.need.shares if not ask.ratio)
        taken: node_table.Scores = self.need.whole_cards * mean + (mean * percent / requests.WHOLE + given)
        return taken


@functools.lru_cache(maxsize=64)
def _worth_of_models(names: tuple[str, ...], surplus: tuple[tuple[str, int], ...]) -> node_table.Scores:
    """Return what cards of each model are worth; the last entry is for what is no card."""
    worth = dict.fromkeys(names, 1.0) | {name: percent / requests.WHOLE for name, percent in surplus}
    return np.array([*(worth[name] for name in names), 1.0])


class Ranking(NamedTuple):
    """How good each node is, 0 to 100, and which slot of it a simple share should come from."""

    score: node_table.Scores
    slot: node_table.Numbers | None = None


def percent_of(memory: node_table.Numbers, total: node_table.Numbers) -> node_table.Numbers:
    """Memory in percent of the card, to the nearest; where its size is unknown, compute alone counts."""
    known = np.maximum(total, 1)
    percent: node_table.Numbers = (memory * requests.WHOLE + known // 2) // known
    return np.where(total > 0, percent, requests.WHOLE)


def card_slot(score_input: ScoreInput, *, fullest: bool) -> node_table.Numbers | None:
    """Return for each node the card that fits a simple share and has least left, or most; then the lowest.

    None where no simple share is asked.
    """
    if score_input.cards_with_room is None:
        return None
    left = score_input.core_left * _SPAN + _memory_part(score_input)
    slot: node_table.Numbers = np.where(
        score_input.cards_with_room, left if fullest else -left, _NEVER
    ).argmin(axis=1)
    return slot


_SPAN: Final = 1 << 20
_NEVER: Final = 1 << 40


def _memory_part(score_input: ScoreInput) -> node_table.Numbers:
    """Free memory in millionths of the card, to compare cards whose free compute is equal."""
    scaled = score_input.memory / np.maximum(score_input.total, 1)
    part: node_table.Numbers = (scaled * (_SPAN - 1)).astype(np.int64)
    return part
