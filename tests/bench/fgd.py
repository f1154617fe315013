"""Fragmentation Gradient Descent, as its authors describe it: what our own strategy is compared with.

The free GPU of a node is of use to a kind of pod as far as it lies on cards that have enough for such a pod,
provided that this fits on the node at all; the rest are fragments. The kinds are those of the trace, each as
frequent as it is there. A pod goes to the node and the card where the use of what is free, on average over
all pods, falls least: then the fragments grow least. Of equal nodes one is drawn, as kube-scheduler does.
"""

import collections
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from berth_operator.scheduling import node_table
from berth_operator.scheduling.devices import conditions, requests
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.queued_pods import PodInfo
from berth_operator.scheduling.strategies import score_inputs

NAME: Final = "fgd"
STEP: Final = score_inputs.BEST / (9 * requests.WHOLE)  # For a percent of a card, of which nodes have eight.
TIE: Final = 1e-6


class Kind(NamedTuple):
    """What pods of one kind ask: of the node, of how many cards, and how many percent of each."""

    cpu: int
    memory: int
    models: requests.OfModels
    cards: int
    percent: int


class Fgd:
    """The strategy, for the pods of one trace; `seed` decides between equal nodes."""

    def __init__(self, pods: Sequence[PodInfo], seed: int) -> None:
        kinds = collections.Counter(map(kind_of, pods))
        self._kinds = [kind for kind in kinds if kind.cards]
        self._cpu, self._memory = (
            np.array(column) for column in zip(*(kind[:2] for kind in self._kinds), strict=True)
        )
        # What is asked of cards is the same for many kinds.
        asks = sorted({kind[3:] for kind in self._kinds})
        self._cards, self._percent = (np.array(column) for column in zip(*asks, strict=True))
        self._frequency = np.zeros((len(self._kinds), len(asks)))
        for at, kind in enumerate(self._kinds):
            self._frequency[at, asks.index(kind[3:])] = kinds[kind] / len(pods)
        self._by_models: dict[tuple[str, ...], node_table.Mask] = {}
        self._chance = np.random.default_rng(seed)

    def __call__(self, score_input: score_inputs.ScoreInput) -> score_inputs.Ranking:
        """Rank nodes, and name the card of each for a pod that asks for a part of one."""
        free = np.where(score_input.in_service, score_input.space, 0)
        before = self._use(self._able(score_input, taken=False), *self._on_cards(free))
        able = self._able(score_input, taken=True)
        if score_input.share is None or score_input.cards_with_room is None:
            unused = score_input.unused
            taken = unused & (np.cumsum(unused, axis=1) <= score_input.need.whole_cards)
            after, slot = self._use(able, *self._on_cards(np.where(taken, 0, free))), None
        else:
            by_slot = np.stack(list(self._after_share(able, free, score_input.share.percent)), axis=1)
            by_slot[~score_input.cards_with_room] = -np.inf
            slot = by_slot.argmax(axis=1)
            after = np.maximum(by_slot.max(axis=1), 0)  # Where no card will do, the filters say so.
        score = score_inputs.BEST + STEP * (after - before) - TIE * self._chance.random(len(free))
        return score_inputs.Ranking(score, slot)

    def _after_share(
        self, able: node_table.Scores, free: node_table.Numbers, percent: int
    ) -> Iterator[node_table.Scores]:
        """Yield for each slot of what use the free GPU is once a share comes from there."""
        enough, usable = self._on_cards(free)
        for slot in range(free.shape[1]):
            before, after = (self._on_cards(one[:, None]) for one in (free[:, slot], free[:, slot] - percent))
            yield self._use(able, enough - before[0] + after[0], usable - before[1] + after[1])

    def _able(self, score_input: score_inputs.ScoreInput, *, taken: bool) -> node_table.Scores:
        """Return for each node and ask how frequent the kinds are that ask it and fit but for their cards."""
        cpu = score_input.cpu_left - score_input.cpu * taken
        memory = score_input.memory_left - score_input.node_memory * taken
        able = (cpu[:, None] >= self._cpu) & (memory[:, None] >= self._memory)
        able &= self._of_models(score_input.table.models.listed)[score_input.table.model[score_input.rows, 0]]
        found: node_table.Scores = able.astype(np.float64) @ self._frequency
        return found

    def _of_models(self, listed: tuple[str, ...]) -> node_table.Mask:
        """Return which kinds may have which models; the last row is for nodes without cards."""
        if (found := self._by_models.get(listed)) is None:
            rows = [[conditions.model_meets(model, kind.models) for kind in self._kinds] for model in listed]
            found = self._by_models[listed] = np.array([*rows, [False] * len(self._kinds)])
        return found

    def _on_cards(self, free: node_table.Numbers) -> tuple[node_table.Numbers, node_table.Numbers]:
        """Return for each node and ask how many cards have enough for it, and what is free on these."""
        enough = free[:, :, None] >= self._percent
        return enough.sum(axis=1), np.where(enough, free[:, :, None], 0).sum(axis=1)

    def _use(
        self, able: node_table.Scores, enough: node_table.Numbers, usable: node_table.Numbers
    ) -> node_table.Scores:
        """Return how many percent of cards are of use on each node, on average over all pods."""
        use: node_table.Scores = (able * (enough >= self._cards) * usable).sum(axis=1)
        return use


def kind_of(pod: PodInfo) -> Kind:
    """Return the kind of a pod, which asks for whole cards, or a part of one, or none."""
    amounts = dict(pod.demand.amounts)
    asks = [ask for one in pod.request.containers for ask in one.asks if isinstance(ask, requests.Gpus)]
    cards, percent = (asks[0].count, asks[0].percent) if asks else (0, 0)
    models = pod.request.conditions.of_models
    return Kind(amounts.get(facts.CPU, 0), amounts.get(facts.MEMORY, 0), models, cards, percent)
