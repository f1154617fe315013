"""Keeps Devices as they were read: what the operator writes into their statuses changes nothing of that.

A reading is a function of spec, labels and annotations, and of what the agent says in the status. While none
of these changes, the same value is returned, which the ledger has anyway and recognises without comparing
cards. A generation is not enough to go by: after etcd was restored, it comes again with another spec.
"""

from typing import NamedTuple

import msgspec

from berth_crds import wire
from berth_operator.scheduling.devices import device_facts
from berth_operator.translate import device_size, devices


class Read(NamedTuple):
    """What was read of a Device, and what of it is too large, if anything is."""

    device: device_facts.Device
    fault: str


class DeviceCache:
    """The last reading of each Device, by name."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[tuple[object, ...], Read]] = {}

    def read(self, device: wire.Device) -> Read:
        """Return what a Device says."""
        name, key = device.metadata.name, _key(device)
        if (known := self._read.get(name)) is not None and known[0] == key:
            return known[1]
        fault = device_size.too_large(device) or device_size.excess(device.spec)
        found = Read(devices.read(device, fault), fault)
        self._read[name] = key, found
        return found

    def forget(self, name: str) -> None:
        """Forget a Device that is gone."""
        self._read.pop(name, None)


def _key(device: wire.Device) -> tuple[object, ...]:
    """Return what a reading depends on; texts count by their hash, of which nobody outside knows the key."""
    meta, status = device.metadata, device.status
    said = (meta.labels, meta.annotations, device.spec, status.devices, status.conditions)
    return bool(device_size.too_large(device)), hash(msgspec.msgpack.encode(said))
