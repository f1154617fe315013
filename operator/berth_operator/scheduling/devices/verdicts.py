"""One device, one ask: may it serve, and if not, why not, in figures.

The judgement is the single place where the rules for one card stand; the search is built
from it and `explain` repeats it. It asks in a fixed order. First what the card is: the
conditions, its mode, its size; what fails here never fits, even on an empty card. Then
what is wrong with it just now. Last what others hold of it.

A card is in one of three modes. A plain card is given out whole or by shares. One in MIG
mode gives its static instances and nothing else. One whose agent shares it (by
time-slicing or MPS) gives its replicas and nothing else.
"""

import dataclasses
from collections.abc import Iterator
from typing import Final, NamedTuple, assert_never

from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import conditions, device_facts, device_view, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice

# Reasons that hold however little a card is used.
NEVER: Final = frozenset(
    {
        Reason.INVALID_REQUEST,
        Reason.MODEL_MISMATCH,
        Reason.NOT_INCLUDED,
        Reason.EXCLUDED,
        Reason.LABEL_MISMATCH,
        Reason.MIG_MODE,
        Reason.SHARING_MODE,
        Reason.PROFILE_MISMATCH,
        Reason.TOO_SMALL,
    }
)


class Amount(NamedTuple):
    """An amount of one device: percent, bytes, and pieces (replicas, instances, virtual functions)."""

    core: int = 0
    memory: int = 0
    pieces: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Why one device cannot serve one ask; `never_fits` tells that it could not even if it were unused.

    Of its core `core_limit` percent may be promised in all, and `excess` percent more than that are.
    """

    device: str
    minor: int
    type: str
    reason: Reason
    never_fits: bool
    wanted: Amount
    free: Amount
    total: Amount
    core_limit: int = requests.WHOLE
    excess: int = 0


def judge(
    view: device_view.View,
    card: PhysicalDevice,
    ask: requests.Ask,
    asked: requests.Conditions = requests.ANY_CARD,
    *,
    grouping: requests.Grouping = requests.NO_GROUPING,
) -> Verdict | None:
    """Return why a device cannot serve an ask, or None if it can; `grouping` matters for labels only."""
    if (reason := reason_against(view, card, ask, asked, grouping=grouping)) is None:
        return None
    wanted, left = need(card, ask), free(view, card, asked, grouping=grouping)
    if reason is Reason.FREE_MEMORY:
        wanted, left = Amount(memory=asked.free_memory_at_least), Amount(memory=free_now(view, card))
    limit, used = view.limit_of(card), view.usage(card.uuid).core
    if wanted.memory > left.memory:
        # Room for this pod is memory first, and with that the core can be promised as far as elsewhere.
        limit = view.limit_with_memory(card)
        left = left._replace(core=max(0, limit - used))
    return Verdict(
        card.uuid,
        card.minor,
        card.type,
        reason,
        reason in NEVER,
        wanted=wanted,
        free=left,
        total=total(card, asked, grouping=grouping),
        core_limit=limit,
        excess=max(0, used - limit),
    )


def reason_against(
    view: device_view.View,
    card: PhysicalDevice,
    ask: requests.Ask,
    asked: requests.Conditions = requests.ANY_CARD,
    *,
    grouping: requests.Grouping = requests.NO_GROUPING,
) -> Reason | None:
    """Return the reason of `judge` alone."""
    return (
        unfit(card, ask, asked, grouping=grouping)
        or card.trouble
        or _in_the_way(view, card, ask, asked, grouping)
        or (_too_little_free(view, card, asked) if asked.free_memory_at_least else None)
    )


# ---------------------------------------------------------------- figures


def core_of(kind: str) -> str:
    """Return what a part of a device is a part of: cards have cores, others are just shared."""
    return "core" if kind == device_facts.GPU else ""


def need(card: PhysicalDevice, ask: requests.Ask) -> Amount:
    """Return how much of a card one unit of an ask takes."""
    match ask:
        case requests.Gpus():
            return Amount(ask.core, ask.bytes_of(card.memory))
        case requests.Instances():
            return Amount(pieces=1)
        case requests.Replicas():
            return Amount(*_replica(card), 1)
        case requests.OtherDevices():
            return Amount(ask.share, card.memory * ask.share // requests.WHOLE)
    assert_never(ask)


def free(
    view: device_view.View, card: PhysicalDevice, asked: requests.Conditions, *, grouping: requests.Grouping
) -> Amount:
    """Return how much of a device is left."""
    pieces = sum(1 for _ in free_functions(view, card, grouping))
    if card.type == device_facts.GPU:
        instances = sum(1 for _ in free_instances(view, card, asked))
        pieces = free_replicas(view, card) if card.replicas > 1 else instances
    return Amount(view.free_core(card), view.free_memory(card), pieces)


def total(card: PhysicalDevice, asked: requests.Conditions, *, grouping: requests.Grouping) -> Amount:
    """Return how much of a device there would be if it were unused."""
    empty = device_view.View(device_facts.Device("", (card,)))
    return free(empty, card, asked, grouping=grouping)


def _replica(card: PhysicalDevice) -> tuple[int, int]:
    count = max(1, card.replicas)  # A card that is not shared is one replica, for the figures of a refusal.
    return requests.WHOLE // count, card.memory // count


def free_replicas(view: device_view.View, card: PhysicalDevice) -> int:
    """Count the replicas that are left: each pod has one at least, or as many as its hold is worth.

    The amounts count too because one pod may have several, and because the
    replicas may have been more or larger when a pod got its own.
    """
    used = view.usage(card.uuid)
    if view.exclusive_replicas and used.pods:
        return 0
    core, memory = _replica(card)
    taken = max(used.pods, -(-used.core // core) if core else 0, -(-used.memory // memory) if memory else 0)
    return max(0, card.replicas - taken)


def free_now(view: device_view.View, card: PhysicalDevice) -> int:
    """Return how much memory of a card is free: not promised, nor measured in use lately."""
    if card.replicas > 1:
        left = card.memory * free_replicas(view, card) // card.replicas
    elif card.mig:
        left = sum(one.memory for one in free_instances(view, card, requests.ANY_CARD))
    else:
        left = view.free_memory(card)
    return min(left, view.measured_free.get(card.uuid, left))


def enough_memory_free(view: device_view.View, card: PhysicalDevice, asked: requests.Conditions) -> bool:
    """Whether a card has as much memory free as is required of each."""
    return not asked.free_memory_at_least or free_now(view, card) >= asked.free_memory_at_least


def free_instances(
    view: device_view.View, card: PhysicalDevice, asked: requests.Conditions
) -> Iterator[device_facts.Instance]:
    """Yield the unused instances; none is free while a pod holds the card itself."""
    if view.usage(card.uuid) == device_view.UNUSED:
        for one in card.instances:
            if view.usage(one.uuid) == device_view.UNUSED and conditions.takes_instance(card, one, asked):
                yield one


def free_functions(
    view: device_view.View, device: PhysicalDevice, grouping: requests.Grouping
) -> Iterator[device_facts.Function]:
    """Yield the virtual functions with the right labels that are unused."""
    selectors = requests.of_type(grouping.function_labels, device.type)
    for one in device.functions:
        if one.bus not in view.functions and conditions.selected(one.labels, selectors):
            yield one


# ---------------------------------------------------------------- what the device is


def unfit(
    card: PhysicalDevice,
    ask: requests.Ask,
    asked: requests.Conditions,
    *,
    grouping: requests.Grouping = requests.NO_GROUPING,
) -> Reason | None:
    """Return what about the device itself, or about the ask, rules it out for good."""
    if isinstance(ask, requests.OtherDevices):
        return _unfit_part(card, ask, grouping) or conditions.unmet_by_other(card, asked)
    reason = None if asked is requests.ANY_CARD else conditions.unmet(card, asked)
    return reason or _wrong_mode(card, ask) or _too_small(card, ask, asked)


def _wrong_mode(
    card: PhysicalDevice, ask: requests.Gpus | requests.Instances | requests.Replicas
) -> Reason | None:
    if card.mig and not isinstance(ask, requests.Instances):
        return Reason.MIG_MODE
    return Reason.SHARING_MODE if (card.replicas > 1) != isinstance(ask, requests.Replicas) else None


def _too_small(
    card: PhysicalDevice,
    ask: requests.Gpus | requests.Instances | requests.Replicas,
    asked: requests.Conditions,
) -> Reason | None:
    if isinstance(ask, requests.Gpus):
        return _too_small_for(card, ask)
    if isinstance(ask, requests.Instances):
        ours = (one for one in card.instances if one.profile == ask.profile)
        fitting = card.mig and any(conditions.takes_instance(card, one, asked) for one in ours)
        return None if fitting else Reason.PROFILE_MISMATCH
    return None


def _too_small_for(card: PhysicalDevice, ask: requests.Gpus) -> Reason | None:
    if ask.is_whole:
        return None  # A whole card is whole whatever its size, even one whose size is unknown.
    if ask.core <= 0 and ask.memory <= 0 and ask.ratio <= 0:
        return Reason.INVALID_REQUEST
    asks_memory = ask.memory > 0 or ask.ratio > 0
    enough = card.memory > 0 and ask.bytes_of(card.memory) <= card.memory
    return None if ask.core <= requests.WHOLE and (enough or not asks_memory) else Reason.TOO_SMALL


def _unfit_part(
    device: PhysicalDevice, ask: requests.OtherDevices, grouping: requests.Grouping
) -> Reason | None:
    if ask.share <= 0:
        return Reason.INVALID_REQUEST
    if ask.share > requests.WHOLE:
        return Reason.TOO_SMALL
    if device.type != ask.type:
        return Reason.LABEL_MISMATCH
    selectors = requests.of_type(grouping.function_labels, ask.type)
    function = not selectors or any(conditions.selected(one.labels, selectors) for one in device.functions)
    right = conditions.selected(device.labels, requests.of_type(grouping.labels, ask.type))
    return None if right and function else Reason.LABEL_MISMATCH


# ---------------------------------------------------------------- what others hold of it


def _too_little_free(
    view: device_view.View, card: PhysicalDevice, asked: requests.Conditions
) -> Reason | None:
    """Return that too little of a card's memory is free; other devices have none to speak of."""
    enough = card.type != device_facts.GPU or enough_memory_free(view, card, asked)
    return None if enough else Reason.FREE_MEMORY


def _in_the_way(
    view: device_view.View,
    card: PhysicalDevice,
    ask: requests.Ask,
    asked: requests.Conditions,
    grouping: requests.Grouping,
) -> Reason | None:
    match ask:
        case requests.Gpus():
            return _not_whole(view, card) if ask.is_whole else _no_room(view, card, ask)
        case requests.Instances():
            left = any(one.profile == ask.profile for one in free_instances(view, card, asked))
            return None if left else Reason.NO_INSTANCE
        case requests.Replicas():
            full = Reason.IN_USE if view.exclusive_replicas else Reason.FULL
            return None if free_replicas(view, card) else full
        case requests.OtherDevices():
            return _no_part(view, card, ask, grouping)
    assert_never(ask)


def _not_whole(view: device_view.View, card: PhysicalDevice) -> Reason | None:
    if view.unused(card):
        return None
    return Reason.IN_USE if held_whole(view, card) else Reason.PARTLY_USED


def held_whole(view: device_view.View, card: PhysicalDevice) -> bool:
    """Whether one pod holds all of a device."""
    used = view.usage(card.uuid)
    return used.pods <= 1 and used.core >= device_view.FULL_CORE and used.memory >= card.memory


def _no_room(view: device_view.View, card: PhysicalDevice, ask: requests.Gpus) -> Reason | None:
    if any(view.usage(one.uuid) != device_view.UNUSED for one in card.instances):
        return Reason.PARTLY_USED  # Instances of a mode that the card has left; their memory is not free.
    if view.free_core(card) >= ask.core and view.free_memory(card) >= ask.least_of(card.memory):
        return None
    return Reason.IN_USE if held_whole(view, card) else Reason.FULL


def _no_part(
    view: device_view.View, device: PhysicalDevice, ask: requests.OtherDevices, grouping: requests.Grouping
) -> Reason | None:
    if ask.share == requests.WHOLE and not unused_part(view, device):
        return Reason.IN_USE if held_whole(view, device) else Reason.PARTLY_USED
    if view.free_core(device) < ask.share:
        return Reason.FULL
    if takes_function(device, ask, grouping) and next(free_functions(view, device, grouping), None) is None:
        return Reason.NO_FUNCTION
    return None


def unused_part(view: device_view.View, device: PhysicalDevice) -> bool:
    """Whether no pod has anything of a device, nor any of its virtual functions."""
    return view.unused(device) and not any(one.bus in view.functions for one in device.functions)


def takes_function(device: PhysicalDevice, ask: requests.OtherDevices, grouping: requests.Grouping) -> bool:
    """Return whether a share comes as a virtual function; a whole one only where one was described."""
    selectors = requests.of_type(grouping.function_labels, device.type)
    return bool(device.functions) and (ask.share < requests.WHOLE or bool(selectors))
