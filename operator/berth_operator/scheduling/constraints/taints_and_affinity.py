"""Whether the pod may run on the node: cordon, taints, declared features, node selector, node affinity.

The reasons are made in `node_selection_reasons`: they depend on nothing but the node's name, cordon, labels,
taints and features, so the inventory remembers them until one of these changes. `obstacles`
returns all that is in the way on one node, not only the first reason: as changes for `relaxations` and
`remedies` below, and as reasons for `explain.nearest_nodes`. What relaxations,
remedies and gaps are is said in `constraint`.
"""

import abc
import collections
import dataclasses
from collections.abc import Iterator
from typing import ClassVar, Final

from berth_operator.scheduling import changes, node_table
from berth_operator.scheduling.changes import ProposedChange, Scenario
from berth_operator.scheduling.constraints.constraint import Constraint, FailedPlacement, Rejection
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import NodeReason, Reason
from berth_operator.scheduling.node_selection_reasons import ACCEPTED, tainted
from berth_operator.scheduling.nodes import affinity, facts, taints
from berth_operator.scheduling.wording import clipped, nodes_that, with_detail

# Kubernetes' own taints, which say that something is wrong with a node.
BUILT_IN_TAINT_PREFIX: Final = "node.kubernetes.io/"
MOST_EVALUATED: Final = 64  # How many nodes are looked at in detail: those with the fewest obstacles.


def feasible(query: Query) -> node_table.Mask:
    """Return the nodes on which the pod may run."""
    found = query.inventory.node_selection_reasons(query.signature.demand.node_selection)
    mask: node_table.Mask = found.reason_index[query.rows] == ACCEPTED
    return mask


def unresolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes on which the pod may not run, grouped by the first reason of each."""
    found = query.inventory.node_selection_reasons(query.signature.demand.node_selection)
    for index, why in enumerate(found.reasons, start=ACCEPTED + 1):
        yield Rejection(found.reason_index[query.rows] == index, *why)


def gaps(query: Query) -> Iterator[node_table.Scores]:
    """Yield a gap that grows with what keeps the pod away: two taints are a larger gap than one."""
    found = query.inventory.node_selection_reasons(query.signature.demand.node_selection)
    counts = found.obstacle_counts[query.rows]
    yield counts / (counts + 1)


# ---------------------------------------------------------------- what would lift it


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Uncordon(changes.Change):
    """People uncordon the node."""

    precedence: ClassVar = changes.Precedence.REPAIR

    def apply(self, scenario: Scenario) -> Scenario:
        """Return the scenario with the node uncordoned."""
        kept = tuple(one for one in scenario.node.taints if one.key != facts.UNSCHEDULABLE_TAINT)
        node = dataclasses.replace(scenario.node, unschedulable=False, taints=kept)
        return dataclasses.replace(scenario, node=node)

    def clause(self) -> str:
        """Return what would have to be, as it is said behind "Would fit if"."""
        return f"{clipped(self.node)} were uncordoned"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AcceptMoreNodes(changes.Change):
    """The pod accepts more nodes."""

    precedence: ClassVar = changes.Precedence.DROP_CONDITION

    def apply(self, scenario: Scenario) -> Scenario:
        """Return the scenario in which the pod accepts more nodes."""
        demand = dataclasses.replace(
            scenario.demand, node_selection=self.relaxed(scenario.demand.node_selection)
        )
        return dataclasses.replace(scenario, demand=demand)

    @abc.abstractmethod
    def relaxed(self, node_selection: facts.NodeSelection) -> facts.NodeSelection:
        """Return the relaxed node selection."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DropSelector(AcceptMoreNodes):
    """The pod drops one pair of its node selector, or all of them where none is named."""

    pair: tuple[str, str] | None = None

    def relaxed(self, node_selection: facts.NodeSelection) -> facts.NodeSelection:
        """Return where the pod may run without the pair."""
        kept = tuple(one for one in node_selection.selector if one != self.pair) if self.pair else ()
        return dataclasses.replace(node_selection, selector=kept)

    def clause(self) -> str:
        """Return which part of the selector would be dropped."""
        pair = f" {clipped('='.join(filter(None, self.pair)))}" if self.pair else ""
        return f"the node selector{pair} were dropped"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DropAffinity(AcceptMoreNodes):
    """The pod drops its required node affinity."""

    def relaxed(self, node_selection: facts.NodeSelection) -> facts.NodeSelection:
        """Return where the pod may run without it."""
        return dataclasses.replace(node_selection, affinity=None)

    def clause(self) -> str:
        """Return which condition would be dropped."""
        return "the node affinity were dropped"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tolerate(AcceptMoreNodes):
    """The pod tolerates a taint."""

    taint: facts.Taint

    def relaxed(self, node_selection: facts.NodeSelection) -> facts.NodeSelection:
        """Return where the pod may run with the toleration."""
        more = facts.Toleration(self.taint.key, "Equal", self.taint.value)
        return dataclasses.replace(node_selection, tolerations=(*node_selection.tolerations, more))

    def clause(self) -> str:
        """Return which taint it would tolerate."""
        return (
            f"the taint {clipped('='.join(filter(None, (self.taint.key, self.taint.value))))} were tolerated"
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DropFeature(AcceptMoreNodes):
    """The pod does without a feature of the kubelet."""

    feature: str

    def relaxed(self, node_selection: facts.NodeSelection) -> facts.NodeSelection:
        """Return where the pod may run without it."""
        kept = tuple(one for one in node_selection.features if one != self.feature)
        return dataclasses.replace(node_selection, features=kept)

    def clause(self) -> str:
        """Return which feature it would not need."""
        return f"it did not need the node feature {clipped(self.feature)}"


def obstacles(node: facts.Node, node_selection: facts.NodeSelection) -> dict[changes.Change, NodeReason]:
    """Return all that keeps a pod away from a node, by the change that would lift it."""
    found: dict[changes.Change, NodeReason] = {}
    if not taints.accepts_despite_cordon(node, node_selection.tolerations):
        found[Uncordon(node=node.name)] = Reason.NODE_CORDONED, ""
    for taint in node.taints:
        if not taints.keeps_away(taint, node_selection.tolerations):
            continue
        if taint.key == facts.UNSCHEDULABLE_TAINT:
            found[Uncordon(node=node.name)] = Reason.NODE_CORDONED, ""
        else:
            # One toleration covers all effects, so taints that differ in nothing else are one obstacle.
            found[Tolerate(taint=dataclasses.replace(taint, effect=""))] = tainted(taint)
    if missing := node_selection.missing_feature(node):
        found[DropFeature(feature=missing)] = Reason.FEATURE_MISSING, missing
    # Of several labels that differ the whole selector is to be dropped: no single one would help.
    pairs = [pair for pair in node_selection.selector if node.labels.get(pair[0]) != pair[1]]
    if pairs:
        found[DropSelector(pair=pairs[0] if len(pairs) == 1 else None)] = Reason.SELECTOR_MISMATCH, ""
    if not affinity.matches(facts.NodeSelection(affinity=node_selection.affinity), node):
        found[DropAffinity()] = Reason.SELECTOR_MISMATCH, ""
    return found


def relaxations(failed: FailedPlacement) -> Iterator[ProposedChange]:
    """Yield what lifts the obstacles of the nodes with the fewest of them, the most common change first."""
    inventory, node_selection = failed.query.inventory, failed.query.signature.demand.node_selection
    counts = inventory.node_selection_reasons(node_selection).obstacle_counts
    rows = sorted(failed.rows_blocked_by_this_alone(), key=lambda row: int(counts[row]))
    there = [inventory.infos[row] for row in rows[:MOST_EVALUATED]]
    found = [set(obstacles(info.node, node_selection)) for info in there if info and info.node]
    fewest = min((len(one) for one in found if one), default=0)
    counted = collections.Counter(change for one in found if len(one) == fewest for change in one)
    for change, _ in sorted(counted.items(), key=lambda item: (-item[1], item[0].clause())):
        # A taint of Kubernetes' own says that the node is broken: to tolerate it is no advice.
        is_built_in = isinstance(change, Tolerate) and change.taint.key.startswith(BUILT_IN_TAINT_PREFIX)
        if change.of_pod and not is_built_in:
            # A prerequisite: on a node that refuses the pod as a whole nothing else helps.
            yield ProposedChange([change], is_prerequisite=True)


def remedies(scenario: Scenario, _shortfall: object) -> Iterator[ProposedChange]:
    """Yield the uncordoning of a cordoned node, which `relaxations`, being about the pod, passes over."""
    for change in obstacles(scenario.node, scenario.demand.node_selection):
        if isinstance(change, Uncordon):
            yield ProposedChange([change], is_prerequisite=True)


CONSTRAINT = Constraint(
    feasible=feasible,
    unresolvable=unresolvable,
    gaps=gaps,
    relaxations=relaxations,
    remedies=remedies,
    words={
        Reason.NODE_CORDONED: nodes_that("is cordoned", "are cordoned"),
        Reason.TAINTED: with_detail("has the untolerated taint", "have the untolerated taint"),
        Reason.FEATURE_MISSING: with_detail("does not declare the feature", "do not declare the feature"),
        Reason.SELECTOR_MISMATCH: nodes_that(
            "does not match the node selector or affinity", "do not match the node selector or affinity"
        ),
    },
    brief={
        Reason.NODE_CORDONED: "node cordoned",
        Reason.TAINTED: "taint",
        Reason.FEATURE_MISSING: "feature not declared",
        Reason.SELECTOR_MISMATCH: "node selector or affinity",
    },
)
