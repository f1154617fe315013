"""The strategies by name."""

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
