"""Whether the pod would be spread evenly enough: its topology spread constraints with `DoNotSchedule`.

By the rules of kube-scheduler. Counted in each domain are those pods of the pod's namespace that the
constraint selects and that are not being deleted, on those nodes that have the labels of all constraints and
that the constraint's policies do not leave out. A domain may be ahead of the one with the fewest by
`maxSkew`, the pod itself included. If there are fewer domains than `minDomains`, the fewest count as 0. A
selector without any expression selects the pod itself, but counts no other.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

import numpy as np

from berth_operator.scheduling import changes, node_table, signatures
from berth_operator.scheduling.constraints import topologies
from berth_operator.scheduling.constraints.constraint import (
    Constraint,
    DependsOn,
    FailedPlacement,
    Rejection,
)
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.pod_index import label_matcher
from berth_operator.scheduling.wording import clipped, invariant, with_brackets

MOST_SKEWS: Final = 8  # Different skews that are told apart; the nodes with larger ones count as one.


def applies_to(signature: signatures.Signature) -> bool:
    """Whether the pod has such a constraint."""
    rules = signature.demand.inter_pod_rules
    return rules is not None and bool(rules.spread)


def spread_constraints(query: Query) -> tuple[facts.SpreadConstraint, ...]:
    """Return the constraints of the pod."""
    rules = query.signature.demand.inter_pod_rules
    return rules.spread if rules is not None else ()


def labels_are_known(query: Query) -> bool:
    """Whether the labels are known of all pods that a constraint may count."""
    pods = query.inventory.pods
    return not any(pods.rows_with_unknown_labels(one.selector) for one in spread_constraints(query))


@dataclasses.dataclass(frozen=True, slots=True)
class Skews:
    """By how much the domain of each row would be ahead, with the pod, and whether the row has a domain."""

    skew: node_table.Numbers
    has_label: node_table.Mask


def skews(query: Query, constraint: facts.SpreadConstraint) -> Skews:
    """Return by how much the domain of each row would be ahead of the one with the fewest."""
    found: Skews | None = query.skews.get(constraint)
    if found is None:
        found = query.skews[constraint] = _skews(query, constraint)
    return found


def _skews(query: Query, constraint: facts.SpreadConstraint) -> Skews:
    domain_by_row = topologies.domains(query, constraint.topology_key)
    counts = countable(query, constraint, spread_constraints(query))
    counting_domain_by_row = np.where(counts, domain_by_row, topologies.NO_DOMAIN)
    last = int(domain_by_row.max(initial=0))
    exists = np.bincount(counting_domain_by_row, minlength=last + 1) > 0
    exists[topologies.NO_DOMAIN] = False
    pods = np.zeros(last + 1, dtype=np.int64)
    if constraint.selector.expressions:
        pods_by_row = topologies.counts(query, constraint.selector, exclude_terminating=True)
        found = topologies.sums(pods_by_row, counting_domain_by_row)
        pods[: len(found)] = found
    enough_domains = int(exists.sum()) >= max(1, constraint.min_domains)
    fewest = int(pods[exists].min()) if enough_domains else 0
    skew = pods[domain_by_row] + constraint.self_match - fewest
    return Skews(skew, domain_by_row != topologies.NO_DOMAIN)


def countable(
    query: Query, constraint: facts.SpreadConstraint, constraints: Iterable[facts.SpreadConstraint]
) -> node_table.Mask:
    """Return the rows on which pods count, and whose domains exist: with the labels of all constraints."""
    needed = frozenset(one.topology_key for one in constraints)
    mask_key = needed, constraint.honors_affinity, constraint.honors_taints
    if (mask := query.countable_rows.get(mask_key)) is None:
        mask = query.countable_rows[mask_key] = _countable(query, constraint, needed)
    return mask


def _countable(query: Query, constraint: facts.SpreadConstraint, needed: Iterable[str]) -> node_table.Mask:
    inventory, selection = query.inventory, query.signature.demand.node_selection
    mask = inventory.table.has_node[: inventory.size].copy()
    for key in needed:
        mask &= topologies.domains(query, key) != topologies.NO_DOMAIN
    if constraint.honors_affinity and (selection.selector or selection.affinity is not None):
        mask &= inventory.node_labels().matching(selection)
    if constraint.honors_taints:
        mask &= inventory.untainted(selection.tolerations)
    return mask


def feasible(query: Query) -> node_table.Mask:
    """Return the nodes on which the pod meets all constraints."""
    if not labels_are_known(query):
        return np.zeros(query.node_count, dtype=np.bool_)
    mask = np.ones(query.inventory.size, dtype=np.bool_)
    for constraint in spread_constraints(query):
        found = skews(query, constraint)
        mask &= found.has_label & (found.skew <= constraint.max_skew)
    return mask[query.rows]


def unresolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes that lack the label of a constraint."""
    for constraint in spread_constraints(query):
        lacking = topologies.domains(query, constraint.topology_key) == topologies.NO_DOMAIN
        yield Rejection(lacking[query.rows], Reason.SPREAD_LABEL_MISSING, constraint.topology_key)


def resolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes whose domain would be too far ahead, by how far."""
    if not labels_are_known(query):
        yield Rejection(np.ones(query.node_count, dtype=np.bool_), Reason.UNKNOWN_POD_LABELS)
        return
    for constraint in spread_constraints(query):
        skew = skews(query, constraint).skew[query.rows]
        too_large = skew > constraint.max_skew
        shown = np.unique(skew[too_large]).tolist()[:MOST_SKEWS]
        for this in shown:
            yield Rejection(skew == this, Reason.TOPOLOGY_SPREAD, _detail(constraint, f"skew {this}"))
        if shown and (larger := skew > shown[-1]).any():
            detail = _detail(constraint, f"skew over {shown[-1]}")
            yield Rejection(larger, Reason.TOPOLOGY_SPREAD, detail)


def _detail(constraint: facts.SpreadConstraint, skew: str) -> str:
    return f"{clipped(constraint.topology_key)}: {skew}, maxSkew {constraint.max_skew}"


def gaps(query: Query) -> Iterator[node_table.Scores]:
    """Yield for each node what part of the skew is too much."""
    for constraint in spread_constraints(query):
        skew = skews(query, constraint).skew[query.rows]
        yield np.where(skew > constraint.max_skew, 1 - constraint.max_skew / np.maximum(skew, 1), 0.0)


# ---------------------------------------------------------------- what would lift it


def _replaced(
    scenario: changes.Scenario, constraint: facts.SpreadConstraint, *instead: facts.SpreadConstraint
) -> changes.Scenario:
    """Return the scenario in which the pod has these constraints in place of one."""

    def change(rules: facts.InterPodRules) -> facts.InterPodRules:
        spread = (instead if one == constraint else (one,) for one in rules.spread)
        return dataclasses.replace(rules, spread=tuple(itertools.chain.from_iterable(spread)))

    return changes.with_inter_pod_rules(scenario, change)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DropSpread(changes.Change):
    """The pod does without a topology spread constraint."""

    precedence: ClassVar = changes.Precedence.DROP_CONDITION
    constraint: facts.SpreadConstraint

    def apply(self, scenario: changes.Scenario) -> changes.Scenario:
        """Return the scenario without the constraint."""
        return _replaced(scenario, self.constraint)

    def clause(self) -> str:
        """Return what the pod would do without."""
        return f"it had no topology spread constraint over {clipped(self.constraint.topology_key)}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RaiseMaxSkew(changes.Change):
    """The pod allows more skew."""

    precedence: ClassVar = changes.Precedence.DROP_CONDITION
    constraint: facts.SpreadConstraint
    max_skew: int

    def apply(self, scenario: changes.Scenario) -> changes.Scenario:
        """Return the scenario with more skew allowed."""
        return _replaced(
            scenario, self.constraint, dataclasses.replace(self.constraint, max_skew=self.max_skew)
        )

    def clause(self) -> str:
        """Return how much skew the pod would allow."""
        return f"maxSkew over {clipped(self.constraint.topology_key)} were {self.max_skew}"


def relaxations(failed: FailedPlacement) -> Iterator[changes.ProposedChange]:
    """Propose for each constraint that blocks to allow the least skew that lets the pod in, or to drop it."""
    query, rows = failed.query, failed.rows_blocked_by_this_alone()
    for constraint in spread_constraints(query) if labels_are_known(query) else ():
        found = skews(query, constraint)
        skew = found.skew[rows]
        if not ((skew > constraint.max_skew) | ~found.has_label[rows]).any():
            continue
        larger = np.unique(skew[(skew > constraint.max_skew) & found.has_label[rows]]).tolist()
        raised = [RaiseMaxSkew(constraint=constraint, max_skew=one) for one in larger[:MOST_SKEWS]]
        if raised:
            yield changes.ProposedChange(raised)
        yield changes.ProposedChange([DropSpread(constraint=constraint)])


def remedies(scenario: changes.Scenario, _: object) -> Iterator[changes.ProposedChange]:
    """Propose to end pods of the node that a constraint selects; a trial tells whether that helps."""
    rules = scenario.demand.inter_pod_rules
    for constraint in rules.spread if rules is not None else ():
        selects = label_matcher(constraint.selector.expressions)
        among = tuple(
            hold
            for hold in scenario.holds
            if hold.namespace in constraint.selector.namespaces and selects(dict(hold.labels))
        )
        yield from changes.removing_pods(scenario.node.name, among)


UNMATCHED: Final = "didn't match pod topology spread constraints"

CONSTRAINT = Constraint(
    applies_to=applies_to,
    feasible=feasible,
    unresolvable=unresolvable,
    resolvable=resolvable,
    gaps=gaps,
    relaxations=relaxations,
    remedies=remedies,
    depends_on=DependsOn.OTHER_PODS,
    words={
        Reason.SPREAD_LABEL_MISSING: with_brackets(UNMATCHED, "missing label "),
        Reason.TOPOLOGY_SPREAD: with_brackets(UNMATCHED),
        Reason.UNKNOWN_POD_LABELS: invariant(
            "cannot be evaluated: there are too many pod labels to keep them all"
        ),
    },
    brief={
        Reason.SPREAD_LABEL_MISSING: "no label to spread over",
        Reason.TOPOLOGY_SPREAD: "topology spread",
        Reason.UNKNOWN_POD_LABELS: "labels of pods not stored",
    },
)
