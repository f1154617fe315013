"""What people may choose about health: which errors count, and how long a card cools down.

Two choices each name some errors or all: `ignored` ones never make a card unhealthy, `critical`
ones always do. An error that is critical by its number wins over one that is ignored, which allows
"ignore all but 79". The table decides about errors that neither names.
"""

from dataclasses import dataclass
from typing import Final

from berth_agent import xid_choices
from berth_agent.health import xid_table

HARMLESS: Final = frozenset({xid_table.Consequence.PROGRAM, xid_table.Consequence.NOTE})


@dataclass(frozen=True, slots=True)
class HealthRules:
    """Which errors count, and after how many seconds and clean looks a card is healthy again."""

    ignored: xid_choices.XidChoice = xid_choices.NO_XIDS
    critical: xid_choices.XidChoice = xid_choices.NO_XIDS
    cool_down: float = 300.0
    clean_probes: int = 3

    def consequence(self, number: int) -> xid_table.Consequence:
        """Return what an error means under these rules."""
        known = xid_table.meaning(number).consequence
        is_ignored = number in self.ignored.numbers
        if number in self.critical.numbers or (self.critical.everything and not is_ignored):
            return xid_table.Consequence.RESET if known in HARMLESS else known
        return xid_table.Consequence.NOTE if is_ignored or self.ignored.everything else known


DEFAULT: Final = HealthRules()
