"""Why not: the refusals of each node, and the sentence that people read.

The reasons are asked in a fixed order, the node's own before its cards', so that each
node gives the first thing that would have to change.
"""

import collections
from collections.abc import Callable
from typing import Final

from berth_crds import catalog
from berth_operator.scheduling import backlog, decisions, inventory
from berth_operator.scheduling.decisions import Reason, Refusal
from berth_operator.scheduling.nodes import affinity, taints


def refusals(picture: inventory.Inventory, candidate: backlog.Candidate) -> tuple[Refusal, ...]:
    """Ask each node for its first reason."""
    rows = [row for row in picture.each() if row.node is not None]
    if not rows:
        return (Refusal(Reason.NO_NODES),)
    return tuple(refusal(picture, row, candidate) for row in rows)


def refusal(picture: inventory.Inventory, row: inventory.Row, candidate: backlog.Candidate) -> Refusal:
    """Find the first reason why one node cannot take the pod."""
    for ask in (_about_place, _about_cards, _about_resources):
        found = ask(picture, row, candidate)
        if found is not None:
            return found
    raise AssertionError(f"{row.name} could take {candidate.title}")


def _about_place(
    _picture: inventory.Inventory, row: inventory.Row, candidate: backlog.Candidate
) -> Refusal | None:
    where, node = candidate.demand.where, row.node
    if node is None:
        return Refusal(Reason.NO_NODES, row.name)
    if not taints.may_schedule(node, where.tolerations):
        return Refusal(Reason.UNSCHEDULABLE, row.name)
    taint = taints.untolerated(node, where.tolerations)
    if taint is not None:
        return Refusal(Reason.TAINTED, row.name, detail=taint.key)
    if not affinity.matches(where, node):
        return Refusal(Reason.SELECTOR_MISMATCH, row.name)
    return None


def _about_cards(
    _picture: inventory.Inventory, row: inventory.Row, candidate: backlog.Candidate
) -> Refusal | None:
    need = candidate.request.cards
    if not need:
        return None
    if row.device is None or not row.device.cards:
        return Refusal(Reason.NO_DEVICE, row.name)
    if row.silent:
        return Refusal(Reason.SILENT, row.name)
    if row.device.failed:
        return Refusal(Reason.SOURCE_FAILED, row.name, detail=row.device.failed)
    return _about_each_card(row, row.device, candidate)


def _about_each_card(
    row: inventory.Row, device: inventory.Device, candidate: backlog.Candidate
) -> Refusal | None:
    """Judge card by card: what all cards lack comes before what some are busy with."""
    need, models = candidate.request.cards, candidate.request.models
    if len(device.cards) < need:
        return Refusal(Reason.TOO_FEW_CARDS, row.name, detail=f"has {len(device.cards)}")
    keys = {catalog.model_key(model) for model in models}
    fitting = [card for card in device.cards if not keys or catalog.model_key(card.model) in keys]
    if len(fitting) < need:
        return Refusal(Reason.MODEL_MISMATCH, row.name, detail=_names(device))
    well = [card for card in fitting if card.trouble is None]
    if len(well) < need:
        first = next(card for card in fitting if card.trouble is not None)
        return Refusal(first.trouble or Reason.UNHEALTHY, row.name, first.uuid)
    held = inventory.held_uuids(row)
    free = sum(card.uuid not in held for card in well)
    if free < need:
        return Refusal(Reason.FULL, row.name, detail=f"{free} of {need} free")
    withheld = sum(hold.withheld for hold in row.holds.values())
    if free - withheld < need:
        return Refusal(Reason.WITHHELD, row.name, detail=_unnamed(row))
    return None


def _names(device: inventory.Device) -> str:
    return ", ".join(sorted({card.model for card in device.cards}))


def _unnamed(row: inventory.Row) -> str:
    return ", ".join(sorted(hold.title for hold in row.holds.values() if hold.withheld))


def _about_resources(
    picture: inventory.Inventory, row: inventory.Row, candidate: backlog.Candidate
) -> Refusal | None:
    at = picture.index[row.name]
    demand = candidate.demand
    for name, amount in demand.amounts + demand.served:
        column = picture.columns.get(name)
        total = int(picture.allocatable[at, column]) if column is not None else inventory.ABSENT
        if total == inventory.ABSENT and (name, amount) in demand.served:
            continue
        left = total - int(picture.used[at, column]) if column is not None else 0
        if total == inventory.ABSENT or left < amount:
            return Refusal(Reason.INSUFFICIENT_RESOURCE, row.name, detail=name)
    return None


# ---------------------------------------------------------------- sentences

Words = Callable[[int, backlog.Candidate, str], str]


def _cards(count: int) -> str:
    return f"{count} card" if count == 1 else f"{count} cards"


def _lacks(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


SENTENCES: Final[dict[Reason, Words]] = {
    Reason.UNSCHEDULABLE: lambda n, _c, _d: _lacks(n, "is cordoned", "are cordoned"),
    Reason.TAINTED: lambda n, _c, d: f"{_lacks(n, 'has', 'have')} the untolerated taint {d}",
    Reason.SELECTOR_MISMATCH: lambda n, _c, _d: (
        f"{_lacks(n, 'does', 'do')} not match the node selector or affinity"
    ),
    Reason.INSUFFICIENT_RESOURCE: lambda n, _c, d: f"{_lacks(n, 'lacks', 'lack')} {d}",
    Reason.NO_DEVICE: lambda n, _c, _d: f"{_lacks(n, 'has', 'have')} no cards",
    Reason.SILENT: lambda n, _c, _d: _lacks(n, "has a silent agent", "have silent agents"),
    Reason.SOURCE_FAILED: lambda n, _c, d: f"{_lacks(n, 'cannot read its', 'cannot read their')} cards ({d})",
    Reason.TOO_FEW_CARDS: lambda n, c, _d: f"{_lacks(n, 'has', 'have')} fewer than {_cards(c.request.cards)}",
    Reason.MODEL_MISMATCH: lambda n, c, _d: f"{_lacks(n, 'has', 'have')} too few cards of model {_wanted(c)}",
    Reason.UNHEALTHY: lambda n, _c, _d: f"{_lacks(n, 'has', 'have')} too few healthy cards",
    Reason.CORDONED: lambda n, _c, _d: f"{_lacks(n, 'has', 'have')} cordoned cards",
    Reason.OCCUPIED: lambda n, _c, _d: f"{_lacks(n, 'has', 'have')} cards occupied by strangers",
    Reason.MIG_MODE: lambda n, _c, _d: f"{_lacks(n, 'has', 'have')} cards in MIG mode",
    Reason.WITHHELD: lambda n, _c, d: (
        f"{_lacks(n, 'has', 'have')} cards held by pods without a readable allocation ({d})"
    ),
    Reason.FULL: lambda n, _c, _d: _lacks(n, "is full", "are full"),
    Reason.NO_NODES: lambda _n, _c, _d: "there are no nodes",
}


def sentence(candidate: backlog.Candidate, answer: decisions.Wait | decisions.Reject) -> str:
    """Render a refused request in one sentence, as condition and event carry it."""
    if isinstance(answer, decisions.Reject):
        return "; ".join(refusal.detail for refusal in answer.refusals)
    groups = collections.defaultdict(list)
    for refusal in answer.refusals:
        groups[_group(refusal)].append(refusal)
    parts = [
        SENTENCES[reason](len(group), candidate, detail) + _example(group)
        for (reason, detail), group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    fitting = f"0/{len(answer.refusals)} nodes fit: " if answer.refusals[0].node else ""
    return f"{fitting}{'; '.join(parts)}{_nearest(answer)}"


# The detail of these reasons is the same on many nodes and belongs into the sentence.
GROUPED_BY_DETAIL: Final = frozenset(
    {Reason.TAINTED, Reason.INSUFFICIENT_RESOURCE, Reason.SOURCE_FAILED, Reason.WITHHELD}
)


def _group(refusal: Refusal) -> tuple[Reason, str]:
    return refusal.reason, refusal.detail if refusal.reason in GROUPED_BY_DETAIL else ""


def _example(group: list[Refusal]) -> str:
    """Name the card that stands in the way, on the first of the nodes."""
    first = group[0]
    return f" (such as {first.device} on {first.node})" if first.device else ""


def _nearest(answer: decisions.Wait) -> str:
    """Name the node that is closest to fitting, among those that are merely full."""
    full = [refusal for refusal in answer.refusals if refusal.reason is Reason.FULL]
    best = min(full, key=lambda refusal: (-int(refusal.detail.split()[0]), refusal.node), default=None)
    if best is None or best.detail.startswith("0 "):
        return ""
    return f" (nearest: {best.node} has {best.detail})"


def _wanted(candidate: backlog.Candidate) -> str:
    return " or ".join(sorted(candidate.request.models))
