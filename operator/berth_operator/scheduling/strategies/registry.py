"""The strategies by name.

To add one, write its file, and name it here and in `berth_crds.vocabulary`, from which the kinds are made.
One that looks at measured loads is named in `node_scores.weighs_load` as well.
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
