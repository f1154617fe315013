"""Which devices another scheduler has written that a pod has, and how far that counts.

Koordinator writes into each pod which devices it chose, and an agent of its own hands them out, so the
kubelet knows nothing of them. A record counts for a pod that asks for these devices, where the policy
believes that scheduler, and never beyond what the containers ask for by resources, which nobody can edit.

A card that it names is given to nobody else, not even in part. Of devices of other types it names parts
and virtual functions, and these are charged as if Berth had given them: the rest is given to others.

Where a record does not count, a pod may have any device of the types that it asks for. As many cards are
withheld as it may have (`Hold.withheld`). Of the other types all devices are (`Hold.withheld_types`): a pod
that asks for one percent of a NIC may have a part of any, so no number of them would be enough. That ends
with the pod, or with a record that counts. It needs a request by resources, so what is written on a pod that
asks for no NIC withholds no NIC.
"""

import dataclasses
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import device_facts, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.holds import Hold

SMALLEST: Final = 1  # Percent of a device for each of its virtual functions but the first.


@dataclasses.dataclass(frozen=True, slots=True)
class AskedType:
    """What a bound pod asks for of one type of device other than cards: percent, in all that runs at once.

    `core` is 0 where that cannot be read. `resources` are the names by which it asks.
    """

    type: str
    core: int = 0
    resources: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class ForeignPart:
    """A part of one device other than a card, in percent, and the bus ids of its virtual functions."""

    type: str
    minor: int
    core: int
    functions: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ForeignRecord:
    """What a scheduler, or somebody else, has written on a pod: which devices it has.

    `minors` are those of its cards; they are None where that cannot be read. Of `others` only those types
    are here that can be read.
    """

    scheduler: str
    minors: frozenset[int] | None
    others: tuple[ForeignPart, ...] = ()


def distrusted(record: ForeignRecord) -> ForeignRecord:
    """Return a record that is not believed: whose it is, and nothing of what it says."""
    return dataclasses.replace(record, minors=None, others=())


def cards_as_written(
    hold: Hold, record: ForeignRecord | None, device: device_facts.Device | None
) -> tuple[Hold, bool]:
    """Return what a pod withholds of cards by its record, and whether that leaves it in doubt.

    The record is believed if all its cards are there and the pod may have so many. Nothing more is given of
    them, whatever the kubelet says: it does not know what that scheduler's own agent hands out. For the same
    reason its word that the pod has no card proves nothing where there is a record that is not believed.
    """
    if record is None:
        return hold, False
    there = {card.minor for card in device.cards} if device is not None else set()
    minors = record.minors
    if minors is None or not minors <= there or len(minors) > hold.withheld:
        return hold, True
    return dataclasses.replace(hold, withheld=hold.withheld - len(minors), marked=hold.marked | minors), False


def others_as_written(
    hold: Hold, record: ForeignRecord | None, asked: Iterable[AskedType], device: device_facts.Device | None
) -> Hold:
    """Return what a pod holds by its record of devices other than cards, and what it withholds of them still.

    A type is believed as a whole: all devices and functions that are named are there, and they are just as
    much as the pod asks for. Of one that is named in part the pod may have any other device as well.
    """
    if record is None or device is None:
        return hold
    for one in asked:
        parts = [part for part in record.others if part.type == one.type]
        if one.type in hold.withheld_types and _is_whole(parts, one):
            shares = list(_shares(parts, device))
            if shares:
                withheld = hold.withheld_types - {one.type}
                hold = dataclasses.replace(hold, shares=(*hold.shares, *shares), withheld_types=withheld)
    return hold


def _is_whole(parts: Collection[ForeignPart], asked: AskedType) -> bool:
    """Whether these are as much as a pod asks for, each of another device."""
    different = len({part.minor for part in parts}) == len(parts)
    return different and sum(part.core for part in parts) == asked.core


def _shares(parts: Iterable[ForeignPart], device: device_facts.Device) -> Iterator[decisions.Share]:
    """Yield the parts as shares of the devices of a node; nothing if one of them is not there."""
    there = {(one.type, one.minor): one for one in device.others}
    found = [(there.get((part.type, part.minor)), part) for part in parts]
    if all(_is_there(holder, part) for holder, part in found):
        for holder, part in found:
            if holder is not None:
                yield from _parts_of(holder, part)


def _is_there(holder: PhysicalDevice | None, part: ForeignPart) -> bool:
    return holder is not None and {one.bus for one in holder.functions}.issuperset(part.functions)


def _parts_of(holder: PhysicalDevice, part: ForeignPart) -> Iterator[decisions.Share]:
    """Yield the shares of one device: one for each virtual function, which take no more than the part."""
    functions = part.functions or ("",)
    core = part.core - SMALLEST * (len(functions) - 1)
    for function in functions:
        memory = holder.memory * core // requests.WHOLE
        yield decisions.Share(holder.uuid, holder.minor, core, memory, holder.type, function=function)
        core = SMALLEST
