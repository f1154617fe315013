"""How good nodes are for a signature: which pass the filters, and what the strategy makes of them.

A `Scorer` has what is the same each time that some nodes are scored for one signature.
"""

from typing import NamedTuple

import numpy as np

from berth_crds.vocabulary import Strategy
from berth_operator.scheduling import node_table, signatures
from berth_operator.scheduling.constraints import registry
from berth_operator.scheduling.constraints.constraint import Filter
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Policy, Weights
from berth_operator.scheduling.strategies import registry as strategies
from berth_operator.scheduling.strategies import score_inputs


class Scorer(NamedTuple):
    """Scores nodes for one signature under one policy."""

    signature: signatures.Signature
    filters: tuple[Filter, ...]
    strategy: strategies.Score
    cpu: int
    node_memory: int
    weights: Weights

    def score(
        self, inventory: Inventory, rows: node_table.Rows
    ) -> tuple[score_inputs.Ranking | None, node_table.Mask]:
        """Return the scores of these nodes, and which of them pass the filters of the node itself.

        Where none passes, nothing is scored.
        """
        query = Query(inventory, rows, self.signature)
        feasible = registry.passes_node_filters(query, self.filters)
        if not np.count_nonzero(feasible):
            return None, feasible
        return self.strategy(self.score_input(query)), feasible

    def score_input(self, query: Query) -> score_inputs.ScoreInput:
        """Return the numbers that a strategy sees."""
        inventory = query.inventory
        return score_inputs.ScoreInput(
            inventory.table,
            query.rows,
            query.need,
            query.matching,
            query.cards_with_room,
            self.cpu,
            self.node_memory,
            inventory.workload_model(),
            inventory.most_cards_and_memory_of_a_node(),
            self.weights,
        )


def scorer_of(signature: signatures.Signature, policy: Policy) -> Scorer:
    """Return what scores nodes for a signature."""
    amounts = dict(signature.demand.amounts)
    return Scorer(
        signature,
        registry.filters_of(signature),
        strategies.STRATEGIES[strategy_of(signature, policy)],
        amounts.get(facts.CPU, 0),
        amounts.get(facts.MEMORY, 0),
        policy.weights,
    )


def weighs_load(signature: signatures.Signature, policy: Policy) -> bool:
    """Whether the order of nodes and cards depends on the measured load."""
    weighs = bool(policy.weights.load) and strategy_of(signature, policy) is Strategy.WEIGHTED
    return weighs and signature.need.cards > 0


def strategy_of(signature: signatures.Signature, policy: Policy) -> Strategy:
    """Return the strategy for a pod: its own choice comes first."""
    return signature.grouping.strategy or policy.strategy
