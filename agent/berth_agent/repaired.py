"""A person's word that cards were repaired: the annotation `berth.dev/repaired` of the Device. Pure.

It names cards by uuid or minor, separated by commas, or all of them. What was heeded is taken
out of it, so that whoever wrote it sees that it was; what names no card of the node is left.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from berth_crds import vocabulary, wire

ALL = "all"


@dataclass(frozen=True, slots=True)
class Word:
    """What stands in the annotation: the cards that are meant, and what is not understood."""

    text: str
    cards: frozenset[str] = frozenset()
    rest: str = ""


NO_WORD = Word("")


def read(text: str, spec: wire.DeviceSpec) -> Word:
    """Read what stands in the annotation."""
    meant = {
        word: frozenset(_named(word, spec)) for word in (part.strip() for part in text.split(",")) if word
    }
    unknown = ",".join(word for word, cards in meant.items() if not cards)
    return Word(text, frozenset().union(*meant.values()), unknown)


def _named(word: str, spec: wire.DeviceSpec) -> Iterator[str]:
    """Name the cards that a word means; a minor is one of a GPU, for other devices have theirs too."""
    for card in spec.devices:
        minor = str(card.minor) if card.type == vocabulary.DeviceType.GPU else card.uuid
        if word in {ALL, card.uuid, minor}:
            yield card.uuid
