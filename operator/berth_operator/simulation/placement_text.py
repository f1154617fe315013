"""The devices of a placed pod in a few words: `2 cards`, `25 % of a card`, `1 MIG 1g.10gb, 1 rdma`."""

import collections

from berth_crds import card_part, vocabulary
from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import allocator
from berth_operator.simulation import tables


def minors(placement: decisions.Placement) -> str:
    """Return the minors of the GPUs, as the annotation `berth.dev/minors` has them."""
    found = {
        share.minor for share in allocator.held(placement.grants) if share.type == vocabulary.DeviceType.GPU
    }
    return ",".join(map(str, sorted(found))) or tables.EMPTY_CELL


def summary(placement: decisions.Placement) -> str:
    """Return a summary of the devices."""
    counts = collections.Counter(_word(share) for share in allocator.held(placement.grants))
    return ", ".join(_counted(word, count) for word, count in counts.items()) or "no devices"


def _word(share: decisions.Share) -> str:
    if share.type != vocabulary.DeviceType.GPU:
        part = "" if share.core == card_part.WHOLE else f" ({share.core} %)"
        return f"{share.type}{part}"
    if share.profile:
        return f"MIG {share.profile}"
    if not card_part.describe(share.core, share.memory, share.card_memory):
        return "card"
    return f"{card_part.describe_both(share.core, share.memory)} of a card"


def _counted(word: str, count: int) -> str:
    if word == "card":
        return tables.counted(count, word)
    if word.endswith(" of a card"):
        return word if count == 1 else f"{count} times {word}"
    return f"{count} {word}"
