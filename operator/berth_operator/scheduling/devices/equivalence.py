"""Nodes and devices that are alike: what one of them says to a pod, all of them say.

Thousands of nodes are bought alike and filled alike, and a search on one of them may take
milliseconds. So the answer of one holds for the others, by all that it depends on: the
devices, their wiring and their use, apart from the names of nodes, devices and pods. Of a
name it matters only whether the pod lists it. Of a device that cannot serve the pod the use
does not matter, only why it cannot: so nodes are alike, too, whose used cards hold different amounts.
"""

import weakref
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from berth_operator.scheduling.devices import device_facts, device_view, joint, requests, verdicts
from berth_operator.scheduling.devices.device_facts import PhysicalDevice

MOST_ASKS: Final = 64  # Devices are not judged by more than these: that would take too long.


def class_of(view: device_view.View, request: requests.DeviceRequest) -> Hashable:
    """Return a node's equivalence class for a request: all that its answer depends on.

    A topology is meant, not kept: it would stay in memory as long as the answer.
    """
    device, matters = view.device, _Matters.to(request)
    rooms: dict[Hashable, Hashable] = {}  # Most devices of a node are alike: one of them is judged.
    devices = []
    for one in (*device.cards, *device.others):
        facts = _facts(one, matters)
        key = facts, _use(view, one, matters)
        if (room := rooms.get(key)) is None:
            room = rooms[key] = facts, _room(view, one, request, matters)
        devices.append((room, one.numa, one.root, one.minor))
    topology = weakref.ref(device.topology)
    return view.in_service, view.withheld, view.honors_partitions, device.failed, topology, tuple(devices)


def groups(
    view: device_view.View, devices: Sequence[PhysicalDevice], request: requests.DeviceRequest
) -> Iterator[tuple[int, ...]]:
    """Yield the numbers of devices that are alike, wherever they are in the node: each in one group."""
    found: dict[Hashable, list[int]] = {}
    matters = _Matters.to(request)
    for number, device in enumerate(devices):
        found.setdefault((_facts(device, matters), _use(view, device, matters)), []).append(number)
    return map(tuple, found.values())


class _Matters(NamedTuple):
    """What of a device matters to a pod: labels, names and measurements only if it selects by them."""

    labels: bool
    names: requests.Conditions | None
    measured: bool

    @staticmethod
    def to(request: requests.DeviceRequest) -> "_Matters":
        """Return what matters to a request."""
        asked, grouping = request.conditions, request.grouping
        labels = bool(asked.card_labels or grouping.labels or grouping.function_labels)
        names = asked if asked.uuids or asked.avoid_uuids else None
        return _Matters(labels, names, measured=asked.free_memory_at_least > 0)


def _facts(card: PhysicalDevice, matters: _Matters) -> Hashable:
    """Return what a device is, whatever is taken of it, but for where it is."""
    labels = card.labels if matters.labels else ()
    plain = card.type, card.model, card.memory, card.mig, card.replicas, labels
    pieces = tuple(_piece(one, matters) for one in card.instances) if card.instances else ()
    functions = (
        tuple(one.labels if matters.labels else () for one in card.functions) if card.functions else ()
    )
    return plain, _listed(card.uuid, matters.names), pieces, functions


def _piece(one: device_facts.Instance, matters: _Matters) -> Hashable:
    return one.profile, one.memory, one.start, one.size, _listed(one.uuid, matters.names)


def _listed(uuid: str, asked: requests.Conditions | None) -> Hashable:
    """Return on which lists of the pod a name is."""
    return None if asked is None else (uuid in asked.uuids, uuid in asked.avoid_uuids)


def _use(view: device_view.View, card: PhysicalDevice, matters: _Matters) -> Hashable:
    """Return what is wrong with a device, what is taken of it, and what was measured free of it."""
    pieces = tuple(view.usage(one.uuid) for one in card.instances) if card.instances else ()
    functions = tuple(one.bus in view.functions for one in card.functions) if card.functions else ()
    measured = view.measured_free.get(card.uuid) if matters.measured else None
    return card.trouble, view.usage(card.uuid), pieces, functions, measured


def _room(
    view: device_view.View, card: PhysicalDevice, request: requests.DeviceRequest, matters: _Matters
) -> Hashable:
    """Return the use of a device that may serve the pod; of another one why it cannot, for each ask.

    One that may serve has as much memory free as is required. Of a card that cannot it still matters whether
    it is idle, for some of the idle ones may be withheld.
    """
    if sum(len(one.asks) for one in request.containers) > MOST_ASKS:
        return _use(view, card, matters)
    reasons = []
    for ask in _asks_for(card.type, request):
        reason = verdicts.reason_against(view, card, ask, request.conditions, grouping=request.grouping)
        if reason is None:
            return _use(view, card, matters._replace(measured=False))
        reasons.append(reason)
    return card.type == device_facts.GPU and card.trouble is None and view.unused(card), tuple(reasons)


def _asks_for(kind: str, request: requests.DeviceRequest) -> Iterable[requests.Ask]:
    """Return each different ask for devices of a type, once."""
    asks = (ask for container in request.containers for ask in container.asks)
    return dict.fromkeys(ask for ask in asks if joint.type_of(ask) == kind)
