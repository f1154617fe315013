"""Whether a pod has devices to itself, found out by asking each pair of devices."""

from collections.abc import Collection

from berth_crds.vocabulary import Scope
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import device_view, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice


def is_alone(
    view: device_view.View, request: requests.DeviceRequest, given: Collection[PhysicalDevice]
) -> bool:
    """Return whether nobody has anything of what the pod wants to itself."""
    for kind, scope in request.grouping.exclusive:
        own = [one for one in given if one.type == kind]
        everything = (*view.device.cards, *view.device.others)
        others = [one for one in everything if one.type == kind and perhaps_held(view, one)]
        if own and scope is Scope.PCIE and kind == "gpu" and view.withheld:
            return False
        if any(one == other or (scope is Scope.PCIE and near(one, other)) for one in own for other in others):
            return False
    return True


def near(one: PhysicalDevice, other: PhysicalDevice) -> bool:
    """Return whether two devices may be below one root."""
    return one.root is None or other.root is None or one.root == other.root


def perhaps_held(view: device_view.View, card: PhysicalDevice) -> bool:
    """Return whether anybody may have anything of a device."""
    parts = [card.uuid, *(one.uuid for one in card.instances)]
    functions = any(one.bus in view.functions for one in card.functions)
    unclear = card.trouble in {Reason.OCCUPIED, Reason.INVALID_ALLOCATION, Reason.DUPLICATE_UUID}
    return unclear or functions or any(view.usage(uuid) != device_view.UNUSED for uuid in parts)
