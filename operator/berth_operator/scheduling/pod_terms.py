"""Terms that pods on nodes have about other pods, by distinct term: how many pods of which rows have each.

Which terms mean a pod is asked for each pod that is to be placed. So the answer is remembered by the
namespace and the labels of that pod, and brought up to date with the terms that are new or gone since.
Whoever has terms come and go all the time makes the others pay for these alone, and not for all terms that
there are.
"""

import collections
import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from berth_operator.scheduling.nodes import facts

MOST_REMEMBERED: Final = 4096  # Namespaces with labels whose counts, or terms, are remembered.
MOST_LABELS: Final = 64  # Of a pod for which that is remembered.
MOST_TERMS: Final = 1024  # Different ones that the pods of one namespace bring; those beyond are coarse.
MOST_NAMED: Final = 1 << 14  # By these together; beyond that they are coarse, too.
MOST_CHANGES: Final = 4096  # Terms that are new or gone, until all answers are forgotten.

Identity = tuple[str, facts.Labels]  # The namespace and the labels of a pod.
Means = Callable[[facts.PodSelector], bool]
Term = TypeVar("Term", bound=Hashable)
T = TypeVar("T")


class Answer(NamedTuple, Generic[Term]):
    """The terms that mean a pod, as of so many changes."""

    terms: frozenset[Term]
    changes: int


class TermIndex(Generic[Term]):
    """The terms, with the rows of the pods that have them; `selector_of` returns whom a term means.

    What pods of one namespace say is compared with every pod that is to be placed. So there is a limit to how
    much that is: `beyond_limit` returns the term that stands for one of a namespace that has brought too
    many; None for one that is left out.
    """

    def __init__(
        self,
        selector_of: Callable[[Term], facts.PodSelector],
        beyond_limit: Callable[[Term, str], Term | None] = lambda term, _: term,
    ) -> None:
        self._selector_of = selector_of
        self._beyond_limit = beyond_limit
        self._brought_by: dict[Term, str] = {}  # The namespace of the first pod that had the term.
        self._brought: collections.Counter[str] = collections.Counter()  # How many, by namespace.
        self._named: collections.Counter[str] = collections.Counter()  # How much these name.
        self._counted_for: dict[str, tuple[Term, ...]] = {}  # By uid, where it is not what the pod says.
        self._rows: dict[Term, collections.Counter[int]] = {}
        self._about: dict[str, dict[Term, None]] = {}  # By namespace; "" for perhaps any.
        self._meaning: dict[Identity, Answer[Term]] = {}
        self._changed: list[Term] = []  # The terms that are new or gone, one after another.

    def __len__(self) -> int:
        """Count the terms."""
        return len(self._rows)

    def __iter__(self) -> Iterator[Term]:
        """Yield the terms."""
        return iter(self._rows)

    def count(self, uid: str, namespace: str, terms: tuple[Term, ...], row: int, sign: int) -> None:
        """Count a pod of a row that has these terms, or with -1 no more."""
        if sign < 0:
            counted = self._counted_for.pop(uid, terms)
        else:
            counted = self._within_limit(terms, namespace)
            if counted != terms:
                self._counted_for[uid] = counted
        for term in counted:
            self._count(term, namespace, row, sign)

    def _within_limit(self, terms: tuple[Term, ...], namespace: str) -> tuple[Term, ...]:
        """Return the terms of a pod that are there or have room, and what stands for the others."""
        brought, named = self._brought[namespace], self._named[namespace]
        beyond: dict[Term, None] = {}
        for term in terms:
            if term not in self._rows:
                more = self._selector_of(term).size
                if brought >= MOST_TERMS or named + more > MOST_NAMED:
                    beyond[term] = None
                else:
                    brought, named = brought + 1, named + more
        if not beyond:
            return terms
        coarse = dict.fromkeys(self._beyond_limit(term, namespace) for term in beyond)
        kept = (term for term in terms if term not in beyond)
        return (*kept, *(term for term in coarse if term is not None))

    def _count(self, term: Term, namespace: str, row: int, sign: int) -> None:
        if (rows := self._rows.get(term)) is None:
            rows = self._rows[term] = collections.Counter()
            self._brought_by[term] = namespace
            self._brought[namespace] += 1
            self._named[namespace] += self._selector_of(term).size
            for about in _namespaces_about(self._selector_of(term)):
                self._about.setdefault(about, {})[term] = None
            self._record_change(term)
        rows[row] += sign
        if not rows[row]:
            del rows[row]
        if not rows:
            self._drop(term)

    def _drop(self, term: Term) -> None:
        del self._rows[term]
        bringer = self._brought_by.pop(term)
        self._brought[bringer] -= 1
        self._named[bringer] -= self._selector_of(term).size
        if not self._brought[bringer]:
            del self._brought[bringer], self._named[bringer]
        for namespace in _namespaces_about(self._selector_of(term)):
            del self._about[namespace][term]
            if not self._about[namespace]:
                del self._about[namespace]
        self._record_change(term)

    def _record_change(self, term: Term) -> None:
        if len(self._changed) >= MOST_CHANGES:
            self.forget_answers()
        if self._meaning:
            self._changed.append(term)

    def forget_answers(self) -> None:
        """Forget which terms mean which pods, because the labels of a namespace have changed."""
        self._meaning.clear()
        self._changed.clear()

    def meaning(self, namespace: str, labels: facts.Labels, means: Means) -> frozenset[Term]:
        """Return the terms that mean a pod; `means` tells it of a selector."""
        identity = namespace, labels
        if (known := self._meaning.get(identity)) is None:
            perhaps = (*self._about.get(namespace, ()), *self._about.get("", ()))
            terms = frozenset(term for term in perhaps if means(self._selector_of(term)))
        elif known.changes == len(self._changed):
            return known.terms
        else:
            changed = set(self._changed[known.changes :])
            there = (term for term in changed if term in self._rows)
            terms = known.terms - changed | {term for term in there if means(self._selector_of(term))}
        remember(self._meaning, identity, Answer(terms, len(self._changed)))
        return terms

    def rows(self, term: Term) -> Mapping[int, int]:
        """Return how many pods of which rows have a term, as often as each has it."""
        return self._rows.get(term, {})

    def rows_with_any(self, terms: Iterable[Term]) -> set[int]:
        """Return the rows of the pods that have any of these terms."""
        return set[int]().union(*[self._rows[term] for term in terms if term in self._rows])


def remember(known: dict[Identity, T], identity: Identity, found: T) -> None:
    """Remember an answer for pods with these labels, if these are not very many."""
    if len(known) >= MOST_REMEMBERED:
        known.clear()
    if len(identity[1]) <= MOST_LABELS:
        known[identity] = found


def weighted(
    required: tuple[facts.PodTerm, ...], preferred: tuple[facts.WeightedPodTerm, ...]
) -> tuple[facts.WeightedPodTerm, ...]:
    """Return how a pod on a node weighs others: what it prefers, and what it required by the weight 1.

    That is the weight that kube-scheduler gives to required affinity by default (`hardPodAffinityWeight`).
    """
    if not required:
        return preferred
    return *(facts.WeightedPodTerm(1, term) for term in required if term.topology_key), *preferred


def weighted_by(demand: facts.NodeDemand) -> tuple[facts.WeightedPodTerm, ...]:
    """Return how a pod with this demand, once it is on a node, weighs pods that come later."""
    if demand.inter_pod_rules is None and demand.preferred_pods is None:
        return ()
    required = demand.inter_pod_rules.affinity if demand.inter_pod_rules is not None else ()
    preferred = demand.preferred_pods.terms if demand.preferred_pods is not None else ()
    return weighted(required, preferred)


def all_of_namespaces(term: facts.PodTerm, namespace: str) -> facts.PodTerm:
    """Return a term about all pods on its node: those of its own namespace, if the term is about no other."""
    own = facts.PodSelector((namespace,), ())
    alone = dataclasses.replace(term.selector, expressions=()) == own
    return facts.PodTerm(own if alone else facts.PodSelector((), (), ()), "")


def by_namespace_labels(selector: facts.PodSelector) -> bool:
    """Whether a selector may be about namespaces that it does not name."""
    return selector.namespace_selector is not None


def _namespaces_about(selector: facts.PodSelector) -> tuple[str, ...]:
    """Return the namespaces that a selector names; "" where it may be about any."""
    return ("",) if by_namespace_labels(selector) else tuple(dict.fromkeys(selector.namespaces))
