"""An audit of the inventory: devices that are overcommitted (I1), or allocated but missing (I2).

The operator never causes this; forged or damaged records, a swapped card, or another system's pods
can. Such a device is not given out again until its pods are gone. It is reported in the log at the
start, and on the Device for as long as it lasts.
"""

from collections.abc import Iterator

from berth_operator.scheduling import node_info
from berth_operator.scheduling.devices import device_facts, device_view
from berth_operator.scheduling.inventory import Inventory


def audit(inventory: Inventory) -> tuple[str, ...]:
    """Return the findings of all nodes, by name, as sentences."""
    return tuple(finding for info in inventory.each() for finding in node_findings(info))


def node_findings(info: node_info.NodeInfo) -> Iterator[str]:
    """Yield the findings of one node; without its Device there are none."""
    if info.device is None:
        return
    room = dict(_limits(info.device))
    for uuid, used in sorted(info.used.items()):
        if what := _problem(_with_oversale(room.get(uuid), used, uuid, info), used):
            pods = sorted(
                hold.title for hold in info.holds.values() if any(share.uuid == uuid for share in hold.shares)
            )
            yield f"{uuid} of {info.name} is {what.format(pods=' and '.join(pods))}"


def _limits(device: device_facts.Device) -> Iterator[tuple[str, device_view.Usage]]:
    """Yield each device with the most that may be allocated of it; unknown memory has no limit."""
    for unit in (*device.cards, *device.others):
        yield unit.uuid, device_view.Usage(device_view.FULL_CORE, unit.memory)
        for instance in unit.instances:
            yield instance.uuid, device_view.Usage(device_view.FULL_CORE, instance.memory, 1)


def _with_oversale(
    room: device_view.Usage | None, used: device_view.Usage, uuid: str, info: node_info.NodeInfo
) -> device_view.Usage | None:
    """Return the most that may be allocated of a device, by the limits under which its pods were placed.

    Only cards are oversold, not beside a pod that has one whole; and pods without a limit fit by themselves.
    """
    if room is None or used.core <= room.core or used.wholes or not _is_card(uuid, info):
        return room
    shares = [share for hold in info.holds.values() for share in hold.shares if share.uuid == uuid]
    if sum(share.core for share in shares if share.core_limit <= room.core) > room.core:
        return room
    return room._replace(core=max(room.core, *(share.core_limit for share in shares)))


def _is_card(uuid: str, info: node_info.NodeInfo) -> bool:
    """Whether a uuid is that of a card, and not of an instance or of another device."""
    return info.device is not None and any(card.uuid == uuid for card in info.device.cards)


def _problem(room: device_view.Usage | None, used: device_view.Usage) -> str:
    """Return what is wrong with a device, with {pods} for those that hold it; empty if nothing is."""
    if room is None:
        return "allocated to {pods} but missing"
    if used.core > room.core:
        return f"overcommitted: {used.core} % allocated to {{pods}}"
    if room.memory and used.memory > room.memory:
        return f"overcommitted: {used.memory} of {room.memory} bytes allocated to {{pods}}"
    if room.pods and used.pods > room.pods:
        return f"overcommitted: allocated {used.pods} times, to {{pods}}"
    return ""
