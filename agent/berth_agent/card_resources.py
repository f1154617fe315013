"""How much of each resource that pods ask for a device gives. Pure."""

import collections

from berth_crds import card_part, device_types, names, vocabulary, wire


def of_device(device: wire.Card) -> dict[str, int]:
    """Return what a device gives when nobody has any of it, by Berth's names and those of MIG instances."""
    if device.type != vocabulary.DeviceType.GPU:
        described = device_types.BY_NAME.get(device.type)
        return {described.resource: described.amount} if described else {}
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
