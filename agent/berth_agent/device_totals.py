"""What all devices of a node together may have, counted as the server counts it.

The server refuses a whole Device that has more, good cards included, so something is left out before.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from berth_agent import device_spec, probe
from berth_crds import schema_limits, wire

LABELS: Final = "labels"
CHARACTERS: Final = "characters in labels"
FUNCTIONS: Final = "virtual functions"
FUNCTION_LABELS: Final = "labels of virtual functions, counted for each of them"
MOST: Final = {
    LABELS: schema_limits.TOTAL_LABELS,
    CHARACTERS: schema_limits.TOTAL_LABEL_TEXT,
    FUNCTIONS: schema_limits.TOTAL_FUNCTIONS,
    FUNCTION_LABELS: schema_limits.TOTAL_FUNCTION_LABELS,
}

# Given to one device, or to one group of virtual functions, by files.
MOST_GIVEN: Final = 16
MOST_GIVEN_CHARACTERS: Final = 1024
# Of a card that does not answer, whose labels stand in the Device as they were: more than it can have.
OF_LOST: Final = {LABELS: MOST_GIVEN + 4, CHARACTERS: MOST_GIVEN_CHARACTERS + 256}

Sizes = Mapping[str, int]


def sizes(labels: Mapping[str, str], groups: Iterable[wire.VfGroup] = ()) -> Sizes:
    """Return what one device has of each."""
    groups = tuple(groups)
    mappings = (labels, *(group.labels for group in groups))
    return {
        LABELS: sum(map(len, mappings)),
        CHARACTERS: sum(map(characters, mappings)),
        FUNCTIONS: sum(len(group.vfs) for group in groups),
        FUNCTION_LABELS: sum(len(group.vfs) * len(group.labels) for group in groups),
    }


def characters(labels: Mapping[str, str]) -> int:
    """Return how long keys and values are together."""
    return sum(len(key) + len(value) for key, value in labels.items())


def of_cards(sample: probe.Sample) -> "Totals":
    """Return what the cards of a sample have, which are listed in any case."""
    totals = Totals()
    for card in sample.cards:
        totals.add(sizes(device_spec.card(card).labels) if isinstance(card, probe.Card) else OF_LOST)
    return totals


def more(after: Sizes, before: Sizes) -> Sizes:
    """Return by how much something has grown."""
    return {what: after[what] - before[what] for what in MOST}


class Totals:
    """What the devices so far have."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(MOST, 0)

    def add(self, added: Sizes) -> None:
        """Count what is listed in any case."""
        for what, size in added.items():
            self._counts[what] += size

    def excess(self, added: Sizes) -> str:
        """Count what a device has, unless the server refuses so much; then return that as a clause."""
        for what, most in MOST.items():
            if added[what] > 0 and self._counts[what] + added[what] > most:
                return f"all devices together would have more than {most} {what}"
        self.add(added)
        return ""
