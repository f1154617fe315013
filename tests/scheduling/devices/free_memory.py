"""How much memory of a card is free, counted naively."""

from berth_operator.scheduling.devices import device_view, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice


def is_enough(view: device_view.View, card: PhysicalDevice, asked: requests.Conditions) -> bool:
    """Return whether a card has as much free as is required of each: promised to nobody, used by nobody."""
    free = unpromised(view, card)
    if card.uuid in view.measured_free:
        free = min(free, view.measured_free[card.uuid])
    return free >= asked.free_memory_at_least


def unpromised(view: device_view.View, card: PhysicalDevice) -> int:
    """Return what is left of a card, of its instances or of its replicas."""
    used = view.usage(card.uuid)
    if card.replicas > 1:
        core, memory = 100 // card.replicas, card.memory // card.replicas
        count = used.pods
        while count * core < used.core or (memory and count * memory < used.memory):
            count += 1
        return max(0, card.memory * (card.replicas - count) // card.replicas)
    if card.mig:
        left = [one.memory for one in card.instances if view.usage(one.uuid) == device_view.UNUSED]
        return sum(left) if used == device_view.UNUSED else 0
    return max(0, card.memory - used.memory)
