"""The load of a node's cards, from the annotation of its agent's Lease."""

from berth_crds import card_load
from berth_operator.scheduling import card_loads


def read(text: str) -> card_loads.Loads | str:
    """Return what was measured of each card, or a sentence's end that says why it cannot be read."""
    try:
        return card_load.read(text)
    except card_load.UnreadableLoad as error:
        return f"the annotation of its Lease cannot be read: {error}"
