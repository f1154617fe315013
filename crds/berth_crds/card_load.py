"""The measured load of a node's cards, as it travels in an annotation of the agent's Lease.

The agent renews that Lease anyway, so the figures cost no request more. They are rounded, so that a text is
short and stays the same while a card does the same work. A text is `v1`, then for each card its minor and
its figures: `v1 0:95,0,0,80,30720 1:0,0,0,10,81152`. The figures are utilization, encoder and decoder in
percent of the time, power in percent of the card's limit, and free memory in MiB; one that is not measured
is empty. A reader ignores figures after these, which a later version may add.

In the annotation the text is signed: ` by=` and the agent follow. An agent of a version that knows nothing of
loads renews the Lease and leaves the annotation as it is; by the signature that is no load any more.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

VERSION: Final = "v1"
UNKNOWN: Final = -1  # In place of a figure that is not measured.
MOST_CARDS: Final = 64
LONGEST: Final = (
    2048  # Characters of an annotation. 64 cards take no more, unless their minors are very large.
)
LONGEST_SIGNATURE: Final = 128  # The host of an agent has 64 characters at most.
PERCENT_STEP: Final = 5
MEMORY_STEP: Final = 64  # MiB.
MIB: Final = 1 << 20
MOST_PERCENT: Final = 100

_BY: Final = " by="
_CARD: Final = re.compile(r"\d{1,7}:(?:\d{0,7},){4}\d{0,7}(?:,[\d,]*)?", re.ASCII)


class CardLoad(NamedTuple):
    """What was measured of one card: percents, and its free memory in bytes; `UNKNOWN` where it was not."""

    utilization: int = UNKNOWN
    encoder: int = UNKNOWN
    decoder: int = UNKNOWN
    power: int = UNKNOWN
    free_memory: int = UNKNOWN


NOTHING: Final = CardLoad()


class UnreadableLoad(ValueError):
    """A text that is no load of cards; the message is a sentence for people."""


def rounded(load: CardLoad) -> CardLoad:
    """Return the load as it is written: percents to the nearest step, memory down."""
    *percents, free = load
    memory = free // (MEMORY_STEP * MIB) * MEMORY_STEP * MIB if free >= 0 else UNKNOWN
    return CardLoad._make([*map(_percent, percents), memory])


def _percent(figure: int) -> int:
    if figure < 0:
        return UNKNOWN
    return min((figure + PERCENT_STEP // 2) // PERCENT_STEP * PERCENT_STEP, MOST_PERCENT)


def write(loads: Mapping[int, CardLoad]) -> str:
    """Return the text of some cards, by minor; empty where nothing is measured.

    Cards beyond the limits are left out, those with the highest minors.
    """
    text = ""
    measured = ((minor, rounded(load)) for minor, load in sorted(loads.items()) if load != NOTHING)
    for number, (minor, load) in enumerate(measured):
        card = f" {minor}:{','.join(_figures(load))}"
        if number >= MOST_CARDS or len(VERSION) + len(text) + len(card) > LONGEST - LONGEST_SIGNATURE:
            break
        text += card
    return f"{VERSION}{text}" if text else ""


def signed(text: str, agent: str) -> str:
    """Return the annotation of a Lease that an agent holds."""
    return f"{text}{_BY}{agent}" if text else ""


def measured_by(annotation: str, holder: str) -> str:
    """Return the text of an annotation; empty if another agent measured it than the holder of the Lease."""
    text, _, agent = annotation.partition(_BY)
    return text if agent in ("", holder) else ""


def _figures(load: CardLoad) -> list[str]:
    *percents, free = load
    return ["" if one < 0 else str(one) for one in (*percents, free // MIB if free >= 0 else UNKNOWN)]


def read(text: str) -> dict[int, CardLoad]:
    """Return the load of each card, by minor, or raise `UnreadableLoad`."""
    if not text:
        return {}
    if len(text) > LONGEST:
        raise UnreadableLoad(f"it has {len(text)} characters, and {LONGEST} are read at most")
    version, *cards = text.split(" ")
    if version != VERSION:
        raise UnreadableLoad(f"it does not begin with {VERSION}, the only version that is known")
    if len(cards) > MOST_CARDS:
        raise UnreadableLoad(f"it has {len(cards)} cards, and {MOST_CARDS} are read at most")
    loads = dict(map(_read_card, cards))
    if len(loads) < len(cards):
        raise UnreadableLoad("it names a card twice")
    return loads


def _read_card(text: str) -> tuple[int, CardLoad]:
    if _CARD.fullmatch(text) is None:
        raise UnreadableLoad("a card in it is not a minor, a colon and five figures with commas between them")
    minor, _, written = text.partition(":")
    *percents, free = (int(one) if one else UNKNOWN for one in written.split(",")[: len(NOTHING)])
    if max(percents) > MOST_PERCENT:
        raise UnreadableLoad(f"a percentage in it is above {MOST_PERCENT}")
    return int(minor), CardLoad._make((*percents, free * MIB if free >= 0 else UNKNOWN))
