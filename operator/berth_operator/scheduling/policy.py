"""The rules in force: how nodes are ranked, what counts, and how long an agent may be silent.

The strategies themselves stand in `strategies`.
"""

import dataclasses

from berth_crds.vocabulary import Strategy
from berth_operator.scheduling import columns


@dataclasses.dataclass(frozen=True, slots=True)
class Weights:
    """How much compute and memory of the cards count; only the proportion matters."""

    core: int = 1
    memory: int = 1

    def mean(self, core: columns.Scores, memory: columns.Scores) -> columns.Scores:
        """Weigh a figure of each into one."""
        mean: columns.Scores = (self.core * core + self.memory * memory) / (self.core + self.memory)
        return mean


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """What a PlacementPolicy says, as the core uses it."""

    strategy: Strategy = Strategy.FRAGMENTATION
    weights: Weights = Weights()
    grace_seconds: float = 40.0
    label_priority: int = 0  # So much a label counts at most between namespaces.
