"""Devices of a node that are given to no new pod because of claims and records elsewhere.

A Device lists what its agent found. Some of it is not given: cards whose uuid another node claims, and what a
pod with an invalid allocation may hold. An allocation is invalid if it is missing, cannot be read, or names a
card that is not there. A card that it names has the trouble INVALID_ALLOCATION; for a card that is not there,
the one with its minor has. Where that tells of no card, a number of unused cards is withheld, whichever they
are. While a pod may have any device of another type than GPU, all of that type are in the same trouble.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from berth_operator.scheduling import decisions, holds
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import device_facts
from berth_operator.scheduling.devices.device_facts import PhysicalDevice


def after_uuid_claims(published: device_facts.Device, lost: frozenset[str]) -> device_facts.Device:
    """Return a Device in which the cards that another node owns have a trouble, where they had none."""
    if not lost:
        return published

    def is_lost(card: PhysicalDevice) -> bool:
        return card.uuid in lost or any(one.uuid in lost for one in card.instances)

    return _troubled(published, is_lost, Reason.DUPLICATE_UUID)


def after_holds(
    device: device_facts.Device, there: frozenset[str], held: Iterable[holds.Hold]
) -> tuple[device_facts.Device, int]:
    """Return a Device with the trouble of invalid allocations, and how many unused cards are withheld."""
    odd = [hold for hold in held if is_odd(hold, there)]
    if not odd:
        return device, 0
    device = _without_types(device, frozenset().union(*(hold.withheld_types for hold in odd)))
    cards = _by_name(device)
    closed: set[str] = set()
    withheld = 0
    for hold in odd:
        if not _names_odd(hold, there):
            continue
        found = {cards[name].uuid for name in _named(hold, there) if name in cards}
        closed |= found
        if not found and not any(share.uuid in there for share in hold.shares):
            withheld += holds.ALL_CARDS
    return _troubled(device, lambda card: card.uuid in closed, Reason.INVALID_ALLOCATION), withheld


def is_odd(hold: holds.Hold, there: frozenset[str]) -> bool:
    """Whether a hold names cards that it may not have, or that are not there, or may have any NIC."""
    return bool(hold.withheld_types) or _names_odd(hold, there)


def _names_odd(hold: holds.Hold, there: frozenset[str]) -> bool:
    if hold.marked:
        return True
    for share in hold.shares:  # noqa: SIM110  each bind and each end of a pod comes by here
        if share.uuid not in there and share.type == device_facts.GPU:
            return True
    return False


def held(pods: Iterable[holds.Hold]) -> frozenset[str]:
    """Return the uuids of cards that pods hold by the records of their binds.

    What an agent says in a GpuPod counts on its own node alone, and against no other node's claim.
    """
    return frozenset(
        share.uuid
        for pod in pods
        if not pod.by_agent
        for share in pod.shares
        if share.type == device_facts.GPU
    )


def _missing(share: decisions.Share, there: frozenset[str]) -> bool:
    return share.type == device_facts.GPU and share.uuid not in there


def _named(hold: holds.Hold, there: frozenset[str]) -> Iterable[str | int]:
    yield from hold.marked
    for share in hold.shares:
        if _missing(share, there):
            yield share.minor


def _by_name(device: device_facts.Device) -> Mapping[str | int, PhysicalDevice]:
    """Find the cards of a node by their uuids, those of their instances, and their minors."""
    found: dict[str | int, PhysicalDevice] = {}
    for card in device.cards:
        found[card.minor] = found[card.uuid] = card
        for instance in card.instances:
            found[instance.uuid] = card
    return found


def _without_types(device: device_facts.Device, types: frozenset[str]) -> device_facts.Device:
    """Return a Device in which the devices of these types have a trouble, where they had none."""
    if not types:
        return device
    others = tuple(
        dataclasses.replace(one, trouble=Reason.INVALID_ALLOCATION)
        if one.trouble is None and one.type in types
        else one
        for one in device.others
    )
    return dataclasses.replace(device, others=others)


def _troubled(
    device: device_facts.Device, which: Callable[[PhysicalDevice], bool], reason: Reason
) -> device_facts.Device:
    cards = tuple(
        dataclasses.replace(card, trouble=reason) if card.trouble is None and which(card) else card
        for card in device.cards
    )
    return dataclasses.replace(device, cards=cards)
