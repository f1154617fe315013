"""How good nodes are for a question: which pass the filters, and what the strategy makes of them."""

from berth_crds.vocabulary import Strategy
from berth_operator.scheduling import node_table, questions, strategies
from berth_operator.scheduling.constraints import registry
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Policy, Weights
from berth_operator.scheduling.strategies import score_inputs


def score_nodes(
    inventory: Inventory, rows: node_table.Rows, question: questions.Question, policy: Policy
) -> tuple[score_inputs.Ranking, node_table.Mask]:
    """Return the scores of these nodes, and which of them pass the filters of the node itself."""
    query = Query(inventory, rows, question)
    feasible = registry.feasible_by_themselves(query)
    return strategies.STRATEGIES[strategy_of(question, policy)](
        score_input_of(query, policy.weights)
    ), feasible


def score_input_of(query: Query, weights: Weights) -> score_inputs.ScoreInput:
    """Return the numbers that a strategy sees."""
    inventory, question = query.inventory, query.question
    amounts = dict(question.demand.amounts)
    return score_inputs.ScoreInput(
        table=inventory.table,
        rows=query.rows,
        need=question.need,
        matching=query.matching,
        cards_with_room=query.cards_with_room,
        cpu=amounts.get(facts.CPU, 0),
        node_memory=amounts.get(facts.MEMORY, 0),
        model=inventory.demand_model(),
        scale=score_inputs.Scale(*inventory.most_cards_and_memory_of_a_node()),
        weights=weights,
    )


def weighs_load(question: questions.Question, policy: Policy) -> bool:
    """Whether the order of nodes and cards depends on the measured load."""
    weighs = bool(policy.weights.load) and strategy_of(question, policy) is Strategy.WEIGHTED
    return weighs and question.need.cards > 0


def strategy_of(question: questions.Question, policy: Policy) -> Strategy:
    """Return the strategy for a pod: its own choice comes first."""
    return question.grouping.strategy or policy.strategy
