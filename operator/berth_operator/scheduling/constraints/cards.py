"""Whether the node has enough cards: of the right kind, large enough, and with room left.

First comes what no ending pod could change, condition by condition in the order of `verdicts.judge`: the
first condition that leaves too few cards is the reason.
"""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, Final

import numpy as np

from berth_crds import names
from berth_operator.scheduling import changes, decisions, node_table, queued_pods
from berth_operator.scheduling.changes import DeviceRef, ProposedChange, Scenario
from berth_operator.scheduling.constraints import asks as device_asks
from berth_operator.scheduling.constraints.constraint import Constraint, FailedPlacement, Rejection
from berth_operator.scheduling.constraints.gaps import gap
from berth_operator.scheduling.constraints.query import CardsAfterConditions, Query, matching_cards
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.deficits import REPLICAS, Deficit, Unit
from berth_operator.scheduling.devices import allocator, requests, verdicts
from berth_operator.scheduling.wording import (
    amount,
    cards_wanted,
    clipped,
    fewer,
    have,
    listed,
    nodes_that_have,
    noun,
    of_devices,
)

CONDITIONS: Final = (
    (Reason.MODEL_MISMATCH, ("models", "pattern", "avoid_models", "avoid_pattern")),
    (Reason.NOT_INCLUDED, ("uuids",)),
    (Reason.EXCLUDED, ("avoid_uuids",)),
    (Reason.LABEL_MISMATCH, ("card_labels",)),
    (Reason.TOO_SMALL, ("memory_at_least", "free_memory_at_least")),
)


def card_asks(need: requests.Need) -> list[requests.Gpus]:
    """Return what is asked of the cards that are given out whole or by shares."""
    return [*([requests.cards(need.whole_cards)] if need.whole_cards else []), *need.largest_shares]


# ---------------------------------------------------------------- which cards would do


def cards_after_each_condition(query: Query) -> CardsAfterConditions:
    """Return all cards, and those that remain after each condition; the last ones meet all."""
    if not query.cards_after_each_condition:
        query.cards_after_each_condition = tuple(_fitting(query))
    return query.cards_after_each_condition


def _fitting(query: Query) -> Iterator[tuple[Reason, node_table.Mask]]:
    there = query.table.model[query.rows] != node_table.ABSENT
    yield Reason.TOO_FEW_CARDS, there
    conditions = query.signature.conditions
    if conditions == requests.ANY_CARD:
        return
    so_far: dict[str, object] = {}
    for reason, fields in CONDITIONS:
        part = {field: getattr(conditions, field) for field in fields}
        if any(part.values()):
            so_far |= part
            first_ones = dataclasses.replace(requests.ANY_CARD, **so_far)  # type: ignore[arg-type]  # its own fields
            meets = matching_cards(query.inventory, query.rows, first_ones, among=there)
            yield reason, there if meets is None else meets


def meeting_conditions(query: Query) -> node_table.Mask:
    """Return the cards that meet all conditions, used or not."""
    return cards_after_each_condition(query)[-1][1]


def large_enough(query: Query, ask: requests.Gpus) -> node_table.Mask:
    """Return which cards could take one unit of an ask if they were unused; whole cards fit any size."""
    total = query.table.total[query.rows]
    if ask.core > requests.WHOLE or ask.ratio > requests.WHOLE:
        return np.zeros(total.shape, dtype=np.bool_)
    found: node_table.Mask = total >= (0 if ask.is_whole else 1 if ask.ratio else ask.memory)
    return found


def unresolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes that have too few cards of the right kind and size, used or not."""
    need = query.need
    if not card_asks(need):
        return
    found = cards_after_each_condition(query)
    cards = found[-1][1]
    for reason, remaining in (*found, *_excluding_modes(query, cards)):
        yield Rejection(node_table.count(remaining) < need.min_cards, reason, never_fits=True)
    for ask in need.largest_shares:
        yield Rejection(
            node_table.count(cards & large_enough(query, ask)) < ask.count, Reason.TOO_SMALL, never_fits=True
        )
    if len(need.shares) > 1 and need.memory:
        together = node_table.total(query.table.total[query.rows] * cards)
        yield Rejection(together < need.memory, Reason.TOO_SMALL, never_fits=True)


def _excluding_modes(query: Query, cards: node_table.Mask) -> Iterator[tuple[Reason, node_table.Mask]]:
    """Yield the cards without those in MIG mode, then also without those given out as replicas."""
    if query.any_trouble:
        trouble = query.table.trouble[query.rows]
        for mode in node_table.MODES:
            cards = cards & (trouble != node_table.TROUBLES.index(mode))
            yield mode, cards


# ---------------------------------------------------------------- what is left of them


def feasible(query: Query) -> node_table.Mask:
    """Return the nodes that have enough cards left by the sums of the node table."""
    table, rows, need, matching = query.table, query.rows, query.need, query.matching
    mask = table.has_node[rows]  # Not written to: each of these gives a new mask.
    if need.whole_cards:
        unused = table.unused[rows] if matching is None else table.unused[rows] & matching
        mask = mask & (node_table.count(unused) - table.withheld[rows] >= need.whole_cards)
    for ask in need.largest_shares:
        room = query.cards_with_room if need.filters_suffice else query.room_for(ask, matching)
        assert room is not None, "a share is asked for"  # noqa: S101
        mask = mask & (
            np.logical_or.reduce(room, axis=1) if ask.count == 1 else node_table.count(room) >= ask.count
        )
    if len(need.shares) > 1:
        mask = mask & room_together(query, table.in_service[rows] if matching is None else matching)
    return mask


def room_together(query: Query, cards: node_table.Mask) -> node_table.Mask:
    """Return which nodes have as much left of these cards as all shares and whole cards take together."""
    table, rows, need = query.table, query.rows, query.need
    mask: node_table.Mask = node_table.total(query.core * cards) >= need.core
    if need.ratio:
        # A share gets a little less than its percentage where rounding has taken that.
        mask &= node_table.total((table.ratio[rows] + 1) * cards) >= need.ratio
    if need.memory:
        mask &= node_table.total(table.memory[rows] * cards) >= need.memory
    return mask


def resolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes whose cards are held by others, or withheld."""
    table, rows, need = query.table, query.rows, query.need
    if not card_asks(need):
        return
    cards = meeting_conditions(query)
    if need.whole_cards:
        free = node_table.count(cards & table.unused[rows])
        yield Rejection(free < need.whole_cards, Reason.FULL)
        yield Rejection(free - table.withheld[rows] < need.whole_cards, Reason.WITHHELD)
    for ask in need.largest_shares:
        few = node_table.count(query.room_for(ask, cards)) < ask.count
        if (few & (table.withheld[rows] > 0)).any():
            room = node_table.count(query.ignoring_withheld().room_for(ask, cards))
            yield Rejection(few & (room >= ask.count), Reason.WITHHELD)
        yield Rejection(few, Reason.FULL)
    if len(need.shares) > 1:
        yield Rejection(~room_together(query, cards & table.in_service[rows]), Reason.FULL)


def gaps(query: Query) -> Iterator[node_table.Scores]:
    """Yield what part of the cards is missing for each ask; an ask that another one contains is skipped."""
    if not card_asks(query.need):
        return
    table, rows, cards = query.table, query.rows, meeting_conditions(query)
    # Real cards alone: the table has as many columns as the largest node has cards.
    core, memory, total = query.core[cards], table.memory[rows][cards], table.total[rows][cards]
    for ask in requests.uncontained(card_asks(query.need)):
        if ask.is_whole:
            yield gap(node_table.count(cards & table.unused[rows]) - table.withheld[rows], ask.count)
        else:
            least = total * ask.ratio // requests.WHOLE if ask.ratio else ask.memory
            missing = np.ones(cards.shape)
            missing[cards] = np.maximum(gap(core, ask.core), gap(memory, least))
            yield np.sort(missing, axis=1)[:, : ask.count].mean(axis=1)


# ---------------------------------------------------------------- what would lift it

# Of each condition: its field, what it costs to drop it, and the clause that says so.
DROPPED: Final = (
    ("models", changes.WHOLE_COST, "the condition on models were dropped"),
    ("pattern", changes.WHOLE_COST, "the pattern for models were dropped"),
    ("avoid_models", changes.CONDITION_COST, "the models to avoid were removed"),
    ("avoid_pattern", changes.CONDITION_COST, "the pattern for models to avoid were removed"),
    ("uuids", changes.WHOLE_COST, "the required UUIDs were removed"),
    ("avoid_uuids", changes.CONDITION_COST, "the excluded UUIDs were removed"),
    ("card_labels", changes.WHOLE_COST, "the condition on labels of cards were dropped"),
    ("memory_at_least", changes.WHOLE_COST, "the condition on memory were dropped"),
    ("free_memory_at_least", changes.WHOLE_COST, "the condition on free memory were dropped"),
)


def relaxations(failed: FailedPlacement) -> Iterator[ProposedChange]:
    """Yield proposals to drop a condition, or to ask for fewer cards, smaller shares, or replicas."""
    yield from changes.dropped(failed.request.conditions, requests.ANY_CARD, "conditions", DROPPED)
    most = int(node_table.count(failed.query.table.in_service[failed.query.rows]).max(initial=0))
    for position, ask in device_asks.each(failed.request):
        if isinstance(ask, requests.Gpus):
            yield from device_asks.fewer(failed.request, position, most)
    for position, ask in device_asks.each(failed.request):
        if isinstance(ask, requests.Gpus) and not ask.is_whole:
            yield from device_asks.smaller(failed, position, ask)
    yield from device_asks.in_replicas(failed)


# Reasons that pods remove by giving up a part of a card.
USED: Final = frozenset({Reason.FULL, Reason.IN_USE, Reason.PARTLY_USED, Reason.FREE_MEMORY})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MakeRoom(changes.Change):
    """Pods give up a part of some cards of a node; `holders` are the pods that share them now."""

    precedence: ClassVar = changes.Precedence.MAKE_ROOM
    rooms: tuple[DeviceRef, ...]
    holders: tuple[str, ...]

    def apply(self, scenario: Scenario) -> Scenario:
        """Return the scenario in which the pods, one after another, give up as much of it as they hold."""
        left = {room.uuid: [room.core, room.memory] for room in self.rooms}
        holds = tuple(
            dataclasses.replace(hold, shares=tuple(_reduced(share, left) for share in hold.shares))
            for hold in scenario.holds
        )
        return dataclasses.replace(scenario, holds=holds)

    def clause(self) -> str:
        """Return how much would have to be freed, and on which cards."""
        node = clipped(self.node)
        if len(self.rooms) == 1:
            return f"{_freed(self.rooms[0])} were freed on {clipped(self.rooms[0].uuid)} of {node}"
        freed = listed(f"{_freed(room)} on {clipped(room.uuid)}" for room in self.rooms)
        return f"{freed} of {node} were freed"


def _reduced(share: decisions.Share, left: dict[str, list[int]]) -> decisions.Share:
    room = left.get(share.uuid, [0, 0])
    core, memory = min(share.core, room[0]), min(share.memory, room[1])
    room[0], room[1] = room[0] - core, room[1] - memory
    return dataclasses.replace(share, core=share.core - core, memory=share.memory - memory)


def _freed(room: DeviceRef) -> str:
    parts = [f"{room.core} % {verdicts.core_of(room.type)}".strip()] if room.core else []
    return " and ".join([*parts, amount(Unit.BYTES, room.memory)] if room.memory else parts)


def remedies(scenario: Scenario, shortfall: allocator.Shortfall | None) -> Iterator[ProposedChange]:
    """Yield a proposal to make room on cards of a node, first on those that lack least."""
    rooms = sorted(_rooms(shortfall), key=lambda one: (round(one[0], 6), one[1].minor, one[1].uuid))
    if shortfall is None or not rooms:
        return
    variants = []
    for count in range(1, len(rooms) + 1):
        made = tuple(room for _, room in rooms[:count])
        devices = {room.uuid for room in made}
        held = [hold for hold in scenario.holds if any(share.uuid in devices for share in hold.shares)]
        holders = tuple(sorted(hold.title for hold in held))
        cost = min(1.0, sum(lack for lack, _ in rooms[:count]) / shortfall.wanted)
        variants.append(MakeRoom(node=scenario.node.name, rooms=made, holders=holders, cost=cost))
    yield ProposedChange(variants)


def _rooms(shortfall: allocator.Shortfall | None) -> Iterator[tuple[float, DeviceRef]]:
    """Yield, for each card that would do with less of it used, the missing fraction and what to free."""
    for verdict in shortfall.verdicts if shortfall else ():
        wanted, free = verdict.wanted, verdict.free
        wants_all = wanted.core >= verdict.total.core and wanted.memory >= verdict.total.memory
        if verdict.reason in USED and not verdict.never_fits and not wants_all:
            core, memory = _core_to_free(verdict), max(0, wanted.memory - free.memory)
            lack = max((one.missing_fraction for one in missing(verdict)), default=0.0)
            yield lack, DeviceRef(verdict.device, verdict.minor, core, memory, verdict.type)


def _core_to_free(verdict: allocator.Verdict) -> int:
    """Return how much less of a card's core would have to be promised."""
    lacking = max(0, verdict.wanted.core - verdict.free.core)
    return lacking + verdict.excess if lacking else 0


def missing(verdict: allocator.Verdict) -> Iterator[Deficit]:
    """Yield what of a device is too little."""
    wanted, free = verdict.wanted, verdict.free
    if free.core < wanted.core:
        yield Deficit(verdicts.core_of(verdict.type), Unit.PERCENT, wanted.core, free.core)
    if free.memory < wanted.memory:
        yield Deficit("", Unit.BYTES, wanted.memory, free.memory)


# ---------------------------------------------------------------- words


def _too_few(nodes: int, pod: queued_pods.PodInfo, detail: str) -> str:
    if detail == REPLICAS:
        need = pod.request.need
        # On some nodes nvidia.com/gpu asks for replicas.
        asked_as_gpu = not need.replicas and bool(need.whole_cards)
        wanted = need.whole_cards if asked_as_gpu else need.replicas
        instead = f" ({names.NVIDIA_GPU} asks for a whole card)" if wanted == 1 and not asked_as_gpu else ""
        return f"{have(nodes)} {fewer(wanted, 'replica')} of shared cards{instead}"
    if detail:
        return f"{have(nodes)} too few {noun(detail, 2)}"
    return f"{have(nodes)} {fewer(cards_wanted(pod.request.need), 'card')}"


def _taken(nodes: int, pod: queued_pods.PodInfo, detail: str) -> str:
    """Return the words for what is used up: the devices that the detail names, else cards."""
    if detail:
        return f"{have(nodes)} too few free {noun(detail, 2)}"
    need, narrowed = pod.request.need, pod.request.conditions != requests.ANY_CARD
    if need.shares:
        enough = f" with enough free{' among those asked for' if narrowed else ''}"
        return f"{have(nodes)} {fewer(cards_wanted(need), 'card')}{enough}"
    return f"{have(nodes)} {fewer(0 if narrowed else need.min_cards, 'free card')}"


def _wrong_model(nodes: int, pod: queued_pods.PodInfo, _detail: str) -> str:
    return f"{have(nodes)} {fewer(cards_wanted(pod.request.need), 'card')} {models(pod)}"


def models(pod: queued_pods.PodInfo) -> str:
    """Return which models a pod accepts, as it wrote them."""
    asked = pod.request.conditions
    parts = []
    if asked.models:
        parts.append(f"of model {listed(asked.as_written(asked.models), 'or')}")
    if asked.avoid_models:
        parts.append(f"other than {listed(asked.as_written(asked.avoid_models), 'or')}")
    if asked.pattern:
        parts.append(f"whose model matches {clipped(asked.pattern)}")
    if asked.avoid_pattern:
        parts.append(f"whose model does not match {clipped(asked.avoid_pattern)}")
    return " and ".join(parts) or "of the wanted model"


def _too_small(nodes: int, pod: queued_pods.PodInfo, _detail: str) -> str:
    request = pod.request
    least = max(request.conditions.least_memory, *(one.memory for one in request.need.shares), 0)
    size = f"with at least {amount(Unit.BYTES, least)}" if least else "that are large enough"
    return f"{have(nodes)} too few cards {size}"


def _in_replicas(nodes: int, pod: queued_pods.PodInfo, _detail: str) -> str:
    need = pod.request.need
    given = "that are given out only as time-sliced or MPS replicas"
    return (
        f"{have(nodes)} cards {given if need.whole_cards or need.shares else 'with a different sharing mode'}"
    )


def _withheld(nodes: int, _pod: queued_pods.PodInfo, detail: str) -> str:
    cards = f"{have(nodes)} cards held by pods whose allocation annotation is missing or unreadable"
    return cards + (f" ({clipped(detail)})" if detail else "")


CONSTRAINT = Constraint(
    only_device_pods_lift_it=True,
    applies_to=lambda signature: bool(signature.need.whole_cards or signature.need.largest_shares),
    feasible=feasible,
    unresolvable=unresolvable,
    resolvable=resolvable,
    gaps=gaps,
    relaxations=relaxations,
    remedies=remedies,
    words={
        Reason.TOO_FEW_CARDS: _too_few,
        Reason.MODEL_MISMATCH: _wrong_model,
        Reason.NOT_INCLUDED: nodes_that_have("too few of the listed cards"),
        Reason.EXCLUDED: nodes_that_have("too few cards that are not excluded"),
        Reason.TOO_SMALL: _too_small,
        Reason.MIG_MODE: nodes_that_have("cards in MIG mode"),
        Reason.SHARING_MODE: _in_replicas,
        Reason.WITHHELD: _withheld,
        Reason.FULL: _taken,
        Reason.IN_USE: of_devices("too few unused {}"),
        Reason.PARTLY_USED: of_devices("too few {} that no other pod shares"),
    },
    brief={
        Reason.TOO_FEW_CARDS: "too few cards",
        Reason.MODEL_MISMATCH: "other model",
        Reason.NOT_INCLUDED: "not listed",
        Reason.EXCLUDED: "excluded",
        Reason.TOO_SMALL: "too small",
        Reason.MIG_MODE: "in MIG mode",
        Reason.SHARING_MODE: "different sharing mode",
        Reason.WITHHELD: "held, allocation missing or unreadable",
        Reason.FULL: "not enough free",
        Reason.IN_USE: "in use",
        Reason.PARTLY_USED: "partly used",
    },
)
