"""Which cards the record of another scheduler says that a pod has.

Koordinator's scheduler writes the minors of the cards that it chose into an annotation of the pod before it
binds it, and its own agent hands them out, so the kubelet knows nothing of them. Anybody who may edit the
pod may edit that annotation: `allocation_recovery` says how far it is believed.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from berth_crds import aliases, schema_limits
from berth_crds.client import decoding, errors

MAX_LENGTH: Final = 1 << 16  # Koordinator writes some 200 characters for each device.


class Card(msgspec.Struct):
    """A card in Koordinator's record."""

    minor: int


class Record(msgspec.Struct):
    """Koordinator's record, as far as it is read: other types of devices are not."""

    gpu: tuple[Card, ...] = ()


def minors(annotations: Mapping[str, str]) -> frozenset[int]:
    """Return the minors that the record of a pod names; none if it has none or it cannot be read."""
    text = annotations.get(aliases.KOORDINATOR_RECORD, "")
    if not text or len(text) > MAX_LENGTH:
        return frozenset()
    try:
        record = decoding.decode(_records, text.encode())
    except errors.DECODE_ERRORS:
        return frozenset()
    found = frozenset(card.minor for card in record.gpu)
    return found if len(found) <= schema_limits.MOST_DEVICES else frozenset()


_records: Final = msgspec.json.Decoder(Record)
