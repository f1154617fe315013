"""Why a node cannot take a pod, found out only on request.

First each ask is taken by itself. Where too few devices could serve it, the answer lists
what is wrong with each of them, and the node's own reason is the one whose removal would
bring it nearest: what a device is comes before what is wrong with it, and that before
what others hold. Where every ask would fit by itself, something about their combination
is at fault, and that is found by asking again with less: nothing withheld, then no scope,
then nothing joint. The demand whose removal helps is the reason.

`never_fits` is not guessed either: the same request is put to the same node with nothing used
and nothing wrong.
"""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import (
    device_facts,
    device_view,
    finder,
    packing_problems,
    requests,
    scopes,
    verdicts,
)
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.scheduling.devices.verdicts import Verdict

FAULTS: Final = frozenset(
    {
        Reason.UNHEALTHY,
        Reason.CARD_CORDONED,
        Reason.OCCUPIED,
        Reason.DUPLICATE_UUID,
        Reason.INVALID_ALLOCATION,
    }
)


@dataclasses.dataclass(frozen=True, slots=True)
class Shortfall:
    """Why a node cannot take a pod: the node's reason, and what is wrong with each device.

    `wanted` and `found` count devices (or instances, or replicas). `container` names the
    container whose ask fails by itself; it is empty where only the combination does.
    `never_fits` tells that the node could not take the pod even with nothing used, and `lasting` what
    would keep it out then, if that is another reason than now.
    """

    reason: Reason
    never_fits: bool = False
    lasting: Reason | None = None
    container: str = ""
    wanted: int = 0
    found: int = 0
    detail: str = ""
    verdicts: tuple[Verdict, ...] = ()


def explain(
    view: device_view.View,
    request: requests.DeviceRequest,
    *,
    undecided: bool = False,
    effort: Effort | None = None,
) -> Shortfall:
    """Return why a request finds no place on a node; `undecided` where the search for one was cut short."""
    if not view.in_service:
        if view.quarantine:
            return Shortfall(Reason.QUARANTINED, detail=view.quarantine)
        failed = view.device.failed
        return Shortfall(Reason.SOURCE_FAILED if failed else Reason.SILENT, detail=failed)
    effort = Effort() if effort is None else effort
    never_fits = not effort.out_of_time and _fits(emptied(view), request, effort) is False
    if effort.out_of_time:
        return Shortfall(Reason.UNDECIDED, wanted=request.need.cards)
    effort.spend(finder.steps_to_read(view, request))
    if (found := next(_of_single_asks(view, request), None)) is None and undecided:
        found = Shortfall(Reason.UNDECIDED, wanted=request.need.cards)
    lasting = _lasting(view, request, effort) if never_fits and found is not None else None
    found = found or _of_combination(view, request, effort, never_fits=never_fits)
    return dataclasses.replace(found, never_fits=never_fits, lasting=lasting)


def _lasting(view: device_view.View, request: requests.DeviceRequest, effort: Effort) -> Reason | None:
    """Return what about the combination keeps a pod out even with nothing used; None where one ask does."""
    empty = emptied(view)
    if next(_of_single_asks(empty, request), None) is not None:
        return None
    return _of_combination(empty, request, effort, never_fits=True).reason


def _fits(view: device_view.View, request: requests.DeviceRequest, effort: Effort) -> bool | None:
    """Return whether a request finds a place; None where the search was cut short."""
    found = finder.find(view, request, effort) is not None
    return None if effort.cut_short and not found else found


def left_out(view: device_view.View, request: requests.DeviceRequest) -> tuple[verdicts.Verdict, ...]:
    """List the devices that an ask for every one would get, if only they were well."""
    asks = {ask for one in request.containers for ask in one.asks if isinstance(ask, requests.OtherDevices)}
    judged = {
        device.uuid: verdicts.judge(view, device, ask, request.conditions, grouping=request.grouping)
        for ask in sorted((ask for ask in asks if ask.every), key=lambda ask: (ask.type, ask.share))
        for device in packing_problems.others_in_order(view.device)
        if device.type == ask.type and device.trouble is not None
    }
    return tuple(verdict for verdict in judged.values() if verdict and verdict.reason not in verdicts.NEVER)


def emptied(view: device_view.View) -> device_view.View:
    """Show a node as it would be with nothing used and nothing wrong."""
    device = dataclasses.replace(
        view.device,
        cards=tuple(dataclasses.replace(card, trouble=None) for card in view.device.cards),
        others=tuple(dataclasses.replace(card, trouble=None) for card in view.device.others),
        failed="",
    )
    return device_view.View(device, honors_partitions=view.honors_partitions, core_limit=view.core_limit)


# ---------------------------------------------------------------- one ask by itself


def _of_single_asks(view: device_view.View, request: requests.DeviceRequest) -> Iterator[Shortfall]:
    suits: set[requests.Ask] = set()
    for container in request.containers:
        for ask in container.asks:
            shortfall = None if ask in suits else _of_ask(view, request, ask)
            suits.add(ask)
            if shortfall is not None:
                yield dataclasses.replace(shortfall, container=container.name)


def _of_ask(view: device_view.View, request: requests.DeviceRequest, ask: requests.Ask) -> Shortfall | None:
    devices = _devices(view, ask)
    if not (count := _wanted(view, request, ask)):
        return None
    conditions, grouping = request.conditions, request.grouping
    found = 0
    for one in devices:
        if verdicts.reason_against(view, one, ask, conditions, grouping=grouping) is None:
            found += _units(view, one, ask, request)
            if found >= count:
                return None
    judged = [verdicts.judge(view, one, ask, conditions, grouping=grouping) for one in devices]
    reason = _nearest(devices, judged, ask, request, count)
    unfit = tuple(verdict for verdict in judged if verdict is not None)
    return Shortfall(reason, wanted=count, found=found, detail=_detail(ask), verdicts=unfit)


def _devices(view: device_view.View, ask: requests.Ask) -> list[PhysicalDevice]:
    if isinstance(ask, requests.OtherDevices):
        return [one for one in packing_problems.others_in_order(view.device) if one.type == ask.type]
    return list(packing_problems.in_order(view.device.cards))


def _wanted(view: device_view.View, request: requests.DeviceRequest, ask: requests.Ask) -> int:
    if isinstance(ask, requests.OtherDevices) and ask.every:
        return packing_problems.count_of_every(view, ask, request)
    return ask.count


def _units(
    view: device_view.View, card: PhysicalDevice, ask: requests.Ask, request: requests.DeviceRequest
) -> int:
    """Count what a card that suits has to give to an ask: itself, its instances or its replicas."""
    if isinstance(ask, requests.Instances):
        free = verdicts.free_instances(view, card, request.conditions)
        return sum(one.profile == ask.profile for one in free)
    return verdicts.free_replicas(view, card) if isinstance(ask, requests.Replicas) else 1


def _nearest(
    devices: Sequence[PhysicalDevice],
    judged: Sequence[verdicts.Verdict | None],
    ask: requests.Ask,
    request: requests.DeviceRequest,
    count: int,
) -> Reason:
    """Find the first stage at which too few devices are left, and the most frequent reason of it."""
    if not devices:
        return Reason.NO_DEVICE
    if len(devices) < count and isinstance(ask, requests.Gpus | requests.OtherDevices):
        return Reason.TOO_FEW_CARDS
    left = [
        (card, verdict.reason if verdict else None) for card, verdict in zip(devices, judged, strict=True)
    ]
    unused = device_view.View(device_facts.Device(""))
    for stage in (verdicts.NEVER, FAULTS):
        against = [reason for _, reason in left if reason in stage]
        left = [(card, reason) for card, reason in left if reason not in stage]
        if against and sum(_units(unused, card, ask, request) for card, _ in left) < count:
            return _most_frequent(against, ask)
    reasons = [reason for _, reason in left]
    # Devices that nobody holds are nearer than those that are held.
    return Reason.ROOT_IN_USE if Reason.ROOT_IN_USE in reasons else _most_frequent(reasons, ask)


def _most_frequent(reasons: Iterable[Reason | None], ask: requests.Ask) -> Reason:
    """Return the most frequent reason; cards that have none just have too little left together."""
    found = collections.Counter(reason for reason in reasons if reason is not None).most_common(1)
    short = Reason.NO_INSTANCE if isinstance(ask, requests.Instances) else Reason.FULL
    return found[0][0] if found else short


def _detail(ask: requests.Ask) -> str:
    if isinstance(ask, requests.Instances):
        return ask.profile
    return _type(ask)


def _type(ask: requests.Ask) -> str:
    """Return the type of device that is asked for; cards have an empty name."""
    return ask.type if isinstance(ask, requests.OtherDevices) else ""


# ---------------------------------------------------------------- the combination


def _of_combination(
    view: device_view.View, request: requests.DeviceRequest, effort: Effort, *, never_fits: bool
) -> Shortfall:
    """Ask again with less and less, until it fits: what was given up last is the reason."""
    selectable = packing_problems.selectable_cards_of(
        view, packing_problems.in_order(view.device.cards), request
    )
    wanted, easier, least = request.need.cards, view, request
    for given_up, easier, least in _relaxed(view, request, selectable):
        fits = _fits(easier, least, effort)
        if fits or fits is None:
            reason = given_up if fits else Reason.UNDECIDED
            return Shortfall(reason, wanted=wanted, found=_found(view, request, selectable, reason))
    reason = Reason.TOO_FEW_CARDS if never_fits else Reason.FULL
    if lacking := _lacking_type(emptied(easier) if never_fits else easier, least, effort):
        return Shortfall(reason, detail=lacking)
    return Shortfall(reason, wanted=wanted, found=_found(view, request, selectable, reason))


def _lacking_type(view: device_view.View, request: requests.DeviceRequest, effort: Effort) -> str:
    """Return the type whose devices do not even suffice for the asks for them alone; empty for cards."""
    types = sorted({_type(ask) for one in request.containers for ask in one.asks})
    for kind in types if len(types) > 1 else ():  # A single type is the one.
        containers = (
            dataclasses.replace(one, asks=tuple(ask for ask in one.asks if _type(ask) == kind))
            for one in request.containers
        )
        alone = dataclasses.replace(request, containers=tuple(one for one in containers if one.asks))
        if _fits(view, alone, effort) is False:
            return kind
    return types[0] if types else ""


def _relaxed(
    view: device_view.View, request: requests.DeviceRequest, selectable: scopes.SelectableCards
) -> Iterator[tuple[Reason, device_view.View, requests.DeviceRequest]]:
    grouping = request.grouping
    if view.withheld:
        view = view._replace(withheld=0)
        yield Reason.WITHHELD, view, request
    if grouping.partition is not None:
        request = dataclasses.replace(
            request, grouping=dataclasses.replace(grouping, partition=None, ring_bandwidth=0)
        )
        yield Reason.NO_PARTITION, view, request
    if view.honors_partitions:
        view = view._replace(honors_partitions=False)
        yield Reason.PARTITIONS_HONORED, view, request
    if grouping.scope is not None and grouping.required:
        unbound = selectable._replace(table_only=False)
        bound = scopes.bound_to_table(unbound, grouping.scope, request.need.whole_cards)
        request = dataclasses.replace(request, grouping=dataclasses.replace(request.grouping, scope=None))
        yield (Reason.NO_PARTITION if bound else Reason.SCOPE_MISMATCH), view, request
    if grouping.joint:
        request = dataclasses.replace(request, grouping=dataclasses.replace(request.grouping, joint=()))
        yield Reason.NO_ROOT, view, request


def _found(
    view: device_view.View,
    request: requests.DeviceRequest,
    selectable: scopes.SelectableCards,
    reason: Reason,
) -> int:
    """Count the unused cards that the demand at fault leaves to choose from."""
    scope = request.grouping.scope
    if reason is Reason.WITHHELD:
        return max(0, selectable.free.bit_count() - view.withheld)
    if reason in {Reason.SCOPE_MISMATCH, Reason.NO_PARTITION} and scope is not None:
        around = scopes.groups(selectable.topology, scope, selectable.everything)
        return max((group & selectable.pool).bit_count() for group in (*around, 0))
    return selectable.pool.bit_count()
