"""What keeps a pod away from a node's place: all of it, not only the first thing.

A node that differs in one thing alone (one pair of the selector, the affinity, one taint,
its being cordoned) can be won by one change; one that differs in two cannot. Taints that
Kubernetes itself puts on a node say that something is wrong with it, so nobody is told to
tolerate those.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from berth_operator.scheduling import node_table, questions
from berth_operator.scheduling.explain import feasibility, node_survey
from berth_operator.scheduling.explain.findings import PodCondition
from berth_operator.scheduling.nodes import affinity, facts, taints

OF_KUBERNETES: Final = "node.kubernetes.io/"
MOST_JUDGED: Final = 1024
JUDGED_IN_A_STEP: Final = 64  # Each taint, pair and expression that is looked at on a node counts.


@dataclasses.dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing in the way; without a condition it is the node that is cordoned."""

    condition: PodCondition | None
    key: str = ""
    value: str = ""

    def __str__(self) -> str:
        """Return it as it is written in a manifest."""
        return f"{self.key}={self.value}" if self.value else self.key


CORDON: Final = Obstacle(None)
SELECTOR: Final = Obstacle(PodCondition.SELECTOR)  # As a whole.


@dataclasses.dataclass(frozen=True, slots=True)
class SingleObstacles:
    """The nodes with a single obstacle, by obstacle; `exact` tells that all nodes were judged."""

    nodes: Mapping[Obstacle, node_table.Mask]
    exact: bool


def single(survey: node_survey.NodeSurvey, *, whole: bool) -> SingleObstacles:
    """Find the refused nodes that have all else, and of them those with a single obstacle."""
    able = np.flatnonzero(survey.known & survey.room & ~survey.place)
    able = able[feasibility.enough(survey.inventory, able, questions.ask(survey.request, survey.demand))]
    judged = able if whole else able[:MOST_JUDGED]
    found: dict[Obstacle, node_table.Mask] = {}
    asked = 8 + survey.demand.where.size
    for count, at in enumerate(judged.tolist()):
        if survey.exhausted:
            judged = judged[:count]
            break
        survey.effort.spend((count + 1) * asked // JUDGED_IN_A_STEP - count * asked // JUDGED_IN_A_STEP)
        info = survey.row(at)
        obstacle = only(info.node, survey.demand.where) if info.node else None
        if obstacle is not None:
            empty = np.zeros(survey.inventory.size, dtype=np.bool_)
            found.setdefault(obstacle, empty)[at] = True
    if SELECTOR in found:
        pairs = [nodes for one, nodes in found.items() if one.condition is PodCondition.SELECTOR]
        found[SELECTOR] = np.logical_or.reduce(pairs)
    ordered = sorted(
        found.items(), key=lambda item: (-int(item[1].sum()), str(item[0].condition), str(item[0]))
    )
    return SingleObstacles(dict(ordered), exact=len(judged) == len(able))


def only(node: facts.Node, where: facts.Where) -> Obstacle | None:
    """Return the obstacle of a node that has no other; all pairs of a selector together count as one."""
    found = set(each(node, where))
    if len(found) > 1 and all(one.condition is PodCondition.SELECTOR for one in found):
        return SELECTOR
    return found.pop() if len(found) == 1 else None


def each(node: facts.Node, where: facts.Where) -> Iterator[Obstacle]:
    """List all that keeps a pod away from a node."""
    if not taints.may_schedule(node, where.tolerations):
        yield CORDON
    for taint in node.taints:
        alone = facts.Node(node.name, taints=(taint,))
        if taints.untolerated(alone, where.tolerations) is not None:
            marked = taint.key == facts.UNSCHEDULABLE_TAINT
            yield CORDON if marked else Obstacle(PodCondition.TAINT, taint.key, taint.value)
    for key, value in where.selector:
        if node.labels.get(key) != value:
            yield Obstacle(PodCondition.SELECTOR, key, value)
    if not affinity.matches(facts.Where(affinity=where.affinity), node):
        yield Obstacle(PodCondition.AFFINITY)


def ease(where: facts.Where, obstacle: Obstacle) -> facts.Where | None:
    """Return where the pod may run without an obstacle, if the pod should."""
    match obstacle.condition:
        case PodCondition.SELECTOR:
            pair = obstacle.key, obstacle.value
            kept = tuple(one for one in where.selector if obstacle.key and one != pair)
            return dataclasses.replace(where, selector=kept)
        case PodCondition.AFFINITY:
            return dataclasses.replace(where, affinity=None)
        case PodCondition.TAINT if not obstacle.key.startswith(OF_KUBERNETES):
            more = facts.Toleration(obstacle.key, "Equal", obstacle.value)
            return dataclasses.replace(where, tolerations=(*where.tolerations, more))
    return None


def uncordoned(node: facts.Node) -> facts.Node:
    """Return a node as it is once people have uncordoned it."""
    kept = tuple(taint for taint in node.taints if taint.key != facts.UNSCHEDULABLE_TAINT)
    return dataclasses.replace(node, unschedulable=False, taints=kept)
