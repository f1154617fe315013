"""The choice of the best node, where something is preferred.

As in kube-scheduler, points from 0 to 100 are added up by weight: those of the strategy, which is one more
voice here, and of each preference. Of what nobody states (images, balance) at most so much is added, by
default, as the last part of `fragmentation` may change, the cpu and memory to spare: then it decides between
nodes whose cards are equally good, and never against them.
"""

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from berth_operator.scheduling import node_table, signatures
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.policy import PreferenceWeights
from berth_operator.scheduling.preferences import registry
from berth_operator.scheduling.preferences.preference import Preference, as_it_is
from berth_operator.scheduling.search_memory import INFEASIBLE, CachedScores
from berth_operator.scheduling.strategies import fragmentation
from berth_operator.scheduling.strategies.score_inputs import BEST

# Points of the strategy: half of what any difference between cards is worth.
TIE: Final = BEST / (1 << fragmentation.ALL - fragmentation.SPARE) / 2


def best_position_finder(
    inventory: Inventory, signature: signatures.Signature, cached: CachedScores, refused: node_table.Numbers
) -> Callable[[], int | np.intp]:
    """Return a function that finds the position of the best node each time that it is called.

    Where nothing is preferred, that is the node with the best score. The nodes at the positions `refused`
    do not pass the filters that ask about pods elsewhere.
    """
    of_this_pod = registry.of_each_pod(inventory, signature, cached.policy.preferences)
    if not (of_this_pod or cached.preferences):
        return cached.score.argmax
    points = _points(inventory, signature, cached, refused, of_this_pod)
    strategy = _strategy_weight(signature, cached.policy.preferences)

    def best() -> int | np.intp:
        totals = strategy * cached.score + points
        totals[cached.score == INFEASIBLE] = INFEASIBLE
        return totals.argmax()

    return best


def _strategy_weight(signature: signatures.Signature, weights: PreferenceWeights) -> int:
    return weights.strategy if signature.need.any_device else weights.strategy_without_devices


def _points(
    inventory: Inventory,
    signature: signatures.Signature,
    cached: CachedScores,
    refused: node_table.Numbers,
    of_this_pod: Iterable[Preference],
) -> node_table.Scores:
    """Return the points of all preferences together, each times its weight, by position."""
    weights = cached.policy.preferences
    # Where nothing is remembered beside the scores, no pod has a device search, which alone excludes more.
    passes = cached.score != INFEASIBLE if cached.feasible is None else cached.feasible.copy()
    passes[refused] = False
    query = Query.for_all_nodes(inventory, signature)
    stated, unstated, most = np.zeros(len(cached.score)), np.zeros(len(cached.score)), 0
    for one in (*map(registry.BY_NAME.__getitem__, cached.preferences), *of_this_pod):
        weight = getattr(weights, one.name)
        if one.normalised is as_it_is and one.of_each_pod:
            parts = _by_position(inventory, one.raw_scores(query))
        else:
            parts = _parts(one, cached.raw_scores.get(one.name), passes, query)
        if one.stated:
            stated += weight * parts
        else:
            unstated += weight * parts
            most += weight
    share = _share_of_unstated(weights, _strategy_weight(signature, weights), most)
    points: node_table.Scores = BEST * stated + share * unstated
    return points


def _by_position(inventory: Inventory, raw_scores: node_table.Scores) -> node_table.Scores:
    figures = np.empty(len(raw_scores))
    figures[inventory.name_positions()] = raw_scores
    return figures


def _parts(
    one: Preference, raw_scores: node_table.Scores | None, passes: node_table.Mask, query: Query
) -> node_table.Scores:
    """Return the parts from 0 to 1, normalised over the nodes that pass the filters."""
    parts = np.zeros(len(passes))
    if not passes.any():
        return parts
    if raw_scores is not None:
        parts[passes] = one.normalised(raw_scores[passes])
        return parts
    positions = query.inventory.name_positions()
    rows = np.flatnonzero(passes[positions])
    found = one.raw_scores(Query(query.inventory, rows, query.signature))
    parts[positions[rows]] = one.normalised(found)
    return parts


def _share_of_unstated(weights: PreferenceWeights, strategy: int, most: int) -> float:
    """Return what the points of what nobody states are multiplied with; they are `most` at most."""
    if weights.unstated:
        return weights.unstated * BEST
    return TIE * max(strategy, 1) / max(most, 1)
