"""The rules in force: how nodes are ranked, and how long an agent may be silent.

The strategies themselves stand in `strategies`.
"""

import dataclasses

from berth_crds.vocabulary import Strategy


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """What a PlacementPolicy says, as the core uses it."""

    strategy: Strategy = Strategy.FRAGMENTATION
    grace_seconds: float = 40.0
