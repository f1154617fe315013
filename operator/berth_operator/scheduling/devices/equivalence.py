"""Nodes and devices that are alike: what one of them says to a pod, all of them say.

Thousands of nodes are bought alike and filled alike, and a search on one of them may take
milliseconds. So the answer of one holds for the others, by all that it depends on: the
devices, their wiring and their use, apart from the names of nodes, devices and pods. For
pods that name single devices no two nodes are alike.
"""

import weakref
from collections.abc import Hashable, Iterator, Mapping, Sequence

from berth_operator.scheduling.devices import device_view, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice


def class_of(view: device_view.View, request: requests.DeviceRequest) -> Hashable:
    """Return a node's equivalence class for a request: all that its answer depends on; None if it has none.

    A topology is meant, not kept: it would stay in memory as long as the answer.
    """
    if _names_devices(request):
        return None
    device = view.device
    selects = _selects_labels(request)
    devices = tuple(
        (*_device(view, one, selects=selects), one.numa, one.root, one.minor)
        for one in (*device.cards, *device.others)
    )
    topology = weakref.ref(device.topology)
    node = view.in_service, view.withheld, view.honors_partitions, device.failed, topology, devices
    measured = _measured(view, request)
    return (*node, tuple(measured.get(one.uuid) for one in device.cards)) if measured else node


def groups(
    view: device_view.View, devices: Sequence[PhysicalDevice], request: requests.DeviceRequest
) -> Iterator[tuple[int, ...]]:
    """Yield the numbers of devices that are alike, wherever they are in the node: each in one group."""
    found: dict[Hashable, list[int]] = {}
    names_devices, selects = _names_devices(request), _selects_labels(request)
    measured = _measured(view, request)
    for number, device in enumerate(devices):
        key: Hashable = device.uuid if names_devices else _device(view, device, selects=selects)
        if measured:
            key = key, measured.get(device.uuid)
        found.setdefault(key, []).append(number)
    return map(tuple, found.values())


def _names_devices(request: requests.DeviceRequest) -> bool:
    return bool(request.conditions.uuids or request.conditions.avoid_uuids)


def _selects_labels(request: requests.DeviceRequest) -> bool:
    grouping = request.grouping
    return bool(request.conditions.card_labels or grouping.labels or grouping.function_labels)


def _measured(view: device_view.View, request: requests.DeviceRequest) -> Mapping[str, int]:
    """Return what was measured free of each card, where the answer depends on it; else nothing."""
    return view.measured_free if request.conditions.free_memory_at_least else {}


def _device(view: device_view.View, card: PhysicalDevice, *, selects: bool) -> tuple[Hashable, ...]:
    """Return all that it depends on whether a device can serve an ask, but for where it is and its names.

    Labels count only for who `selects` by them: each card has some.
    """
    labels = card.labels if selects else ()
    plain = (card.type, card.model, card.memory, card.trouble, card.mig, card.replicas, labels)
    pieces = tuple(
        (one.profile, one.memory, one.start, one.size, view.usage(one.uuid)) for one in card.instances
    )
    functions = tuple((one.labels if selects else (), one.bus in view.functions) for one in card.functions)
    return plain, view.usage(card.uuid), pieces, functions
