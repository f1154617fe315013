"""Devices that belong together: a NIC on the PCIe root of each GPU that it serves.

A pod that asks for GPUs and NICs jointly wants every transfer to stay below one root.
The first type that the pod lists leads, or the GPUs where it lists them, and the others follow: each
container's following devices sit on the roots of its own leading devices, on every such
root at least one, and where there are more roots than devices were asked for, the count
is raised to the number of roots. A container that has none of the leading type follows
all leading devices of its pod. A device whose root is unknown follows nothing, and
nothing can follow it. Asks for `every` device of a type take no part: they get all.

Where this is only a wish, the leading devices are chosen as if they were alone. The others come as near
to them as they can: below their roots first, then on their NUMA nodes, then anywhere. Their count is
raised as far as there are devices.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from berth_operator.scheduling.devices import device_facts, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice

UNKNOWN: Final = 1  # The root of leading devices of which no root is known: no follower has this bit.


class Place(Protocol):
    """What is asked of a spot: its device, and a bit for the PCIe root."""

    @property
    def card(self) -> PhysicalDevice:
        """The device."""

    @property
    def root(self) -> int:
        """The bit of its root."""


@dataclasses.dataclass(frozen=True, slots=True)
class Roles:
    """Which type leads and which follow; none does where the pod asks for one of the types only.

    With `wished` those that follow need only come as near as they can.
    """

    leader: str = ""
    followers: frozenset[str] = frozenset()
    wished: bool = False

    @property
    def types(self) -> frozenset[str]:
        """All types that take part."""
        return self.followers | {self.leader} if self.followers else frozenset()


NO_ROLES: Final = Roles()


def roles(request: requests.DeviceRequest) -> Roles:
    """Return who leads and who follows."""
    joint = request.grouping.joint or request.grouping.joint_wish
    if len(joint) <= 1:
        return NO_ROLES
    leader = device_facts.GPU if device_facts.GPU in joint else joint[0]
    asked = {
        type_of(ask)
        for one in request.containers
        for ask in one.asks
        if ask.count > 0 and not (isinstance(ask, requests.OtherDevices) and ask.every)
    }
    followers = (frozenset(joint) - {leader}) & asked
    wished = not request.grouping.joint
    return Roles(leader, followers, wished) if followers and leader in asked else NO_ROLES


def type_of(ask: requests.Ask) -> str:
    """Return the type of device that is asked for."""
    return ask.type if isinstance(ask, requests.OtherDevices) else device_facts.GPU


def root_bits(device: device_facts.Device) -> Mapping[str, int]:
    """Return a bit of its own for each known PCIe root of a node."""
    known = {one.root for one in (*device.cards, *device.others) if one.root is not None}
    return {root: UNKNOWN << at for at, root in enumerate(sorted(known), start=1)}


def to_follow(roots: Sequence[int], container_number: int) -> int:
    """Return the roots beside which the devices of one container must sit; 0 where nothing leads."""
    everyone = 0
    for one in roots:
        everyone |= one
    return roots[container_number] or everyone


def in_rounds(order: Sequence[int], roots: Sequence[int]) -> list[int]:
    """Return one spot of each root, then another of each, so that the first few already reach all roots."""
    seen: dict[int, int] = {}
    rounds = []
    for at, root in zip(order, roots, strict=True):
        seen[root] = seen.get(root, 0) + 1
        rounds.append((seen[root], at))
    return [at for _, at in sorted(rounds, key=lambda pair: pair[0])]


def nearest_first(
    order: Sequence[int], spots: Sequence[Place], roots: int, leading: Collection[int]
) -> list[int]:
    """Order spots: below these roots in rounds, on a NUMA node of the leading ones, then the rest."""
    numa_nodes = {spots[at].card.numa for at in leading} - {None}
    below = [at for at in order if spots[at].root & roots]
    others = [at for at in order if not spots[at].root & roots]
    others.sort(key=lambda at: spots[at].card.numa not in numa_nodes)  # The sort is stable.
    return [*in_rounds(below, [spots[at].root for at in below]), *others]
