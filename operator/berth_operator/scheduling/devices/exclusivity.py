"""Pods that want devices of a type to themselves: of a device, or of all that are below a PCIe root.

Such a pod gets a device only if no pod holds anything of it, or of any device of the type below its root. So
two pods that ask for the same never meet; one that asks for less, or for nothing, may still come later. All
this follows from what pods hold, which a restart reads back.

Two devices share a root unless both roots are known and differ. Cards that are held and not known by name may
be below any root, and so may held devices that the agent does not list at the moment.
"""

import dataclasses
from collections.abc import Iterator
from typing import Final

from berth_crds.vocabulary import Scope
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import device_facts, device_view, requests, verdicts
from berth_operator.scheduling.devices.device_facts import PhysicalDevice

# Troubles of devices that others hold, or hold what is beside it: they are none of their own.
SHARED: Final = frozenset({Reason.IN_USE, Reason.PARTLY_USED, Reason.ROOT_IN_USE})
# Devices that somebody may use although no pod holds them by name.
PERHAPS_USED: Final = frozenset({Reason.OCCUPIED, Reason.INVALID_ALLOCATION, Reason.DUPLICATE_UUID})


def for_request(view: device_view.View, request: requests.DeviceRequest) -> device_view.View:
    """Return a view in which no device is to be given that a request does not have to itself."""
    if not request.grouping.exclusive:
        return view
    device = view.device
    for kind, scope in request.grouping.exclusive:
        if kind == device_facts.GPU:
            device = dataclasses.replace(device, cards=tuple(_closed(view, device.cards, kind, scope)))
        else:
            device = dataclasses.replace(device, others=tuple(_closed(view, device.others, kind, scope)))
    return view._replace(device=device)


def _closed(
    view: device_view.View, devices: tuple[PhysicalDevice, ...], kind: str, scope: Scope
) -> Iterator[PhysicalDevice]:
    """Yield the devices, those with a trouble that others hold or are beside."""
    used = _used_roots(view, devices, kind) if scope is Scope.PCIE else frozenset()
    for device in devices:
        if device.type != kind or device.trouble is not None:
            yield device
        elif not verdicts.unused_part(view, device):
            held = Reason.IN_USE if verdicts.held_whole(view, device) else Reason.PARTLY_USED
            yield dataclasses.replace(device, trouble=held)
        elif used and (device.root is None or device.root in used or None in used):
            yield dataclasses.replace(device, trouble=Reason.ROOT_IN_USE)
        else:
            yield device


def _used_roots(
    view: device_view.View, devices: tuple[PhysicalDevice, ...], kind: str
) -> frozenset[str | None]:
    """Return below which roots a device of a type is held; None is one that is not known."""
    is_unknown = (kind == device_facts.GPU and view.withheld) or _holds_unlisted(view, devices, kind)
    return frozenset({None} if is_unknown else ()).union(
        device.root
        for device in devices
        if device.type == kind and (device.trouble in PERHAPS_USED or not verdicts.unused_part(view, device))
    )


def _holds_unlisted(view: device_view.View, devices: tuple[PhysicalDevice, ...], kind: str) -> bool:
    """Whether pods hold a device of a type that is not listed; a uuid begins with its type."""
    listed = {uuid for device in devices for uuid in (device.uuid, *(one.uuid for one in device.instances))}
    prefixes = ("gpu-", "mig-") if kind == device_facts.GPU else (f"{kind}-",)
    return any(
        used != device_view.UNUSED and uuid not in listed and uuid.lower().startswith(prefixes)
        for uuid, used in view.used.items()
    )
