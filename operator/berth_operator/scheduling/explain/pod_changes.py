"""Changes of the pod itself: one condition given up, or less asked of one thing.

Each is proposed only after the changed request was put to all nodes and one of them could
take it. Conditions that a pod may give up stand in tables; what is in the way of a node's
place is found by asking each refused node for all its obstacles, because only a node with
a single one can be won by a single change.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

from berth_crds import names
from berth_operator.scheduling import node_table
from berth_operator.scheduling.constraints import resources
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.deficits import CARDS, CORE, REPLICAS, Deficit, Unit, unit_of
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.scheduling.explain import feasibility, findings, node_survey, obstacles
from berth_operator.scheduling.explain.findings import (
    AskLess,
    AskReplicas,
    ChangedRequest,
    DropCondition,
    PodCondition,
)
from berth_operator.scheduling.nodes import facts

# Which field of the request each condition is.
OF_CARDS: Final = (
    (PodCondition.MODELS, "models"),
    (PodCondition.PATTERN, "pattern"),
    (PodCondition.AVOID_MODELS, "avoid_models"),
    (PodCondition.AVOID_PATTERN, "avoid_pattern"),
    (PodCondition.UUIDS, "uuids"),
    (PodCondition.AVOID_UUIDS, "avoid_uuids"),
    (PodCondition.MEMORY_AT_LEAST, "memory_at_least"),
)
OF_SETS: Final = (
    (PodCondition.SCOPE, "scope"),
    (PodCondition.JOINT, "joint"),
    (PodCondition.LABELS, "labels"),
    (PodCondition.FUNCTION_LABELS, "function_labels"),
)
FEWER_TRIED: Final = 16
AMOUNTS_TRIED: Final = 3
SHARED: Final = frozenset({Reason.SHARING_MODE})
# Resources of which asking for less means nothing.
FIXED: Final = frozenset({facts.PODS})


@dataclasses.dataclass(slots=True)
class PodChanges:
    """One pod, what the nodes said to it, and those of them that were looked at."""

    survey: node_survey.NodeSurvey
    found: tuple[findings.Finding, ...]
    refused: obstacles.SingleObstacles
    asking: feasibility.Feasibility

    def edit(
        self, request: requests.Request, demand: facts.Demand, among: node_table.Mask
    ) -> ChangedRequest | None:
        """Put a changed request to these nodes."""
        able = self.asking.nodes(request, demand, among)
        if not able.nodes:
            return None
        return ChangedRequest(
            request, demand, len(able.nodes), able.exact, self.survey.row(able.nodes[0]).name
        )


def find_changes(context: PodChanges) -> Iterator[findings.Change]:
    """Find all changes of the pod that would each let it in."""
    yield from _without_conditions(context)
    yield from _elsewhere(context)
    if context.survey.request:
        yield from _fewer(context)
        yield from _less_of_cards(context)
        yield from _in_replicas(context)
    yield from _less_of_resources(context)


# ---------------------------------------------------------------- conditions on devices


def _without_conditions(context: PodChanges) -> Iterator[DropCondition]:
    survey = context.survey
    for condition, request in relaxed(survey.request):
        edit = context.edit(request, survey.demand, survey.place & survey.room)
        if edit is not None:
            size = findings.WISH_SIZE if condition in findings.WISHES else findings.WHOLE_SIZE
            yield DropCondition(condition, "", edit, size)


def relaxed(request: requests.Request) -> Iterator[tuple[PodCondition, requests.Request]]:
    """Yield each condition, and the request without it."""
    asked, grouping = request.conditions, request.grouping
    for condition, field in OF_CARDS:
        nothing = getattr(requests.ANY_CARD, field)
        if getattr(asked, field) != nothing:
            yield (
                condition,
                dataclasses.replace(request, conditions=dataclasses.replace(asked, **{field: nothing})),
            )
    for condition, field in OF_SETS:
        nothing = getattr(requests.NO_GROUPING, field)
        wish = condition is PodCondition.SCOPE and not grouping.required
        if getattr(grouping, field) != nothing and not wish:
            yield (
                condition,
                dataclasses.replace(request, grouping=dataclasses.replace(grouping, **{field: nothing})),
            )


# ---------------------------------------------------------------- conditions on the place


def _elsewhere(context: PodChanges) -> Iterator[DropCondition]:
    survey, where = context.survey, context.survey.demand.where
    for obstacle, nodes in context.refused.nodes.items():
        eased = obstacles.ease(where, obstacle)
        if eased is None or obstacle.condition is None:
            continue
        edit = context.edit(survey.request, dataclasses.replace(survey.demand, where=eased), nodes)
        if edit is not None:
            edit = dataclasses.replace(edit, exact=edit.exact and context.refused.exact)
            yield DropCondition(obstacle.condition, str(obstacle), edit, findings.WHOLE_SIZE)


# ---------------------------------------------------------------- less of the devices


def _fewer(context: PodChanges) -> Iterator[AskLess]:
    """Find the largest number of cards (or instances, replicas, devices) that fits now."""
    for at, number, ask in each_ask(context.survey.request):
        if context.survey.exhausted:
            return
        every = isinstance(ask, requests.OtherDevices) and ask.every
        if ask.count > 1 and not every:
            found = next(_with_count(context, at, number, ask), None)
            if found is not None:
                yield found


def _with_count(context: PodChanges, at: int, number: int, ask: requests.Ask) -> Iterator[AskLess]:
    survey = context.survey
    most = min(ask.count - 1, _most(survey, ask))
    for count in range(most, max(0, most - FEWER_TRIED), -1):
        if survey.exhausted:
            return
        request = with_ask(survey.request, at, number, dataclasses.replace(ask, count=count))
        demand = scaled(survey, count, ask.count)
        among = survey.place & resources.room(survey.inventory, survey.inventory.everything, demand)
        edit = context.edit(request, demand, among)
        if edit is not None:
            measure = Deficit(counted(ask), Unit.PIECES, ask.count, count)
            yield AskLess(survey.request.containers[at].name, measure, edit, measure.part)


def _most(survey: node_survey.NodeSurvey, ask: requests.Ask) -> int:
    """Return how many at most any node might have."""
    table = survey.inventory.table
    match ask:
        case requests.Gpus():
            return int(node_table.count(table.open).max())
        case requests.Instances():
            column = table.profiles.get(ask.profile)
            return int(table.instances[:, column].max()) if column is not None else 0
        case requests.Replicas():
            return int(table.replicas.max())
    return FEWER_TRIED


def scaled(survey: node_survey.NodeSurvey, count: int, before: int) -> facts.Demand:
    """Lower what is asked under the names that Berth serves, where it is surely about these cards alone."""
    if len(list(each_ask(survey.request))) != 1:
        return survey.demand
    served = tuple((name, -(-amount * count // before)) for name, amount in survey.demand.served)
    return dataclasses.replace(survey.demand, served=served)


def counted(ask: requests.Ask) -> str:
    """Return what an ask counts, as the counted reasons do."""
    match ask:
        case requests.Instances():
            return f"MIG {ask.profile}"
        case requests.Replicas():
            return REPLICAS
        case requests.OtherDevices():
            return ask.type
    return CARDS


def each_ask(request: requests.Request) -> Iterator[tuple[int, int, requests.Ask]]:
    """Yield all asks, with the numbers of their container and among its asks."""
    for at, container in enumerate(request.containers):
        for number, ask in enumerate(container.asks):
            yield at, number, ask


def with_ask(request: requests.Request, at: int, number: int, ask: requests.Ask) -> requests.Request:
    """Return a request with another ask in the place of one."""
    container = request.containers[at]
    asks = (*container.asks[:number], ask, *container.asks[number + 1 :])
    changed = dataclasses.replace(container, asks=asks)
    containers = (*request.containers[:at], changed, *request.containers[at + 1 :])
    return dataclasses.replace(request, containers=containers)


# ---------------------------------------------------------------- less of each card


def _less_of_cards(context: PodChanges) -> Iterator[AskLess]:
    """Find the largest share that some card has, among those that were looked at."""
    for at, number, ask in each_ask(context.survey.request):
        if isinstance(ask, requests.Gpus) and not ask.whole and not context.survey.exhausted:
            for tries in (_smaller_memory(context, at, ask), _smaller_core(context, at, ask)):
                ways = (_with_share(context, at, number, ask, smaller) for smaller in tries)
                found = next((way for way in ways if way is not None), None)
                if found is not None:
                    yield found


def _against(context: PodChanges, at: int) -> Iterator[allocator.Verdict]:
    name = context.survey.request.containers[at].name
    for found in context.found:
        if found.shortfall is not None and found.shortfall.container == name:
            yield from found.shortfall.against


def _smaller_memory(context: PodChanges, at: int, ask: requests.Gpus) -> Iterable[requests.Gpus]:
    short = [
        one
        for one in _against(context, at)
        if 0 < one.free.memory < one.wanted.memory and one.free.core >= one.wanted.core
    ]
    if ask.ratio:
        ratios = {one.free.memory * requests.WHOLE // one.total.memory for one in short}
        return (dataclasses.replace(ask, ratio=ratio) for ratio in _largest(ratios))
    return (
        dataclasses.replace(ask, memory=memory) for memory in _largest({one.free.memory for one in short})
    )


def _smaller_core(context: PodChanges, at: int, ask: requests.Gpus) -> Iterable[requests.Gpus]:
    cores = {
        one.free.core
        for one in _against(context, at)
        if 0 < one.free.core < one.wanted.core and one.free.memory >= one.wanted.memory
    }
    return (dataclasses.replace(ask, core=core) for core in _largest(cores))


def _largest(amounts: set[int]) -> list[int]:
    return [amount for amount in sorted(amounts, reverse=True) if amount > 0][:AMOUNTS_TRIED]


def _with_share(
    context: PodChanges, at: int, number: int, ask: requests.Gpus, smaller: requests.Gpus
) -> AskLess | None:
    survey = context.survey
    edit = context.edit(
        with_ask(survey.request, at, number, smaller), survey.demand, survey.place & survey.room
    )
    if edit is None:
        return None
    measures = (
        Deficit(CORE, Unit.PERCENT, ask.core, smaller.core),
        Deficit("", Unit.BYTES, ask.memory, smaller.memory),
        Deficit("ratio", Unit.PERCENT, ask.ratio, smaller.ratio),
    )
    changed = next(one for one in measures if one.missing)
    return AskLess(survey.request.containers[at].name, changed, edit, changed.part)


# ---------------------------------------------------------------- replicas in place of cards


def _in_replicas(context: PodChanges) -> Iterator[AskReplicas]:
    """Ask for replicas where nodes give out nothing else; a scope or joint devices are about whole cards."""
    survey = context.survey
    asks, grouping = list(each_ask(survey.request)), survey.request.grouping
    if len(asks) != 1 or grouping.scope or grouping.joint or not survey.saying(SHARED).any():
        return
    ((at, number, ask),) = asks
    if not isinstance(ask, requests.Gpus):
        return
    request = with_ask(survey.request, at, number, requests.Replicas(ask.count))
    demand = dataclasses.replace(survey.demand, served=((names.NVIDIA_GPU_SHARED, ask.count),))
    among = survey.place & resources.room(survey.inventory, survey.inventory.everything, demand)
    edit = context.edit(request, demand, among)
    if edit is not None:
        yield AskReplicas(ask.count, ask.whole, edit, findings.WHOLE_SIZE)


# ---------------------------------------------------------------- less of other resources


def _less_of_resources(context: PodChanges) -> Iterator[AskLess]:
    survey, table = context.survey, context.survey.inventory.table
    everything = survey.inventory.everything
    for name, amount in survey.demand.amounts:
        others = tuple(one for one in survey.demand.amounts if one[0] != name)
        left = resources.left(table, everything, name)
        short = (left > 0) & (left < amount)
        if name in FIXED or not short.any():
            continue
        without = dataclasses.replace(survey.demand, amounts=others)
        among = survey.place & short & resources.room(survey.inventory, everything, without)
        able = context.asking.nodes(survey.request, without, among)
        if able.nodes:
            yield _with_amount(context, name, amount, able, left)


def _with_amount(
    context: PodChanges, name: str, amount: int, able: feasibility.FeasibleNodes, left: node_table.Numbers
) -> AskLess:
    survey = context.survey
    most = max(int(left[at]) for at in able.nodes)
    amounts = tuple((one, most if one == name else had) for one, had in survey.demand.amounts)
    nodes = [at for at in able.nodes if left[at] == most]
    demand = dataclasses.replace(survey.demand, amounts=amounts)
    edit = ChangedRequest(survey.request, demand, len(nodes), able.exact, survey.row(nodes[0]).name)
    measure = Deficit(name, unit_of(name), amount, most)
    return AskLess("", measure, edit, measure.part)
