"""What people may choose about health: which errors count, and when a card is well again.

Two choices each say "these" or "all": errors that never condemn a card, and errors that always
do. Whoever calls an error condemning by its number wins over whoever ignores it, so that
"ignore all but 79" can be said; the table decides about what neither names.
"""

from dataclasses import dataclass
from typing import Final

from berth_agent import choices
from berth_agent.health import xids

RESET: Final = xids.Consequence.RESET
HARMLESS: Final = frozenset({xids.Consequence.PROGRAM, xids.Consequence.NOTE})


@dataclass(frozen=True, slots=True)
class Rules:
    """Which errors count, after how many seconds and clean looks a card is well again."""

    ignored: choices.Xids = choices.NO_XIDS
    critical: choices.Xids = choices.NO_XIDS
    cool_down: float = 300.0
    clean_looks: int = 3

    def consequence(self, number: int) -> xids.Consequence:
        """Say what an error means under these rules."""
        told = xids.meaning(number).consequence
        if number in self.critical.numbers:
            return _condemning(told)
        if number in self.ignored.numbers:
            return xids.Consequence.NOTE
        if self.critical.everything:
            return _condemning(told)
        return xids.Consequence.NOTE if self.ignored.everything else told


def _condemning(told: xids.Consequence) -> xids.Consequence:
    return RESET if told in HARMLESS else told


DEFAULT: Final = Rules()
