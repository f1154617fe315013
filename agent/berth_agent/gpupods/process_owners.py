"""Which pods the processes on the cards belong to, and which of them use a card without permission.

The driver knows processes, the kernel their cgroups, and the names of these lead to pods and
containers. A process that has ended meanwhile is left out; one without a pod belongs to the host.
Everything is pure but `locate`, which reads the cgroups.
"""

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from berth_agent import device_status, probe
from berth_agent.kubelet import cgroups, device_ids
from berth_crds import schema_limits, wire

# The memory of a process changes all the time. A change by less than this part is not published.
LEAST_CHANGE: Final = 0.25
# The server of MPS, as the kernel shortens its name. The programs of others compute through it, and it has
# 66 MiB of an H200 for itself: it closes its card only with so many times as much as another program.
MPS_SERVER: Final = "nvidia-cuda-mps"
MPS_SERVER_TIMES: Final = 4


@dataclasses.dataclass(frozen=True, slots=True)
class LocatedProcess:
    """A process on a card, the pod and container of its cgroup, and the name of its program."""

    process: probe.Process
    owner: cgroups.CgroupOwner
    command: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class CardProcess:
    """A process on a device of the node, and its pod as far as is allocatable.

    Without a pod it belongs to the host; an unknown container is empty.
    """

    pid: int
    memory: int | None
    device: device_ids.AllocatableDevice
    pod: device_ids.PodKey | None = None
    container: str = ""
    command: str = ""


OwnerOf = Callable[[cgroups.CgroupOwner], tuple[device_ids.PodKey, str] | None]


def locate(found: Iterable[probe.Process], procfs: Path) -> tuple[LocatedProcess, ...]:
    """Return the processes with the owners of their cgroups, without those that have ended."""
    places = ((process, cgroups.read_owner(procfs, process.pid)) for process in found)
    return tuple(
        LocatedProcess(process, place, cgroups.read_command(procfs, process.pid))
        for process, place in places
        if place is not None
    )


def on_cards(
    processes: Iterable[LocatedProcess], allocatable: device_ids.AllocatableDevices, owner_of: OwnerOf
) -> tuple[CardProcess, ...]:
    """Return the processes with their pods; those on unknown cards are left out."""
    return tuple(
        _on_card(located, allocatable[located.process.uuid], owner_of)
        for located in processes
        if located.process.uuid in allocatable
    )


def _on_card(process: LocatedProcess, device: device_ids.AllocatableDevice, owner_of: OwnerOf) -> CardProcess:
    pod, container = owner_of(process.owner) or (None, "")
    return CardProcess(process.process.pid, process.process.memory, device, pod, container, process.command)


def by_pod(found: Iterable[CardProcess]) -> Mapping[device_ids.PodKey, Mapping[str, tuple[str, ...]]]:
    """Return by pod and container the devices on which the driver shows processes."""
    seen: dict[device_ids.PodKey, dict[str, set[tuple[int, str]]]] = {}
    for process in found:
        if process.pod:
            held = seen.setdefault(process.pod, {}).setdefault(process.container, set())
            held.add((process.device.minor, process.device.uuid))
    return {
        key: {name: tuple(uuid for _, uuid in sorted(pairs)) for name, pairs in sorted(containers.items())}
        for key, containers in seen.items()
    }


# ---------------------------------------------------------------- without permission


def covers(given: Collection[str], uuid: str, allocatable: device_ids.AllocatableDevices) -> bool:
    """Whether a pod that was given these devices may be seen on this one.

    The driver may name the card instead of a MIG instance of it, and the other way round.
    """
    card = allocatable[uuid].card if uuid in allocatable else uuid
    alike = (key for key, device in allocatable.items() if key == card or device.card == uuid)
    return uuid in given or any(key in given for key in alike)


def unauthorized(
    found: Iterable[CardProcess],
    given: Callable[[device_ids.PodKey], Iterable[str]],
    allocatable: device_ids.AllocatableDevices,
) -> frozenset[CardProcess]:
    """Return the processes on devices that their pods were not given."""
    # A pod may have many processes, and many devices: these are collected once.
    devices_of = functools.cache(lambda pod: frozenset(given(pod)))
    return frozenset(
        one
        for one in found
        if one.pod is None or not covers(devices_of(one.pod), one.device.uuid, allocatable)
    )


def seen_before(
    now: Iterable[CardProcess], before: Iterable[CardProcess], published: device_status.Occupants
) -> tuple[CardProcess, ...]:
    """Return the processes that the sample before has shown as well, or that are published.

    The first process of a pod may be seen before the kubelet lists it, and the last one after the pod
    has ended: neither should keep the card from being given out. An agent that has just been started has
    no sample before, and what an earlier one published was seen then.
    """
    earlier = {(one.pid, one.device.card) for one in before}
    earlier |= {(one.pid, card) for card, held in published.items() for one in held}
    return tuple(one for one in now if (one.pid, one.device.card) in earlier)


def occupants(
    found: Iterable[CardProcess], before: device_status.Occupants, *, least_memory: int = 0
) -> device_status.Occupants:
    """Return the unauthorized processes of each card, those last that do not close it.

    `before` is what was published so far. With less than `least_memory` bytes of the card a process is small.
    """
    by_card: dict[str, dict[int, wire.Occupant]] = {}
    for process in sorted(found, key=lambda process: (process.device.card, process.pid, process.device.uuid)):
        published = next(
            (occupant for occupant in before.get(process.device.card, ()) if occupant.pid == process.pid),
            None,
        )
        by_card.setdefault(process.device.card, {})[process.pid] = _occupant(process, published, least_memory)
    most = min(schema_limits.MOST_OCCUPANTS, schema_limits.TOTAL_OCCUPANTS // max(1, len(by_card)))
    return {
        card: tuple(sorted(held.values(), key=lambda one: bool(one.small))[:most])
        for card, held in by_card.items()
    }


def _occupant(one: CardProcess, published: wire.Occupant | None, least_memory: int) -> wire.Occupant:
    namespace, name = one.pod or ("", "")
    memory = one.memory
    if (
        published
        and published.memory
        and memory
        and abs(memory - published.memory) < LEAST_CHANGE * published.memory
    ):
        memory = published.memory
    command = (published.command if published else "") or one.command
    times = MPS_SERVER_TIMES if command == MPS_SERVER else 1
    return wire.Occupant(
        pid=one.pid,
        memory=memory,
        namespace=namespace,
        pod=name,
        command=command,
        small=_is_small(one.memory, published, least_memory * times) or None,
    )


def _is_small(memory: int | None, published: wire.Occupant | None, least_memory: int) -> bool:
    """Whether a process uses too little to close its card; where nobody knows how much, it closes it.

    One that closes it stops doing so only well below the limit: the card must not change with each breath.
    """
    closes = published is not None and not published.small
    return memory is not None and memory < least_memory * (1 - LEAST_CHANGE if closes else 1)


def published_occupants(before: Iterable[wire.CardStatus]) -> device_status.Occupants:
    """Return the unauthorized processes that are published."""
    return {one.uuid: one.occupants for one in before if one.occupants}
