"""A second opinion: where a pod may go and what is best, worked out the slow and obvious way.

Written from the rules as people know them, without columns, caches or masks, so that an
error would have to be made twice to stay hidden. The wishes about labels and taints are
read anew here too, for the few operators that the random clusters use.
"""

from collections.abc import Iterable

from berth_crds import catalog
from berth_crds.vocabulary import Strategy
from berth_operator.scheduling import backlog, decisions, inventory
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.nodes import facts
from support import worlds

# ---------------------------------------------------------------- the place


def welcome(node: facts.Node, where: facts.Where) -> bool:
    """Tell whether labels, name and taints suit the pod."""
    taints = [taint for taint in node.taints if taint.effect in {"NoSchedule", "NoExecute"}]
    if node.unschedulable:
        taints.append(facts.Taint(facts.UNSCHEDULABLE_TAINT, "", "NoSchedule"))
    if not all(any(tolerated(taint, one) for one in where.tolerations) for taint in taints):
        return False
    if not all((key, value) in node.labels.items() for key, value in where.selector):
        return False
    return where.affinity is None or any(suits(node, term) for term in where.affinity)


def tolerated(taint: facts.Taint, by: facts.Toleration) -> bool:
    """Tell whether a toleration covers a taint."""
    if by.effect not in {"", taint.effect} or by.key not in {"", taint.key}:
        return False
    if by.operator == "Exists":
        return True
    return by.operator in {"Equal", ""} and by.key != "" and by.value == taint.value


def suits(node: facts.Node, term: facts.Term) -> bool:
    """Tell whether a term of the affinity accepts a node."""
    answers = [true_of(dict(node.labels), one) for one in term.labels]
    answers += [true_of({"metadata.name": node.name}, one) for one in term.fields]
    return bool(answers) and all(answers)


def true_of(labels: dict[str, str], one: facts.Condition) -> bool:
    """Evaluate an expression."""
    value = labels.get(one.key)
    if one.operator in {"Gt", "Lt"}:
        if value is None or not value.isdigit() or len(one.values) != 1 or not one.values[0].isdigit():
            return False
        difference = int(value) - int(one.values[0])
        return difference > 0 if one.operator == "Gt" else difference < 0
    if one.operator in {"In", "NotIn"}:
        return bool(one.values) and (value in one.values) == (one.operator == "In")
    return (one.operator, value is None) in {("Exists", False), ("DoesNotExist", True)}


# ---------------------------------------------------------------- the node and its cards


def left(node: facts.Node, holds: Iterable[Hold], name: str) -> int | None:
    """Say how much of a resource is left; None where the node does not know it."""
    total = dict(node.allocatable).get(name)
    return None if total is None else total - sum(dict(hold.amounts).get(name, 0) for hold in holds)


def roomy(node: facts.Node, holds: list[Hold], demand: facts.Demand) -> bool:
    """Tell whether the node's resources suffice."""
    plain = [left(node, holds, name) for name, _ in demand.amounts]
    served = [left(node, holds, name) for name, _ in demand.served]
    return all(
        have is not None and have >= amount for have, (_, amount) in zip(plain, demand.amounts, strict=True)
    ) and all(have is None or have >= amount for have, (_, amount) in zip(served, demand.served, strict=True))


def available(world: worlds.World, node: str) -> list[inventory.Card]:
    """List the cards of a node that a new pod may get, but for those that nobody can name."""
    device = world.devices.get(node)
    if device is None or device.failed or node not in world.heard:
        return []
    held = {share.uuid for hold in world.holds_on(node) for share in hold.shares}
    return [card for card in device.cards if card.trouble is None and card.uuid not in held]


def unnamed(world: worlds.World, node: str) -> int:
    """Count the cards that pods of the node surely have and nobody can name."""
    return sum(hold.withheld for hold in world.holds_on(node))


def fitting(world: worlds.World, node: str, request: requests.Request) -> list[inventory.Card] | None:
    """Choose cards for a request, or None where there are not enough."""
    wanted = {catalog.model_key(model) for model in request.models}
    cards = [card for card in available(world, node) if not wanted or catalog.model_key(card.model) in wanted]
    if request.cards and len(cards) - unnamed(world, node) < request.cards:
        return None
    return sorted(cards, key=lambda card: card.minor)[: request.cards]


def able(world: worlds.World, candidate: backlog.Candidate) -> dict[str, list[inventory.Card]]:
    """List the nodes that could take a pod, with the cards that it would get there."""
    found = {}
    for name, node in world.nodes.items():
        cards = fitting(world, name, candidate.request)
        fits = roomy(node, world.holds_on(name), candidate.demand)
        if cards is not None and fits and welcome(node, candidate.demand.where):
            found[name] = cards
    return found


def emptiness(world: worlds.World, node: str) -> tuple[int, int]:
    """Say how empty a node is: free cards, then its share of cpu in thousandths."""
    cards = max(0, len(available(world, node)) - unnamed(world, node))
    total = max(1, dict(world.nodes[node].allocatable).get("cpu", 0))
    used = sum(dict(hold.amounts).get("cpu", 0) for hold in world.holds_on(node))
    return cards, min(1000, max(0, 1000 - used * 1000 // total))


def best(
    world: worlds.World, candidate: backlog.Candidate, strategy: Strategy
) -> tuple[str, list[decisions.Share]] | None:
    """Choose a node and cards: the fullest or the emptiest, then by name; the lowest minors."""
    nodes = able(world, candidate)
    if not nodes:
        return None
    sign = 1 if strategy is Strategy.BINPACK else -1
    ranked = sorted(nodes, key=lambda name: (*(sign * part for part in emptiness(world, name)), name))
    return ranked[0], [decisions.Share(one.uuid, one.minor, 100, one.memory) for one in nodes[ranked[0]]]
