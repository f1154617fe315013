"""Where two things stand in the way: what they are on the node that comes nearest, and two changes that help.

Only asked when no single change helps. For each of a few nodes it is found out what is
wrong with its place, its agent, its devices and its resources, each as if the others were
well; the node with the fewest such things is the nearest. On the first few, changes are
tried two by two, on a copy of the node. A change is made of parts (pods, devices, cards
given up), and no more of them are told than the trial needs.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from berth_operator.scheduling import questions
from berth_operator.scheduling.constraints import reasons
from berth_operator.scheduling.constraints.constraint import Why
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.deficits import Deficit, Unit
from berth_operator.scheduling.devices import allocator, facts, requests
from berth_operator.scheduling.explain import (
    diagnosis,
    easing,
    findings,
    mending,
    node_survey,
    obstacles,
    trials,
)
from berth_operator.scheduling.explain.findings import Change, Condition, Edit, Room, Single
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts as nodes

NODES_TRIED: Final = 2
PARTS_TRIED: Final = 16


@dataclasses.dataclass(frozen=True, slots=True)
class World:
    """A pod, and a node with all that is on it."""

    request: requests.Request
    demand: nodes.Demand
    node: nodes.Node
    device: facts.Device | None
    silent: bool
    holds: tuple[Hold, ...]


Parts = tuple[Any, ...]


def _always(change: Single) -> Callable[[Parts], Single]:
    return lambda _: change


@dataclasses.dataclass(frozen=True, slots=True)
class Fix:
    """A kind of change and the most it could be made of; `needed` where nothing else would do instead."""

    parts: Parts
    change: Callable[[Parts], Single]
    apply: Callable[[World, Parts], World]
    needed: bool = False


# ---------------------------------------------------------------- what is in the way


def misses(survey: node_survey.NodeSurvey) -> list[tuple[int, tuple[Why, ...]]]:
    """List the nodes that come nearest with all that stands in their way, the fewest things first."""
    there = dict.fromkeys(diagnosis.worth_telling(survey))
    found = []
    for at in there:
        if survey.row(at).node and not survey.exhausted:
            survey.effort.spend(trials.STEPS_TO_TRY)
            found.append((at, tuple(dict.fromkeys(in_the_way(survey, at)))))
    return sorted(found, key=lambda one: len(one[1]))


def miss(survey: node_survey.NodeSurvey, at: int, whys: tuple[Why, ...]) -> findings.Nearest:
    """Name a node and what stands in its way."""
    reason, detail = survey.why(at)
    return findings.Nearest(survey.row(at).name, reason, detail, (), whys=whys)


def in_the_way(survey: node_survey.NodeSurvey, at: int) -> Iterator[Why]:
    """Yield what is wrong with a node: its place, its agent, its devices, its resources."""
    info = survey.row(at)
    for one in sorted(obstacles.each(info.node, survey.demand.where), key=str) if info.node else ():
        yield _why_of(one)
    if survey.request and info.device is not None and (info.silent or info.device.failed):
        yield (Reason.SILENT, "") if info.silent else (Reason.SOURCE_FAILED, info.device.failed)
    why = _of_devices(survey, at)
    if why is not None:
        yield why
    for measure in diagnosis.lacking_resources(survey, at):
        yield Reason.INSUFFICIENT_RESOURCE, measure.name


def _why_of(obstacle: obstacles.Obstacle) -> Why:
    if obstacle.condition is None:
        return Reason.UNSCHEDULABLE, ""
    taint = obstacle.condition is Condition.TAINT
    return (Reason.TAINTED, obstacle.key) if taint else (Reason.SELECTOR_MISMATCH, "")


def _of_devices(survey: node_survey.NodeSurvey, at: int) -> Why | None:
    """Return what is wrong with a node's devices, as if all else were well."""
    if not survey.request:
        return None
    world = _world(survey, at)
    device = dataclasses.replace(world.device, failed="") if world.device else None
    plain = nodes.Node(world.node.name)  # With nothing wrong about its place.
    copy = _built(survey, dataclasses.replace(world, node=plain, device=device, silent=False))
    table = reasons.evaluate(copy, questions.ask(survey.request, nodes.Demand()), {})
    if table.code[0]:
        return list(table.whys)[int(table.code[0]) - 1]
    info = copy.infos[0]
    found = (
        node_survey.look(info.view(), survey.request, survey.effort) if info and not survey.exhausted else ()
    )
    return (found.reason, found.detail) if isinstance(found, allocator.Shortfall) else None


# ---------------------------------------------------------------- two changes


def helpful(survey: node_survey.NodeSurvey, near: Iterable[int]) -> Iterator[Change]:
    """Find two changes that together let the pod in on one of the nearest nodes: the smallest two.

    One that alone does so there is told instead: only the very nearest were tried for one.
    """
    for at in itertools.islice(near, NODES_TRIED):
        found = list(_alone(survey, at)) or list(_pairs_of(survey, at))
        if found and not survey.exhausted:
            # Where the effort was spent meanwhile, more might be told than is needed.
            yield min(found, key=lambda one: round(one.size, 6))
            return


def _alone(survey: node_survey.NodeSurvey, at: int) -> Iterator[Change]:
    world, fixes = _world(survey, at), list(_fixes(survey, at))
    needed = [fix for fix in fixes if fix.needed]
    for one in fixes:
        if survey.exhausted:
            return
        if all(fix is one for fix in needed) and _helps(survey, one.apply(world, one.parts)):
            yield _settled_alone(survey, world, one)


def _settled_alone(survey: node_survey.NodeSurvey, world: World, fix: Fix) -> Single:
    parts = _fewest(fix.parts, lambda parts: _helps(survey, fix.apply(world, parts)))
    changed = fix.apply(world, parts)
    edit = Edit(changed.request, changed.demand, 1, exact=False, example=world.node.name)
    return _edited(fix.change(parts), edit)


def _pairs_of(survey: node_survey.NodeSurvey, at: int) -> Iterator[findings.Pair]:
    world, fixes = _world(survey, at), list(_fixes(survey, at))
    needed = [fix for fix in fixes if fix.needed]
    for one, other in itertools.combinations(fixes, 2):
        if survey.exhausted:
            return
        if all(fix is one or fix is other for fix in needed) and _helps(
            survey, other.apply(one.apply(world, one.parts), other.parts)
        ):
            yield _settled(survey, world, one, other)


def _settled(survey: node_survey.NodeSurvey, world: World, one: Fix, other: Fix) -> findings.Pair:
    """Reduce both changes to the parts that are needed."""
    first = _fewest(
        one.parts, lambda parts: _helps(survey, other.apply(one.apply(world, parts), other.parts))
    )
    eased = one.apply(world, first)
    second = _fewest(other.parts, lambda parts: _helps(survey, other.apply(eased, parts)))
    changed = other.apply(eased, second)
    edit = Edit(changed.request, changed.demand, 1, exact=False, example=world.node.name)
    changes = _edited(one.change(first), edit), _edited(other.change(second), edit)
    return findings.Pair(world.node.name, changes, sum(change.size for change in changes))


def _edited(change: Single, edit: Edit) -> Single:
    """Let a change of the pod tell what the pod asks after both."""
    if isinstance(change, findings.Drop | findings.AskLess):
        return dataclasses.replace(change, edit=edit)
    return change


def _fewest(parts: Parts, enough: Callable[[Parts], bool]) -> Parts:
    """Return the first parts that are enough, without those that were not needed."""
    if len(parts) == 1:
        return parts
    taken = next((parts[:count] for count in range(1, len(parts)) if enough(parts[:count])), parts)
    for part in taken[:-1]:
        fewer = tuple(one for one in taken if one is not part)
        if enough(fewer):
            taken = fewer
    return taken


def _world(survey: node_survey.NodeSurvey, at: int) -> World:
    info = survey.row(at)
    assert info.node is not None, "a node that refuses is known"  # noqa: S101
    return World(
        survey.request, survey.demand, info.node, info.owned, info.silent, tuple(mending.in_order(info))
    )


def _built(survey: node_survey.NodeSurvey, world: World) -> Inventory:
    return trials.built(survey, world.node, world.device, world.holds, silent=world.silent)


def _helps(survey: node_survey.NodeSurvey, world: World) -> bool:
    if survey.exhausted:
        return False
    return trials.place(survey, _built(survey, world), world.request, world.demand) is not None


# ---------------------------------------------------------------- the kinds of changes

ALL_OF_IT: Final = (None,)  # The parts of what is not made of any.


def _fixes(survey: node_survey.NodeSurvey, at: int) -> Iterator[Fix]:
    yield from _of_place(survey, at)
    yield from _of_agent(survey, at)
    for condition, _ in easing.relaxed(survey.request):
        yield _without(survey, condition)
    for trouble in mending.TROUBLE:
        yield from _of_trouble(survey, at, trouble)
    yield from _of_resources(survey, at)
    yield from _fewer(survey)
    yield from _of_pods(survey, at)


def _edit(survey: node_survey.NodeSurvey) -> Edit:
    return Edit(survey.request, survey.demand, 1, exact=False, example="")


def _of_place(survey: node_survey.NodeSurvey, at: int) -> Iterator[Fix]:
    node, where = _world(survey, at).node, survey.demand.where
    found = set(obstacles.each(node, where))
    pairs_ = {one for one in found if one.condition is Condition.SELECTOR}
    found = (found - pairs_) | {obstacles.SELECTOR} if len(pairs_) > 1 else found
    for obstacle in sorted(found, key=lambda one: (str(one.condition), str(one))):
        if obstacle.condition is None:
            mend = findings.Mend(node.name, Reason.UNSCHEDULABLE, (), findings.WHOLE_SIZE)
            yield Fix(ALL_OF_IT, _always(mend), _uncordon, needed=True)
        else:
            drop = findings.Drop(obstacle.condition, str(obstacle), _edit(survey), findings.WHOLE_SIZE)

            def ease(world: World, _: Parts, obstacle: obstacles.Obstacle = obstacle) -> World:
                eased = obstacles.ease(world.demand.where, obstacle) or world.demand.where
                return dataclasses.replace(world, demand=dataclasses.replace(world.demand, where=eased))

            yield Fix(ALL_OF_IT, _always(drop), ease, needed=True)


def _uncordon(world: World, _: Parts) -> World:
    return dataclasses.replace(world, node=obstacles.uncordoned(world.node))


def _of_agent(survey: node_survey.NodeSurvey, at: int) -> Iterator[Fix]:
    world = _world(survey, at)
    if not survey.request or world.device is None:
        return
    for reason, there, apply in (
        (Reason.SILENT, world.silent, _hear),
        (Reason.SOURCE_FAILED, world.device.failed, _read),
    ):
        if there:
            mend = findings.Mend(world.node.name, reason, (), findings.WHOLE_SIZE)
            yield Fix(ALL_OF_IT, _always(mend), apply, needed=True)


def _hear(world: World, _: Parts) -> World:
    return dataclasses.replace(world, silent=False)


def _read(world: World, _: Parts) -> World:
    device = dataclasses.replace(world.device, failed="") if world.device else None
    return dataclasses.replace(world, device=device)


def _without(survey: node_survey.NodeSurvey, condition: Condition) -> Fix:
    size = findings.WISH_SIZE if condition in findings.WISHES else findings.WHOLE_SIZE
    drop = findings.Drop(condition, "", _edit(survey), size)

    def apply(world: World, _: Parts) -> World:
        return dataclasses.replace(world, request=dict(easing.relaxed(world.request))[condition])

    return Fix(ALL_OF_IT, _always(drop), apply)


def _of_trouble(survey: node_survey.NodeSurvey, at: int, trouble: Reason) -> Iterator[Fix]:
    world = _world(survey, at)
    there = (*world.device.cards, *world.device.others) if world.device else ()
    ill = tuple(one for one in there if one.trouble is trouble)[:PARTS_TRIED]
    if not ill or not survey.request:
        return

    def change(parts: Parts) -> Single:
        rooms = tuple(Room(one.uuid, one.minor, type=one.type) for one in parts)
        return findings.Mend(world.node.name, trouble, rooms, findings.WHOLE_SIZE)

    def apply(world: World, parts: Parts) -> World:
        assert world.device is not None, "it has devices in trouble"  # noqa: S101
        mended = mending.well(world.device, {one.uuid for one in parts})
        return dataclasses.replace(world, device=mended)

    yield Fix(ill, change, apply)


def _of_resources(survey: node_survey.NodeSurvey, at: int) -> Iterator[Fix]:
    """Free what is missing of each resource, where pods hold so much."""
    world = _world(survey, at)
    for measure in diagnosis.lacking_resources(survey, at):
        if sum(dict(hold.amounts).get(measure.name, 0) for hold in world.holds) < measure.missing:
            continue
        freed = findings.FreeResource(world.node.name, measure, min(1.0, measure.part))

        def apply(world: World, _: Parts, measure: Deficit = measure) -> World:
            less = {one.uid: one for one in trials.with_resource(world.holds, measure.name, measure.missing)}
            holds = tuple(less.get(hold.uid, hold) for hold in world.holds)
            return dataclasses.replace(world, holds=holds)

        yield Fix(ALL_OF_IT, _always(freed), apply)


def _fewer(survey: node_survey.NodeSurvey) -> Iterator[Fix]:
    """Yield what asking for fewer cards would bring; the parts are the cards given up."""
    for at, number, ask in easing.each_ask(survey.request):
        if ask.count > 1 and not (isinstance(ask, requests.OtherDevices) and ask.every):
            yield _given_up(survey, at, number, ask)


def _given_up(survey: node_survey.NodeSurvey, at: int, number: int, ask: requests.Ask) -> Fix:
    def change(parts: Parts) -> Single:
        measure = Deficit(easing.counted(ask), Unit.PIECES, ask.count, ask.count - len(parts))
        return findings.AskLess(survey.request.containers[at].name, measure, _edit(survey), measure.part)

    def apply(world: World, parts: Parts) -> World:
        count = ask.count - len(parts)
        request = easing.with_ask(world.request, at, number, dataclasses.replace(ask, count=count))
        served = easing.scaled(survey, count, ask.count).served
        return dataclasses.replace(
            world, request=request, demand=dataclasses.replace(world.demand, served=served)
        )

    return Fix(tuple(range(min(ask.count - 1, PARTS_TRIED))), change, apply)


def _of_pods(survey: node_survey.NodeSurvey, at: int) -> Iterator[Fix]:
    world = _world(survey, at)
    if not world.holds:
        return

    def change(parts: Parts) -> Single:
        ended = sorted(parts, key=lambda hold: (hold.title, hold.uid))
        uids, titles = tuple(one.uid for one in ended), tuple(one.title for one in ended)
        return findings.EndPods(world.node.name, uids, titles, (), findings.WHOLE_SIZE)

    def apply(world: World, parts: Parts) -> World:
        ended = {hold.uid for hold in parts}
        return dataclasses.replace(world, holds=tuple(hold for hold in world.holds if hold.uid not in ended))

    yield Fix(world.holds[:PARTS_TRIED], change, apply)
