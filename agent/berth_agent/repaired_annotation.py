"""The annotation `berth.dev/repaired` of the Device, by which people say that cards were repaired. Pure.

It names cards by uuid or minor, separated by commas, or all of them. The agent removes the cards
that it has taken as repaired, so people see that it has; a name of no card of the node is left.
"""

from dataclasses import dataclass

from berth_crds import named_cards, wire


@dataclass(frozen=True, slots=True)
class RepairedAnnotation:
    """The text of the annotation, the cards that it names, and the part that names no card."""

    text: str
    cards: frozenset[str] = frozenset()
    unknown: str = ""


NO_ANNOTATION = RepairedAnnotation("")


def read(text: str, spec: wire.DeviceSpec) -> RepairedAnnotation:
    """Return what an annotation means for the cards of a node."""
    words = filter(None, (part.strip() for part in text.split(",")))
    meant = {word: named_cards.uuids_named(word, spec.devices) for word in words}
    unknown = ",".join(word for word, cards in meant.items() if not cards)
    return RepairedAnnotation(text, frozenset().union(*meant.values()), unknown)
