"""How people name cards of a node: by uuid, by the minor of a GPU, or all of them."""

from collections.abc import Iterable
from typing import Final

from berth_crds import vocabulary, wire

ALL: Final = "all"


def uuids_named(word: str, cards: Iterable[wire.Card]) -> frozenset[str]:
    """Return the uuids of the cards that a word names; a minor names a GPU only."""
    return frozenset(card.uuid for card in cards if word in {ALL, card.uuid, _minor(card)})


def _minor(card: wire.Card) -> str:
    return str(card.minor) if card.type == vocabulary.DeviceType.GPU else card.uuid
