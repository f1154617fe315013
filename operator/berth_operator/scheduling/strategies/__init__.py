"""Strategies: how good each node is for a pod that fits there.

A strategy is a plain function from a ScoreInput, which has the numbers of some nodes and of one
signature, to a score of 0 to 100 for each node, the higher the better. It also says which
card a simple share should come from. Adding one is a file here, a word in the vocabulary
and a line in the table.
"""

from collections.abc import Callable
from typing import Final

from berth_crds.vocabulary import Strategy
from berth_operator.scheduling.strategies import balance, fragmentation, score_inputs

Score = Callable[[score_inputs.ScoreInput], score_inputs.Ranking]

STRATEGIES: Final[dict[Strategy, Score]] = {
    Strategy.FRAGMENTATION: fragmentation.fragmentation,
    Strategy.BINPACK: balance.binpack,
    Strategy.SPREAD: balance.spread,
    Strategy.WEIGHTED: balance.weighted,
}
