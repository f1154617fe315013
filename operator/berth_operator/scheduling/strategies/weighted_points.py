"""The further points of the strategy `weighted`: the hardware of a node, and the measured load of its cards.

Each point is a number from 0 to 1 for a node, and counts with its weight. Those of load are judged by the
cards that the pod would get: the best of those with room for it. Where nothing is measured of a card, what is
promised of it counts as its load. Utilization and free memory never count for more than what is not promised,
because a pod that was just placed takes some seconds to show in a measurement.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from berth_operator.scheduling import node_table
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.policy import Weights
from berth_operator.scheduling.strategies import score_inputs

LARGE_CARD: Final = (
    288 << 30
)  # Bytes: no card has more. With a constant, this point does not depend on other nodes.
LOAD_STEPS: Final = 10  # Cards whose load differs by less than a tenth are equally good.


def mixed(score_input: score_inputs.ScoreInput, base: node_table.Scores) -> node_table.Scores:
    """Return the mean of a score from 0 to 100 by core and memory and of all further points, by weight."""
    weights = score_input.weights
    sums = base * (weights.core + weights.memory) / score_inputs.BEST
    if weights.hardware:
        sums = sums + _hardware(score_input)
    if weights.load:
        sums = sums + _of_best_cards(score_input, of_cards(score_input.table, score_input.rows, weights))
    mean: node_table.Scores = (
        score_inputs.BEST * sums / (weights.core + weights.memory + weights.hardware + weights.load)
    )
    return mean


def _hardware(score_input: score_inputs.ScoreInput) -> node_table.Scores:
    """Return the points of a node's hardware, each times its weight."""
    weights, count = score_input.weights, node_table.count(score_input.usable)
    size = score_input.total_of_usable(score_input.total) / np.maximum(count, 1)
    points: node_table.Scores = weights.cards * np.minimum(
        count / score_input.scale.cards, 1
    ) + weights.card_memory * np.minimum(size / LARGE_CARD, 1)
    return points


def of_cards(table: node_table.NodeTable, rows: node_table.Rows, weights: Weights) -> node_table.Scores:
    """Return the points of the load of each card, each times its weight: [node, slot]."""
    # What is promised of a card that is given out in pieces is not known here.
    left = np.where(table.in_service[rows], table.core[rows] / requests.WHOLE, 1.0)
    points = np.zeros(left.shape)
    if weights.utilization:
        points += weights.utilization * np.minimum(_idle(table.utilization[rows], left), left)
    for weight, measured in (
        (weights.encoder, table.encoder),
        (weights.decoder, table.decoder),
        (weights.power, table.power),
    ):
        if weight:
            points += weight * _idle(measured[rows], left)
    if weights.free_memory:
        points += weights.free_memory * _free(table, rows)
    return points


def _idle(measured: node_table.Numbers, left: node_table.Scores) -> node_table.Scores:
    """Return how idle each card is, from 0 to 1; what is left of it where that is not measured."""
    idle: node_table.Scores = np.where(measured == node_table.ABSENT, left, 1 - measured / requests.WHOLE)
    return idle


def _free(table: node_table.NodeTable, rows: node_table.Rows) -> node_table.Scores:
    """Return what part of each card's memory is free."""
    total = table.total[rows]
    part: node_table.Scores = np.clip(table.free_memory_of_all(rows) / np.maximum(total, 1), 0, 1)
    return np.where(total > 0, part, 1.0)


def _of_best_cards(score_input: score_inputs.ScoreInput, points: node_table.Scores) -> node_table.Scores:
    """Return for each node the mean points of the cards that the pod would get."""
    need = score_input.need
    count = max(1, need.min_cards + need.replicas + sum(ask.count for ask in need.instances))
    best = -np.sort(-np.where(_candidates(score_input), points, 0), axis=1)[:, :count]
    mean: node_table.Scores = best.sum(axis=1) / best.shape[1]
    return mean


def _candidates(score_input: score_inputs.ScoreInput) -> node_table.Mask:
    """Return the cards that may be given to the pod, as far as the filters show."""
    if score_input.cards_with_room is not None:
        return score_input.cards_with_room
    need, trouble = score_input.need, score_input.table.trouble[score_input.rows]
    found = np.zeros(trouble.shape, dtype=np.bool_)
    if need.whole_cards:
        found |= score_input.usable & score_input.unused
    if need.shares:
        found |= score_input.usable
    for asked, mode in ((need.replicas, Reason.SHARING_MODE), (need.instances, Reason.MIG_MODE)):
        if asked:
            found |= trouble == node_table.TROUBLES.index(mode)
    return found


def card_slot(score_input: score_inputs.ScoreInput) -> node_table.Numbers | None:
    """Return for each node the card that a simple share should come from; None where none is asked."""
    if score_input.cards_with_room is None:
        return None
    weights, total = score_input.weights, score_input.total
    memory = np.where(total > 0, score_input.memory / np.maximum(total, 1), 1.0)
    points = of_cards(score_input.table, score_input.rows, weights)
    points += weights.core * score_input.core_left / requests.WHOLE + weights.memory * memory
    slot: node_table.Numbers = np.where(score_input.cards_with_room, points, -1.0).argmax(axis=1)
    return slot


def loads_by_uuid(
    table: node_table.NodeTable, row: int, cards: Iterable[PhysicalDevice], weights: Weights
) -> Mapping[str, int]:
    """Return how loaded each card of a node is, by uuid, in tenths: the lower, the sooner it is given."""
    points = of_cards(table, slice(row, row + 1), weights)[0] / weights.load
    tenths = np.rint((1 - points) * LOAD_STEPS).astype(np.int64).tolist()
    return {card.uuid: tenth for card, tenth in zip(cards, tenths, strict=False)}
