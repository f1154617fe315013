"""The load of a node's cards, from the annotation of its agent's Lease."""

from berth_crds import card_load, names
from berth_crds.client import lease
from berth_operator.scheduling import card_loads


def text_in(found: lease.Lease) -> str:
    """Return what the agent that holds a Lease measured; empty if it says nothing."""
    annotation = found.metadata.annotations.get(names.LOAD, "")
    return card_load.measured_by(annotation, found.spec.holder_identity or "")


def read(text: str) -> card_loads.Loads | str:
    """Return what was measured of each card, or a sentence's end that says why it cannot be read."""
    try:
        return card_load.read(text)
    except card_load.UnreadableLoad as error:
        return f"the annotation of its Lease cannot be read: {error}"
