"""Taints and tolerations, by Kubernetes' rules."""

import re
from collections.abc import Collection
from typing import Final

from berth_operator.scheduling.nodes import affinity, facts

CANONICAL: Final = re.compile(
    r"0|-?[1-9][0-9]{0,18}", re.ASCII
)  # Without leading zeros, unlike in an affinity.
BLOCKING_EFFECTS = (facts.Effect.NO_SCHEDULE, facts.Effect.NO_EXECUTE)


def tolerates(toleration: facts.Toleration, taint: facts.Taint) -> bool:
    """Return whether one toleration covers one taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "Equal" | "":
            return bool(toleration.key) and toleration.value == taint.value
        case "Lt" | "Gt":
            return bool(toleration.key) and _compares(taint.value, toleration.operator, toleration.value)
        case _:  # An operator we do not know tolerates nothing.
            return False


def _compares(found: str, operator: str, value: str) -> bool:
    """Whether the value of a taint is less or greater than that of a toleration, both whole numbers.

    The API server takes such a toleration only where its feature `TaintTolerationComparisonOperators` is on.
    """
    if not (CANONICAL.fullmatch(found) and CANONICAL.fullmatch(value)):
        return False
    left, right = affinity.number(found), affinity.number(value)
    if left is None or right is None:
        return False
    return left < right if operator == "Lt" else left > right


def untolerated(
    node: facts.Node, tolerations: tuple[facts.Toleration, ...], effects: Collection[str] = BLOCKING_EFFECTS
) -> facts.Taint | None:
    """Find the first taint of these effects that keeps the pod away, if any."""
    return next((taint for taint in node.taints if keeps_away(taint, tolerations, effects)), None)


def keeps_away(
    taint: facts.Taint,
    tolerations: tuple[facts.Toleration, ...],
    effects: Collection[str] = BLOCKING_EFFECTS,
) -> bool:
    """Return whether a taint has one of these effects and is not tolerated."""
    return taint.effect in effects and not any(tolerates(one, taint) for one in tolerations)


class TolerationCache:
    """What the tolerations of one pod cover, asked of many nodes: each distinct taint is evaluated once."""

    def __init__(self, tolerations: tuple[facts.Toleration, ...]) -> None:
        self._tolerations = tolerations
        self._known: dict[facts.Taint, bool] = {}
        self.tolerates_cordon = tolerates_cordon(tolerations)

    def untolerated(self, node: facts.Node) -> facts.Taint | None:
        """Return the first taint of a node that keeps the pod away, if any."""
        return next((taint for taint in node.taints if not self._covers(taint)), None)

    def obstacle_count(self, node: facts.Node) -> int:
        """Count the cordon and the taints that keep the pod away; the taint of a cordon is part of it."""
        found = {taint.key for taint in node.taints if not self._covers(taint)}
        if node.unschedulable and not self.tolerates_cordon:
            found.add(facts.UNSCHEDULABLE_TAINT)
        return len(found)

    def _covers(self, taint: facts.Taint) -> bool:
        if (known := self._known.get(taint)) is None:
            known = self._known[taint] = not keeps_away(taint, self._tolerations)
        return known


def accepts_despite_cordon(node: facts.Node, tolerations: tuple[facts.Toleration, ...]) -> bool:
    """Return whether the cordon of a node, if it has one, lets the pod in."""
    return not node.unschedulable or tolerates_cordon(tolerations)


def tolerates_cordon(tolerations: tuple[facts.Toleration, ...]) -> bool:
    """Return whether one of these covers the taint that a cordon stands for."""
    mark = facts.Taint(facts.UNSCHEDULABLE_TAINT, "", facts.Effect.NO_SCHEDULE)
    return any(tolerates(one, mark) for one in tolerations)
