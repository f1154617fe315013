"""Whether the pods near a node are those that the pod requires: inter-pod affinity and anti-affinity.

By the rules of kube-scheduler. A node meets the affinity if it has the labels of all terms, and in each of
these domains is a pod that all terms mean. Where there is no such pod at all, a pod that all its own terms
mean is the first, and may go to any node that has the labels. A node meets the anti-affinity if in the domain
of no term is a pod that the term means, and if no pod in its domains has a term that means the asking one.
Pods that are being deleted still count.

A pod whose labels are not kept, for want of room, may be any of its namespace: the anti-affinity counts it,
the affinity does not.
"""

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
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
from berth_operator.scheduling.wording import clipped, with_brackets

NOTHING: Final = facts.InterPodRules()
Refusals = Callable[[Query], Iterator[tuple[node_table.Mask, str]]]


def applies_to(signature: signatures.Signature) -> bool:
    """Whether the pod has a required term, or is repelled by one of a pod on a node."""
    others = signature.demand.inter_pod_rules
    return others is not None and bool(others.affinity or others.anti_affinity or others.repelled_by)


def inter_pod_rules(query: Query) -> facts.InterPodRules:
    """Return what the pod requires."""
    return query.signature.demand.inter_pod_rules or NOTHING


# ---------------------------------------------------------------- what each node lacks


def alone(query: Query) -> Iterator[tuple[node_table.Mask, str]]:
    """Yield for each term of the affinity the rows that do not meet it, and its key."""
    others = inter_pod_rules(query)
    if not others.affinity:
        return
    pods = topologies.counts(query, *(one.selector for one in others.affinity))
    domains = {key: topologies.domains(query, key) for key in dict.fromkeys(_keys(others.affinity))}
    sums = {key: topologies.sums(pods, of_rows) for key, of_rows in domains.items()}
    first = _may_be_first(query, others) and not any(of_domains.any() for of_domains in sums.values())
    for key, of_rows in domains.items():
        # The sum of no domain is 0, too: a node that lacks a label never meets the term.
        yield (of_rows == topologies.NO_DOMAIN) if first else (sums[key][of_rows] == 0), key


def _may_be_first(query: Query, others: facts.InterPodRules) -> bool:
    """Whether all terms of the pod's affinity mean the pod itself, and no pod whose labels are not known."""
    pods, selectors = query.inventory.pods, [one.selector for one in others.affinity]
    return (
        others.self_match
        and all(pods.includes(one, others.namespace) for one in selectors)
        and not all(map(pods.rows_with_unknown_labels, selectors))
    )


def _keys(terms: Iterable[facts.PodTerm]) -> Iterator[str]:
    return (one.topology_key for one in terms)


def repelling(query: Query) -> Iterator[tuple[node_table.Mask, str]]:
    """Yield for each term of the anti-affinity the rows in whose domain is a pod that it means."""
    for term in inter_pod_rules(query).anti_affinity:
        of_rows = topologies.domains(query, term.topology_key)
        yield (
            topologies.sums(topologies.counts(query, term.selector), of_rows)[of_rows] > 0,
            term.topology_key,
        )


def unlabelled(query: Query) -> Iterator[tuple[node_table.Mask, str]]:
    """Yield for each term of the anti-affinity the rows in whose domain is a pod that it may mean."""
    for term in inter_pod_rules(query).anti_affinity:
        if rows := query.inventory.pods.rows_with_unknown_labels(term.selector):
            yield topologies.in_domains_of(query, rows, term.topology_key), ""


def repelled(query: Query) -> Iterator[tuple[node_table.Mask, str]]:
    """Yield for each key the rows in whose domain a pod has a term that means the asking pod."""
    rows = query.inventory.pods.rows_with(inter_pod_rules(query).repelled_by)
    return ((topologies.in_domains_of(query, rows[key], key), key) for key in sorted(rows))


REFUSALS: Final[dict[Reason, Refusals]] = {
    Reason.POD_AFFINITY: alone,
    Reason.POD_ANTI_AFFINITY: repelling,
    Reason.UNKNOWN_POD_LABELS: unlabelled,
    Reason.REPELLED: repelled,
}


def feasible(query: Query) -> node_table.Mask:
    """Return the nodes that meet affinity and anti-affinity."""
    mask = np.ones(query.inventory.size, dtype=np.bool_)
    for refusals in (alone, repelling, unlabelled):
        for refused, _ in refusals(query):
            mask &= ~refused
            if not np.count_nonzero(mask):
                return mask[query.rows]
    if repelled_by := inter_pod_rules(query).repelled_by:
        mask &= ~query.inventory.pods.rows_kept_away(repelled_by, query.inventory.size)
    return mask[query.rows]


def resolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes that refuse, term by term or key by key; asked to the end, remember them for `gaps`."""
    found: list[node_table.Mask] = []
    for reason, refusals in REFUSALS.items():
        for refused, key in refusals(query):
            found.append(refused[query.rows])
            yield Rejection(found[-1], reason, key)
    query.refused_for_other_pods = found


def gaps(query: Query) -> Iterator[node_table.Scores]:
    """Yield for each node what part it does not meet: of the pod's terms and of the keys of others'."""
    if query.refused_for_other_pods is None:
        collections.deque(resolvable(query), maxlen=0)
    if query.refused_for_other_pods:
        yield np.mean(query.refused_for_other_pods, axis=0)


# ---------------------------------------------------------------- what would lift it


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DropPodTerm(changes.Change):
    """The pod does without a required term of its affinity, or of its anti-affinity."""

    precedence: ClassVar = changes.Precedence.DROP_CONDITION
    term: facts.PodTerm
    anti: bool

    def apply(self, scenario: changes.Scenario) -> changes.Scenario:
        """Return the scenario without the term."""

        def without(others: facts.InterPodRules) -> facts.InterPodRules:
            if self.anti:
                return dataclasses.replace(others, anti_affinity=self._kept(others.anti_affinity))
            return dataclasses.replace(others, affinity=self._kept(others.affinity))

        return changes.with_inter_pod_rules(scenario, without)

    def _kept(self, terms: tuple[facts.PodTerm, ...]) -> tuple[facts.PodTerm, ...]:
        return tuple(one for one in terms if one != self.term)

    def clause(self) -> str:
        """Return what the pod would do without."""
        what = "anti-affinity" if self.anti else "affinity"
        return f"it had no pod {what} over {clipped(self.term.topology_key)}"


def relaxations(failed: FailedPlacement) -> Iterator[changes.ProposedChange]:
    """Propose to drop, one at a time, the terms that are not met."""
    query, rows = failed.query, failed.rows_blocked_by_this_alone()
    others = inter_pod_rules(query)
    for terms, refusals, anti in (
        (others.affinity, alone, False),
        (others.anti_affinity, repelling, True),
    ):
        blocking = {key for refused, key in refusals(query) if refused[rows].any()}
        for term in terms:
            if term.topology_key in blocking:
                yield changes.ProposedChange([DropPodTerm(term=term, anti=anti)])


def remedies(scenario: changes.Scenario, _: object) -> Iterator[changes.ProposedChange]:
    """Propose to end the pods of the node that repel, or that are repelled.

    Which namespaces a selector of namespaces means is not asked here: a trial shows which ends help.
    """
    others = scenario.demand.inter_pod_rules or NOTHING
    tests = [(one.selector, label_matcher(one.selector.expressions)) for one in others.anti_affinity]

    @functools.cache  # Pods of one controller have equal labels.
    def perhaps_repelling(namespace: str, labels: facts.Labels) -> bool:
        found = dict(labels)
        return any(_perhaps_in(selector, namespace) and test(found) for selector, test in tests)

    among = tuple(
        hold
        for hold in scenario.holds
        if not others.repelled_by.isdisjoint(hold.anti_affinity)
        or perhaps_repelling(hold.namespace, hold.labels)
    )
    yield from changes.removing_pods(scenario.node.name, among)


def _perhaps_in(selector: facts.PodSelector, namespace: str) -> bool:
    return selector.namespace_selector is not None or namespace in selector.namespaces


CONSTRAINT = Constraint(
    applies_to=applies_to,
    feasible=feasible,
    resolvable=resolvable,
    gaps=gaps,
    relaxations=relaxations,
    remedies=remedies,
    depends_on=DependsOn.OTHER_PODS,
    words={
        Reason.POD_AFFINITY: with_brackets("didn't match pod affinity rules"),
        Reason.POD_ANTI_AFFINITY: with_brackets("didn't match pod anti-affinity rules"),
        Reason.REPELLED: with_brackets("didn't satisfy existing pods anti-affinity rules"),
    },
    brief={
        Reason.POD_AFFINITY: "pod affinity",
        Reason.POD_ANTI_AFFINITY: "pod anti-affinity",
        Reason.REPELLED: "anti-affinity of pods there",
    },
)
