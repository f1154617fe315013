"""A person's word that cards were repaired: the annotation `berth.dev/repaired` of the Device. Pure.

It names cards by uuid or minor, separated by commas, or all of them. What was heeded is taken
out of it, so that whoever wrote it sees that it was; what names no card of the node is left.
"""

from dataclasses import dataclass

from berth_crds import named_cards, wire


@dataclass(frozen=True, slots=True)
class Word:
    """What stands in the annotation: the cards that are meant, and what is not understood."""

    text: str
    cards: frozenset[str] = frozenset()
    rest: str = ""


NO_WORD = Word("")


def read(text: str, spec: wire.DeviceSpec) -> Word:
    """Read what stands in the annotation."""
    words = filter(None, (part.strip() for part in text.split(",")))
    meant = {word: named_cards.named(word, spec.devices) for word in words}
    unknown = ",".join(word for word, cards in meant.items() if not cards)
    return Word(text, frozenset().union(*meant.values()), unknown)
