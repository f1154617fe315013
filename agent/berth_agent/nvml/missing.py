"""Which card it is that does not answer. Pure.

A card that has fallen off the bus says neither its uuid nor its address, and its index is a
place in a list that others move up in. The kernel still tells which addresses the driver
holds: those that no answering card claims are, in the order of the bus, the cards that are
missing. A card that NVML no longer counts at all is found in the same way, so that it is
one bad entry and does not silently leave the node.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from berth_agent import probe

NOT_COUNTED: Final = "NotCounted"

Known = Mapping[str, probe.Card]  # Cards as they were last read, by uuid.


def identify(
    lost: Sequence[probe.Lost], addresses: Iterable[str], answering: Iterable[probe.Card], known: Known
) -> tuple[probe.Lost, ...]:
    """Say as far as can be known which cards are lost, and add those that were not even counted."""
    cards = tuple(answering)
    seen = tuple(_seen(each, known) for each in lost)
    claimed = {each.bus_id for each in seen if each.bus_id} | {card.place.bus_id for card in cards}
    # A card that answers and does not tell its address may have any of those that are left.
    unclaimed = () if None in claimed else sorted(set(addresses) - claimed)
    placed = tuple(each for each in seen if each.bus_id)
    placeless = (each for each in seen if not each.bus_id)
    past = 1 + max((*(card.index for card in cards), *(each.index for each in lost)), default=-1)
    pairs = enumerate(itertools.zip_longest(placeless, unclaimed))
    found = (_at(each or _uncounted(past + place), address, known) for place, (each, address) in pairs)
    return (*placed, *found)


def _seen(lost: probe.Lost, known: Known) -> probe.Lost:
    """Give a lost card that tells its uuid the address at which it was last seen."""
    card = known.get(lost.uuid)
    return dataclasses.replace(lost, bus_id=lost.bus_id or card.place.bus_id) if card else lost


def _uncounted(index: int) -> probe.Lost:
    return probe.Lost(index, NOT_COUNTED, "the kernel driver holds it, but NVML does not count it")


def _at(lost: probe.Lost, address: str | None, known: Known) -> probe.Lost:
    """Give a lost card an address, and the uuid that was last seen there if it tells none."""
    if address is None:
        return lost
    uuid = next((uuid for uuid, card in known.items() if card.place.bus_id == address), "")
    return dataclasses.replace(lost, bus_id=address, uuid=lost.uuid or uuid)
