"""Changes of one node: room made on its cards, pods that end, things put right.

Each is proposed only after a copy of the node was changed that way and the pod found its
place there. For every kind of change the nearest nodes are tried, a few of them, and the
first success is told: one way is enough to know what would help.
"""

import dataclasses
import functools
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from berth_operator.scheduling import node_info
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, facts
from berth_operator.scheduling.explain import diagnosis, findings, node_survey, node_trials, obstacles
from berth_operator.scheduling.explain.findings import EndPods, Finding, FreeResource, MakeRoom, Repair, Room
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts as nodes

NODES_TRIED: Final = 2
PODS_TRIED: Final = 16
T = TypeVar("T")
TROUBLE: Final = (Reason.CORDONED, Reason.UNHEALTHY, Reason.OCCUPIED, Reason.DUPLICATE_UUID)


def find_changes(
    survey: node_survey.NodeSurvey, found: tuple[Finding, ...], refused: obstacles.SingleObstacles
) -> Iterator[findings.Change]:
    """Find changes of nodes, one of each kind at most, that would each let the pod in."""
    near = [at for at in survey.nearest() if survey.remoteness[at] == 0]
    looked = {survey.inventory.index[one.node]: one for one in found if one.looked}
    told = [(at, looked[at]) for at in near if at in looked]
    some = functools.partial(_while_able, survey)
    yield from _first(_room_made(survey, at, one) for at, one in some(told[: 2 * NODES_TRIED]))
    yield from _first(_pods_ended(survey, at) for at in some(near[:NODES_TRIED]))
    yield from _first(_resource_freed(survey, at, one) for at, one in some(told[: 2 * NODES_TRIED]))
    for trouble in TROUBLE:
        with_trouble = [(at, one) for at, one in told if trouble in _troubles(one)]
        tried = some(with_trouble[:NODES_TRIED])
        yield from _first(_card_mended(survey, at, one, trouble) for at, one in tried)
    yield from _first(_opened(survey, at) for at in some(_closed(survey, Reason.SILENT)))
    yield from _first(_opened(survey, at) for at in some(_closed(survey, Reason.SOURCE_FAILED)))
    cordoned = refused.nodes.get(obstacles.CORDON)
    if cordoned is not None:
        yield from _first(_uncordoned(survey, at) for at in some(survey.nearest(cordoned)[:NODES_TRIED]))


def _while_able(survey: node_survey.NodeSurvey, rows_: Iterable[T]) -> Iterator[T]:
    """Yield nodes for as long as anything can be tried on them."""
    for one in rows_:
        if survey.exhausted:
            return
        yield one


def _first(tried: Iterable[findings.Change | None]) -> Iterator[findings.Change]:
    found = next((change for change in tried if change is not None), None)
    if found is not None:
        yield found


# ---------------------------------------------------------------- others give something up


def _room_made(survey: node_survey.NodeSurvey, at: int, found: Finding) -> MakeRoom | None:
    """Make room on as many cards as are missing, those first that lack least."""
    shortfall = found.shortfall
    if shortfall is None or found.never:
        return None
    rooms = [
        (max((one.part for one in diagnosis.missing(verdict)), default=0.0), verdict.minor, room_on(verdict))
        for verdict in shortfall.against
        if _gives_parts(verdict)
    ]
    missing = shortfall.wanted - shortfall.found
    if not 0 < missing <= len(rooms):
        return None
    easiest = sorted(rooms, key=lambda one: (round(one[0], 6), one[1], one[2].device))[:missing]
    made = tuple(room for _, _, room in easiest)
    info = survey.row(at)
    holds = node_trials.with_room(ending_order(info), made)
    if not holds or not node_trials.fits(survey, node_trials.changed_holds(survey, at, holds)):
        return None
    size = sum(lack for lack, _, _ in easiest) / shortfall.wanted
    return MakeRoom(info.name, made, _holders(info, {room.device for room in made}), min(1.0, size))


def _gives_parts(verdict: allocator.Verdict) -> bool:
    """Return whether a part of a device would do: who wants it whole wants nobody else on it."""
    whole = verdict.wanted.core >= verdict.total.core and verdict.wanted.memory >= verdict.total.memory
    return verdict.reason in diagnosis.USED and not verdict.never and not whole


def room_on(verdict: allocator.Verdict) -> Room:
    """Return how much would have to be freed on a device."""
    core = max(0, verdict.wanted.core - verdict.free.core)
    memory = max(0, verdict.wanted.memory - verdict.free.memory)
    return Room(verdict.device, verdict.minor, core, memory, verdict.type)


def _holders(info: node_info.NodeInfo, devices: set[str]) -> tuple[str, ...]:
    holds = (hold for hold in info.holds.values() if any(share.uuid in devices for share in hold.shares))
    return tuple(sorted(hold.title for hold in holds))


def ending_order(info: node_info.NodeInfo) -> list[Hold]:
    """Return the pods of a node in order: those first whose end would soonest leave a device unused."""
    pods: dict[str, int] = {}
    for hold in info.holds.values():
        for share in hold.shares:
            pods[share.uuid] = pods.get(share.uuid, 0) + 1

    def key(hold: Hold) -> tuple[object, ...]:
        crowd = min((pods[share.uuid] for share in hold.shares), default=0)
        memory = sum(share.memory for share in hold.shares)
        first = min((share.minor for share in hold.shares), default=findings.NO_MINOR)
        return not hold.shares, crowd, len(hold.shares), memory, first, hold.title, hold.uid

    return sorted(info.holds.values(), key=key)


def _pods_ended(survey: node_survey.NodeSurvey, at: int) -> EndPods | None:
    """End one pod after the other until this one fits, then let those go on whose end was not needed."""
    info = survey.row(at)
    order = ending_order(info)[:PODS_TRIED]
    copy = node_trials.copied(survey, at)
    for hold in order:
        copy.release(hold.uid)
    survey.effort.spend(len(order))
    if not node_trials.fits(survey, copy):
        return None
    copy, ended = node_trials.copied(survey, at), []
    for hold in order:
        if survey.exhausted:
            return None
        ended.append(copy.release(hold.uid))
        if node_trials.fits(survey, copy):
            found = _ended(survey, at, list(_needed(survey, copy, ended)))
            # Where the effort was spent meanwhile, more might be told than is needed.
            return None if survey.exhausted else found
    return None


def _needed(survey: node_survey.NodeSurvey, copy: Inventory, ended: list[Hold]) -> Iterator[Hold]:
    for hold in ended[:-1]:
        copy.charge(hold)
        if not node_trials.fits(survey, copy):
            yield copy.release(hold.uid)
    yield ended[-1]


def _ended(survey: node_survey.NodeSurvey, at: int, ended: list[Hold]) -> EndPods:
    info = survey.row(at)
    copy = node_trials.copied(survey, at)
    for hold in ended:
        copy.release(hold.uid)
    given = node_trials.shares(survey, copy)
    devices = _enough(survey, at, ended, given)
    size = len(devices) / max(1, len(given)) if devices else findings.WHOLE_SIZE
    ended = sorted(ended, key=lambda hold: (hold.title, hold.uid))
    uids, titles = (tuple(getattr(hold, field) for hold in ended) for field in ("uid", "title"))
    return EndPods(info.name, uids, titles, devices, size)


def _enough(survey: node_survey.NodeSurvey, at: int, ended: list[Hold], given: set[str]) -> tuple[Room, ...]:
    """Return the devices that would do if only these were given back, by all who share them; else none."""
    if survey.why(at)[0] is Reason.INSUFFICIENT_RESOURCE:
        return ()
    held = {share.uuid: share for hold in ended for share in hold.shares if share.uuid in given}
    less = [
        dataclasses.replace(hold, shares=tuple(one for one in hold.shares if one.uuid not in held))
        for hold in survey.row(at).holds.values()
        if any(share.uuid in held for share in hold.shares)
    ]
    if not held or not node_trials.fits(survey, node_trials.changed_holds(survey, at, less)):
        return ()
    return tuple(
        Room(uuid, share.minor, share.core, share.memory, share.type)
        for uuid, share in sorted(held.items(), key=lambda one: (one[1].minor, one[0]))
    )


def _resource_freed(survey: node_survey.NodeSurvey, at: int, found: Finding) -> FreeResource | None:
    """Free what is missing of the only resource that a node lacks."""
    if found.reason is not Reason.INSUFFICIENT_RESOURCE or len(found.measures) != 1 or found.never:
        return None
    info, measure = survey.row(at), found.measures[0]
    if measure.name == nodes.PODS and info.withheld:
        return None  # Which pods end matters: once a card is free, it may be one that must be left alone.
    holds = node_trials.with_resource(ending_order(info), measure.name, measure.missing)
    if not holds or not node_trials.fits(survey, node_trials.changed_holds(survey, at, holds)):
        return None
    return FreeResource(info.name, measure, min(1.0, measure.part))


# ---------------------------------------------------------------- things put right


def _troubles(found: Finding) -> set[Reason]:
    return {verdict.reason for verdict in found.shortfall.against} if found.shortfall else set()


def _card_mended(survey: node_survey.NodeSurvey, at: int, found: Finding, trouble: Reason) -> Repair | None:
    """Put as few cards right as will do, those first that would then be free."""
    info, device = survey.row(at), survey.row(at).owned
    if device is None or found.shortfall is None:
        return None
    cards = [one for one in found.shortfall.against if one.reason is trouble]
    cards.sort(key=lambda one: (-one.free.core, -one.free.memory, one.minor))
    missing = max(1, found.shortfall.wanted - found.shortfall.found)
    for count in range(min(missing, len(cards)), len(cards) + 1):
        mended = {one.device for one in cards[:count]}
        if node_trials.fits(survey, node_trials.changed_device(survey, at, repaired(device, mended))):
            rooms = tuple(Room(one.device, one.minor, type=one.type) for one in cards[:count])
            return Repair(info.name, trouble, rooms, min(1.0, count / max(1, found.shortfall.wanted)))
    return None


def repaired(device: facts.Device, mended: set[str]) -> facts.Device:
    """Return a node's devices with some of them free of trouble."""

    def each(cards: tuple[facts.Card, ...]) -> tuple[facts.Card, ...]:
        return tuple(
            dataclasses.replace(card, trouble=None) if card.uuid in mended else card for card in cards
        )

    return dataclasses.replace(device, cards=each(device.cards), others=each(device.others))


def _closed(survey: node_survey.NodeSurvey, reason: Reason) -> list[int]:
    """Choose nodes to open: those that could take the pod if they were."""
    able = survey.saying(frozenset({reason})) & survey.room & ~survey.never
    return survey.nearest(able)[:NODES_TRIED]


def _opened(survey: node_survey.NodeSurvey, at: int) -> Repair | None:
    """Make the agent report again, or read its cards again, but not both."""
    info, reason = survey.row(at), survey.why(at)[0]
    if info.owned is None:
        return None
    failed = info.owned.failed if reason is Reason.SILENT else ""
    copy = node_trials.changed_device(survey, at, dataclasses.replace(info.owned, failed=failed))
    return Repair(info.name, reason, (), findings.WHOLE_SIZE) if node_trials.fits(survey, copy) else None


def _uncordoned(survey: node_survey.NodeSurvey, at: int) -> Repair | None:
    info = survey.row(at)
    if info.node is None:
        return None
    copy = node_trials.changed_node(survey, at, obstacles.uncordoned(info.node))
    if not node_trials.fits(survey, copy):
        return None
    return Repair(info.name, Reason.UNSCHEDULABLE, (), findings.WHOLE_SIZE)
