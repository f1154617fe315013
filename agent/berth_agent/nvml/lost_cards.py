"""Which card it is that does not answer. Pure.

A card that has fallen off the bus reports neither its uuid nor its address, and its index is a
position in a list in which others move up. The kernel still knows which addresses the driver holds:
those that no answering card has are, in the order of the bus, the lost cards. A card that NVML no
longer counts at all is found in the same way, so it becomes unhealthy instead of disappearing.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from berth_agent import probe

NOT_COUNTED: Final = "NotCounted"

Known = Mapping[str, probe.Card]  # Cards as they were last read, by uuid.


def identify(
    lost: Sequence[probe.LostCard], addresses: Iterable[str], answering: Iterable[probe.Card], known: Known
) -> tuple[probe.LostCard, ...]:
    """Return the lost cards with uuid and address as far as known, and those that were not even counted."""
    cards = tuple(answering)
    seen = tuple(_seen(each, known) for each in lost)
    claimed = {each.bus_id for each in seen if each.bus_id} | {card.location.bus_id for card in cards}
    # A card that answers without an address may have any of those that are left.
    unclaimed = () if None in claimed else sorted(set(addresses) - claimed)
    placed = tuple(each for each in seen if each.bus_id)
    placeless = (each for each in seen if not each.bus_id)
    past = 1 + max((*(card.index for card in cards), *(each.index for each in lost)), default=-1)
    pairs = enumerate(itertools.zip_longest(placeless, unclaimed))
    found = (_at(each or _uncounted(past + place), address, known) for place, (each, address) in pairs)
    return (*placed, *found)


def _seen(lost: probe.LostCard, known: Known) -> probe.LostCard:
    """Return a lost card that reports its uuid with the address at which it was last seen."""
    card = known.get(lost.uuid)
    return dataclasses.replace(lost, bus_id=lost.bus_id or card.location.bus_id) if card else lost


def _uncounted(index: int) -> probe.LostCard:
    return probe.LostCard(index, NOT_COUNTED, "the kernel driver holds it, but NVML does not count it")


def _at(lost: probe.LostCard, address: str | None, known: Known) -> probe.LostCard:
    """Return a lost card with an address, and the uuid last seen there if it reports none."""
    if address is None:
        return lost
    uuid = next((uuid for uuid, card in known.items() if card.location.bus_id == address), "")
    return dataclasses.replace(lost, bus_id=address, uuid=lost.uuid or uuid)
