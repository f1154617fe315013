"""What a pod holds whose own record cannot be read: what its GpuPod names, and the rest unnamed.

Such a pod surely has devices, so it withholds cards of its node as long as nothing can
tell which. Its GpuPod can: the agent of the node copied the record there while it could
be read. It counts for that very pod on that very node alone, and only for devices that
the node's Device has; whatever it leaves open stays withheld. One that names more cards than its
pod can have is not believed at all.

A pod of another scheduler can have devices from a device plugin alone: for resources
that its node offers, and not where the kubelet says that it has none. Once it runs, it has
them, and the agent of a node that asks the kubelet will say which: until it has, any card
of the node may be among them, and all that no pod holds by name are withheld. Before it
runs it may never be given any, so it withholds no more than it asks for. But Koordinator has an
agent of its own that hands out devices, and writes into the pod which: see `foreign_allocations`.

All of this is a function of the pod, its GpuPod, the Node, the Device and the policy, so it does
not matter which of them came first.
"""

import collections
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from berth_operator.scheduling import decisions, foreign_allocations, holds
from berth_operator.scheduling.devices import allocator, device_facts
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.holds import Hold

Piece = tuple[str, str]  # Type and uuid.
SURELY_ONE: Final = 1  # A pod that withholds cards has at least one.


@dataclasses.dataclass(frozen=True, slots=True)
class NamedDevices:
    """What a GpuPod says of the pod of its name: which pod that is, where, and what each container holds.

    `bare` tells that the pod runs and was given no device by the kubelet, and `given_otherwise` which cards
    it was given by the kubelet that are none of these.
    """

    title: str
    uid: str
    node: str
    grants: tuple[decisions.Grant, ...] = ()
    bare: bool = False
    given_otherwise: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """How much it takes of memory: itself, and each device that it lists."""
        return 1 + sum(len(grant.shares) for grant in self.grants)


@dataclasses.dataclass(frozen=True, slots=True)
class UnreadableAllocation:
    """What must be known of a pod whose own record cannot be read, for another to speak for it.

    `starts` has its containers in the order in which they start, and whether each keeps
    running; `fewest` counts the uuids of cards that a whole record of it has at least, and
    `most` those that it can have at most, in all its containers together. Of a
    pod of another scheduler, `plugged` says how many cards each resource that it asks for
    may have brought it, and `record` which devices that scheduler has written that it gave it. `runs` tells
    that its containers were started. `others` are the other types of devices that it asks for.
    """

    starts: tuple[tuple[str, bool], ...] = ()
    fewest: int = SURELY_ONE
    plugged: Mapping[str, int] | None = None
    runs: bool = False
    most: int = holds.ALL_CARDS
    record: foreign_allocations.ForeignRecord | None = None
    others: tuple[foreign_allocations.AskedType, ...] = ()


def distrusted(nameless: UnreadableAllocation) -> UnreadableAllocation:
    """Return what must be known of a pod whose record of another scheduler is not believed."""
    if nameless.record is None:
        return nameless
    return dataclasses.replace(nameless, record=foreign_allocations.distrusted(nameless.record))


def rejection(hold: Hold, named: NamedDevices, most: int = holds.ALL_CARDS) -> str:
    """Return why a GpuPod does not speak for this pod, which has so many cards at most, if so."""
    if named.uid != hold.uid:
        return f"it is of a pod with the uid {named.uid}, and that of the pod is {hold.uid}"
    if named.node != hold.node:
        return f"it is of node {named.node}, and the pod is on {hold.node}"
    if named.title not in hold.gpupod_titles:
        return f"it is called {named.title}, and the pod is {hold.title}"
    if (count := len(_listed(named))) > most:
        return f"it names {count} cards, and the pod has {most} at most for what it asks"
    return ""


def _listed(named: NamedDevices) -> set[str]:
    return _gpus(share for grant in named.grants for share in grant.shares)


def offered(hold: Hold, nameless: UnreadableAllocation, plugged: Collection[str] | None) -> Hold:
    """Return what a pod withholds where a plugin may serve these resources; None where that is not known."""
    if nameless.plugged is None or plugged is None:
        return hold
    most = sum(cards for name, cards in nameless.plugged.items() if name in plugged)
    types = {one.type for one in nameless.others if not one.resources.isdisjoint(plugged)}
    if hold.withheld <= most and hold.withheld_types <= types:
        return hold
    return hold.withholding(min(hold.withheld, most), hold.withheld_types & types)


def held(
    hold: Hold, nameless: UnreadableAllocation, named: NamedDevices | None, device: device_facts.Device | None
) -> Hold:
    """Return what a pod holds, given what it withholds while its devices are not named."""
    hold, in_doubt = foreign_allocations.cards_as_written(hold, nameless.record, device)
    hold = foreign_allocations.others_as_written(hold, nameless.record, nameless.others, device)
    if named is None or rejection(hold, named, nameless.most):
        return _unspoken(hold, nameless, device)
    if named.bare and nameless.plugged is not None:
        return hold if in_doubt else dataclasses.replace(hold, withheld=0)
    if device is None:
        return hold
    if not named.grants:
        return _unspoken(hold, nameless, device)
    return _by_gpupod(hold, nameless, named, device)


def _by_gpupod(
    hold: Hold, nameless: UnreadableAllocation, named: NamedDevices, device: device_facts.Device
) -> Hold:
    """Return what a pod holds by its GpuPod, beside what its record has named of other types."""
    there = _there(named.grants, device)
    shares = allocator.peak_shares(in_turn(_known(named.grants, there), nameless.starts))
    marked = hold.marked - _words(shares) - _words(share for grant in named.grants for share in grant.shares)
    types = hold.withheld_types & _open_types(named.grants, there, shares, nameless.others)
    recorded = {share.type for share in hold.shares}
    both = (*hold.shares, *(share for share in shares if share.type not in recorded))
    hold = dataclasses.replace(hold, shares=both, withheld_types=types)
    if not (cards := _gpus(shares)):
        return hold
    missing = max(nameless.fewest, len(_listed(named))) - len(cards)
    return dataclasses.replace(hold, withheld=max(0, missing), marked=marked)


def _open_types(
    grants: Iterable[decisions.Grant],
    there: Mapping[Piece, str],
    shares: Iterable[decisions.Share],
    asked: Iterable[foreign_allocations.AskedType],
) -> set[str]:
    """Return the types of which a GpuPod names a device that is not there, or less than its pod asks for."""
    core = collections.Counter[str]()
    for share in shares:
        core[share.type] += share.core
    missing = {
        share.type for grant in grants for share in grant.shares if (share.type, share.uuid) not in there
    }
    return missing | {one.type for one in asked if core[one.type] < max(one.core, 1)}


def _unspoken(hold: Hold, nameless: UnreadableAllocation, device: device_facts.Device | None) -> Hold:
    """Return what a pod withholds whose devices are not named yet."""
    soon = device is not None and device.kubelet_read and nameless.plugged is not None and nameless.runs
    return hold.withholding(holds.ALL_CARDS, hold.withheld_types) if soon and hold.withheld else hold


def in_turn(
    grants: Iterable[decisions.Grant], starts: Iterable[tuple[str, bool]]
) -> tuple[decisions.Grant, ...]:
    """Return grants in the order in which their containers start, and say of each whether it keeps running.

    A container that the pod does not have is taken for one that keeps running.
    """
    turns = {name: (at, runs) for at, (name, runs) in enumerate(starts)}
    last = len(turns), True
    found = [(turns.get(grant.container, last), grant) for grant in grants]
    found.sort(key=lambda one: one[0][0])
    return tuple(
        dataclasses.replace(grant, runs=runs) if grant.runs != runs else grant for (_, runs), grant in found
    )


def _words(shares: Iterable[decisions.Share]) -> set[str | int]:
    """Return by which words cards are marked: a NIC may well have the minor of a card."""
    return {word for share in shares if share.type == device_facts.GPU for word in (share.uuid, share.minor)}


def _gpus(shares: Iterable[decisions.Share]) -> set[str]:
    return {share.uuid for share in shares if share.type == device_facts.GPU}


# ---------------------------------------------------------------- what the Device has of it


def _there(grants: tuple[decisions.Grant, ...], device: device_facts.Device) -> Mapping[Piece, str]:
    """Find the devices that are named: by uuid, else by minor where no other device is named there."""
    pieces = set(_pieces(device))
    shares = [share for grant in grants for share in grant.shares]
    found = {(share.type, share.uuid): share.uuid for share in shares if (share.type, share.uuid) in pieces}
    at_minor = {(one.type, one.minor): one.uuid for one in _plain(device)}
    for share in shares:
        uuid = at_minor.get((share.type, share.minor))
        # A MIG instance has the minor of its card, which tells nothing of the instance.
        if uuid is not None and uuid not in found.values() and not share.profile:
            found.setdefault((share.type, share.uuid), uuid)
    return found


def _pieces(device: device_facts.Device) -> Iterator[Piece]:
    for one in (*device.cards, *device.others):
        yield one.type, one.uuid
        for instance in one.instances:
            yield one.type, instance.uuid


def _plain(device: device_facts.Device) -> Iterator[PhysicalDevice]:
    return (one for one in (*device.cards, *device.others) if not one.mig)


def _known(grants: tuple[decisions.Grant, ...], there: Mapping[Piece, str]) -> Iterator[decisions.Grant]:
    for grant in grants:
        shares = (
            dataclasses.replace(share, uuid=there[share.type, share.uuid])
            for share in grant.shares
            if (share.type, share.uuid) in there
        )
        yield dataclasses.replace(grant, shares=tuple(shares))
