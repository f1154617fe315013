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
    findings,
    node_changes,
    node_survey,
    node_trials,
    obstacles,
    pod_changes,
)
from berth_operator.scheduling.explain.findings import Change, ChangedRequest, PodCondition, Room, Single
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts as nodes

NODES_TRIED: Final = 2
PARTS_TRIED: Final = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Situation:
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
class ChangeKind:
    """A kind of change and the most it could be made of; `needed` where nothing else would do instead."""

    parts: Parts
    change: Callable[[Parts], Single]
    apply: Callable[[Situation, Parts], Situation]
    needed: bool = False


# ---------------------------------------------------------------- what is in the way


def nearest_with_obstacles(survey: node_survey.NodeSurvey) -> list[tuple[int, tuple[Why, ...]]]:
    """List the nodes that come nearest with all that stands in their way, the fewest things first."""
    there = dict.fromkeys(diagnosis.worth_telling(survey))
    found = []
    for at in there:
        if survey.row(at).node and not survey.exhausted:
            survey.effort.spend(node_trials.STEPS_TO_TRY)
            found.append((at, tuple(dict.fromkeys(in_the_way(survey, at)))))
    return sorted(found, key=lambda one: len(one[1]))


def nearest(survey: node_survey.NodeSurvey, at: int, whys: tuple[Why, ...]) -> findings.Nearest:
    """Return a node and what stands in its way."""
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
    taint = obstacle.condition is PodCondition.TAINT
    return (Reason.TAINTED, obstacle.key) if taint else (Reason.SELECTOR_MISMATCH, "")


def _of_devices(survey: node_survey.NodeSurvey, at: int) -> Why | None:
    """Return what is wrong with a node's devices, as if all else were well."""
    if not survey.request:
        return None
    situation = _world(survey, at)
    device = dataclasses.replace(situation.device, failed="") if situation.device else None
    plain = nodes.Node(situation.node.name)  # With nothing wrong about its place.
    copy = _built(survey, dataclasses.replace(situation, node=plain, device=device, silent=False))
    table = reasons.evaluate(copy, questions.ask(survey.request, nodes.Demand()), {})
    if table.code[0]:
        return list(table.whys)[int(table.code[0]) - 1]
    info = copy.infos[0]
    found = (
        node_survey.look(info.view(), survey.request, survey.effort) if info and not survey.exhausted else ()
    )
    return (found.reason, found.detail) if isinstance(found, allocator.Shortfall) else None


# ---------------------------------------------------------------- two changes


def find_pairs(survey: node_survey.NodeSurvey, near: Iterable[int]) -> Iterator[Change]:
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
    situation, fixes = _world(survey, at), list(_fixes(survey, at))
    needed = [kind for kind in fixes if kind.needed]
    for one in fixes:
        if survey.exhausted:
            return
        if all(kind is one for kind in needed) and _helps(survey, one.apply(situation, one.parts)):
            yield _smallest_single(survey, situation, one)


def _smallest_single(survey: node_survey.NodeSurvey, situation: Situation, kind: ChangeKind) -> Single:
    parts = _fewest(kind.parts, lambda parts: _helps(survey, kind.apply(situation, parts)))
    changed = kind.apply(situation, parts)
    edit = ChangedRequest(changed.request, changed.demand, 1, exact=False, example=situation.node.name)
    return _edited(kind.change(parts), edit)


def _pairs_of(survey: node_survey.NodeSurvey, at: int) -> Iterator[findings.Pair]:
    situation, fixes = _world(survey, at), list(_fixes(survey, at))
    needed = [kind for kind in fixes if kind.needed]
    for one, other in itertools.combinations(fixes, 2):
        if survey.exhausted:
            return
        if all(kind is one or kind is other for kind in needed) and _helps(
            survey, other.apply(one.apply(situation, one.parts), other.parts)
        ):
            yield _smallest_pair(survey, situation, one, other)


def _smallest_pair(
    survey: node_survey.NodeSurvey, situation: Situation, one: ChangeKind, other: ChangeKind
) -> findings.Pair:
    """Reduce both changes to the parts that are needed."""
    first = _fewest(
        one.parts, lambda parts: _helps(survey, other.apply(one.apply(situation, parts), other.parts))
    )
    eased = one.apply(situation, first)
    second = _fewest(other.parts, lambda parts: _helps(survey, other.apply(eased, parts)))
    changed = other.apply(eased, second)
    edit = ChangedRequest(changed.request, changed.demand, 1, exact=False, example=situation.node.name)
    changes = _edited(one.change(first), edit), _edited(other.change(second), edit)
    return findings.Pair(situation.node.name, changes, sum(change.size for change in changes))


def _edited(change: Single, edit: ChangedRequest) -> Single:
    """Let a change of the pod tell what the pod asks after both."""
    if isinstance(change, findings.DropCondition | findings.AskLess):
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


def _world(survey: node_survey.NodeSurvey, at: int) -> Situation:
    info = survey.row(at)
    assert info.node is not None, "a node that refuses is known"  # noqa: S101
    return Situation(
        survey.request,
        survey.demand,
        info.node,
        info.owned,
        info.silent,
        tuple(node_changes.ending_order(info)),
    )


def _built(survey: node_survey.NodeSurvey, situation: Situation) -> Inventory:
    return node_trials.built(
        survey, situation.node, situation.device, situation.holds, silent=situation.silent
    )


def _helps(survey: node_survey.NodeSurvey, situation: Situation) -> bool:
    if survey.exhausted:
        return False
    return (
        node_trials.place(survey, _built(survey, situation), situation.request, situation.demand) is not None
    )


# ---------------------------------------------------------------- the kinds of changes

ALL_OF_IT: Final = (None,)  # The parts of what is not made of any.


def _fixes(survey: node_survey.NodeSurvey, at: int) -> Iterator[ChangeKind]:
    yield from _of_place(survey, at)
    yield from _of_agent(survey, at)
    for condition, _ in pod_changes.relaxed(survey.request):
        yield _without(survey, condition)
    for trouble in node_changes.TROUBLE:
        yield from _of_trouble(survey, at, trouble)
    yield from _of_resources(survey, at)
    yield from _fewer(survey)
    yield from _of_pods(survey, at)


def _edit(survey: node_survey.NodeSurvey) -> ChangedRequest:
    return ChangedRequest(survey.request, survey.demand, 1, exact=False, example="")


def _of_place(survey: node_survey.NodeSurvey, at: int) -> Iterator[ChangeKind]:
    node, where = _world(survey, at).node, survey.demand.where
    found = set(obstacles.each(node, where))
    pairs_ = {one for one in found if one.condition is PodCondition.SELECTOR}
    found = (found - pairs_) | {obstacles.SELECTOR} if len(pairs_) > 1 else found
    for obstacle in sorted(found, key=lambda one: (str(one.condition), str(one))):
        if obstacle.condition is None:
            mend = findings.Repair(node.name, Reason.UNSCHEDULABLE, (), findings.WHOLE_SIZE)
            yield ChangeKind(ALL_OF_IT, _always(mend), _uncordon, needed=True)
        else:
            drop = findings.DropCondition(
                obstacle.condition, str(obstacle), _edit(survey), findings.WHOLE_SIZE
            )

            def ease(situation: Situation, _: Parts, obstacle: obstacles.Obstacle = obstacle) -> Situation:
                eased = obstacles.ease(situation.demand.where, obstacle) or situation.demand.where
                return dataclasses.replace(
                    situation, demand=dataclasses.replace(situation.demand, where=eased)
                )

            yield ChangeKind(ALL_OF_IT, _always(drop), ease, needed=True)


def _uncordon(situation: Situation, _: Parts) -> Situation:
    return dataclasses.replace(situation, node=obstacles.uncordoned(situation.node))


def _of_agent(survey: node_survey.NodeSurvey, at: int) -> Iterator[ChangeKind]:
    situation = _world(survey, at)
    if not survey.request or situation.device is None:
        return
    for reason, there, apply in (
        (Reason.SILENT, situation.silent, _agent_back),
        (Reason.SOURCE_FAILED, situation.device.failed, _source_repaired),
    ):
        if there:
            mend = findings.Repair(situation.node.name, reason, (), findings.WHOLE_SIZE)
            yield ChangeKind(ALL_OF_IT, _always(mend), apply, needed=True)


def _agent_back(situation: Situation, _: Parts) -> Situation:
    return dataclasses.replace(situation, silent=False)


def _source_repaired(situation: Situation, _: Parts) -> Situation:
    device = dataclasses.replace(situation.device, failed="") if situation.device else None
    return dataclasses.replace(situation, device=device)


def _without(survey: node_survey.NodeSurvey, condition: PodCondition) -> ChangeKind:
    size = findings.WISH_SIZE if condition in findings.WISHES else findings.WHOLE_SIZE
    drop = findings.DropCondition(condition, "", _edit(survey), size)

    def apply(situation: Situation, _: Parts) -> Situation:
        return dataclasses.replace(situation, request=dict(pod_changes.relaxed(situation.request))[condition])

    return ChangeKind(ALL_OF_IT, _always(drop), apply)


def _of_trouble(survey: node_survey.NodeSurvey, at: int, trouble: Reason) -> Iterator[ChangeKind]:
    situation = _world(survey, at)
    there = (*situation.device.cards, *situation.device.others) if situation.device else ()
    ill = tuple(one for one in there if one.trouble is trouble)[:PARTS_TRIED]
    if not ill or not survey.request:
        return

    def change(parts: Parts) -> Single:
        rooms = tuple(Room(one.uuid, one.minor, type=one.type) for one in parts)
        return findings.Repair(situation.node.name, trouble, rooms, findings.WHOLE_SIZE)

    def apply(situation: Situation, parts: Parts) -> Situation:
        assert situation.device is not None, "it has devices in trouble"  # noqa: S101
        mended = node_changes.repaired(situation.device, {one.uuid for one in parts})
        return dataclasses.replace(situation, device=mended)

    yield ChangeKind(ill, change, apply)


def _of_resources(survey: node_survey.NodeSurvey, at: int) -> Iterator[ChangeKind]:
    """Free what is missing of each resource, where pods hold so much."""
    situation = _world(survey, at)
    for measure in diagnosis.lacking_resources(survey, at):
        if sum(dict(hold.amounts).get(measure.name, 0) for hold in situation.holds) < measure.missing:
            continue
        freed = findings.FreeResource(situation.node.name, measure, min(1.0, measure.part))

        def apply(situation: Situation, _: Parts, measure: Deficit = measure) -> Situation:
            less = {
                one.uid: one
                for one in node_trials.with_resource(situation.holds, measure.name, measure.missing)
            }
            holds = tuple(less.get(hold.uid, hold) for hold in situation.holds)
            return dataclasses.replace(situation, holds=holds)

        yield ChangeKind(ALL_OF_IT, _always(freed), apply)


def _fewer(survey: node_survey.NodeSurvey) -> Iterator[ChangeKind]:
    """Yield what asking for fewer cards would bring; the parts are the cards given up."""
    for at, number, ask in pod_changes.each_ask(survey.request):
        if ask.count > 1 and not (isinstance(ask, requests.OtherDevices) and ask.every):
            yield _given_up(survey, at, number, ask)


def _given_up(survey: node_survey.NodeSurvey, at: int, number: int, ask: requests.Ask) -> ChangeKind:
    def change(parts: Parts) -> Single:
        measure = Deficit(pod_changes.counted(ask), Unit.PIECES, ask.count, ask.count - len(parts))
        return findings.AskLess(survey.request.containers[at].name, measure, _edit(survey), measure.part)

    def apply(situation: Situation, parts: Parts) -> Situation:
        count = ask.count - len(parts)
        request = pod_changes.with_ask(situation.request, at, number, dataclasses.replace(ask, count=count))
        served = pod_changes.scaled(survey, count, ask.count).served
        return dataclasses.replace(
            situation, request=request, demand=dataclasses.replace(situation.demand, served=served)
        )

    return ChangeKind(tuple(range(min(ask.count - 1, PARTS_TRIED))), change, apply)


def _of_pods(survey: node_survey.NodeSurvey, at: int) -> Iterator[ChangeKind]:
    situation = _world(survey, at)
    if not situation.holds:
        return

    def change(parts: Parts) -> Single:
        ended = sorted(parts, key=lambda hold: (hold.title, hold.uid))
        uids, titles = tuple(one.uid for one in ended), tuple(one.title for one in ended)
        return findings.EndPods(situation.node.name, uids, titles, (), findings.WHOLE_SIZE)

    def apply(situation: Situation, parts: Parts) -> Situation:
        ended = {hold.uid for hold in parts}
        return dataclasses.replace(
            situation, holds=tuple(hold for hold in situation.holds if hold.uid not in ended)
        )

    yield ChangeKind(situation.holds[:PARTS_TRIED], change, apply)
