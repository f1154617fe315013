"""How much of each resource that pods ask for a device gives. Pure."""

import collections
from collections.abc import Mapping
from typing import Final

from berth_crds import card_part, names, vocabulary, wire

OTHERS: Final[Mapping[str, str]] = {
    vocabulary.DeviceType.RDMA: names.RDMA,
    vocabulary.DeviceType.FPGA: names.FPGA,
}


def of_device(device: wire.Card) -> dict[str, int]:
    """Return what a device gives when nobody has any of it, by Berth's names and those of MIG instances."""
    if device.type != vocabulary.DeviceType.GPU:
        return {OTHERS[device.type]: card_part.WHOLE} if device.type in OTHERS else {}
    if device.mig and device.mig.enabled:
        profiles = sorted(instance.profile for instance in device.mig.instances)
        return dict(collections.Counter(map(names.of_instances, profiles)))
    if device.sharing:
        return {names.GPU_SHARED: device.sharing.replicas}
    return {
        names.GPU: card_part.WHOLE,
        names.GPU_CORE: card_part.WHOLE,
        names.GPU_MEMORY: device.memory or 0,
        names.GPU_MEMORY_RATIO: card_part.WHOLE,
    }
