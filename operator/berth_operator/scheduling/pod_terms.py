"""Terms that pods on nodes have about other pods, by distinct term: how many pods of which rows have each.

Which terms mean a pod is asked for each pod that is to be placed. So the answer is remembered by the
namespace and the labels of that pod, and brought up to date with the terms that are new or gone since.
Whoever has terms come and go all the time makes the others pay for these alone, and not for all terms that
there are. A term over a label that no node has concerns no node: it is in no answer until some node has it.
"""

import collections
import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np

from berth_operator.scheduling import label_memory, node_table
from berth_operator.scheduling.nodes import facts

MOST_TERMS: Final = 1024  # Different ones that the pods of one namespace bring; those beyond are coarse.
MOST_NAMED: Final = 1 << 14  # By these together; beyond that they are coarse, too.
MOST_CHANGES: Final = 4096  # Terms that are new or gone, until all answers are forgotten.

Means = Callable[[facts.PodSelector], bool]
Term = TypeVar("Term", bound=Hashable)


class Answer(NamedTuple, Generic[Term]):
    """The terms that mean a pod, as of so many changes."""

    terms: frozenset[Term]
    changes: int


class TermIndex(Generic[Term]):
    """The terms, with the rows of the pods that have them; `term_of` returns whom one means, and the label.

    What pods of one namespace say is compared with every pod that is to be placed. So there is a limit to how
    much that is: `beyond_limit` returns the term that stands for one of a namespace that has brought too
    many; None for one that is left out.
    """

    def __init__(
        self,
        term_of: Callable[[Term], facts.PodTerm],
        beyond_limit: Callable[[Term, str], Term | None] = lambda term, _: term,
    ) -> None:
        self._term_of = term_of
        self._beyond_limit = beyond_limit
        self._brought_by: dict[Term, str] = {}  # The namespace of the first pod that had the term.
        self._brought: collections.Counter[str] = collections.Counter()  # How many, by namespace.
        self._named: collections.Counter[str] = collections.Counter()  # How much these name.
        self._counted_for: dict[str, tuple[Term, ...]] = {}  # By uid, where it is not what the pod says.
        self._rows: dict[Term, collections.Counter[int]] = {}
        self._about: dict[str, dict[Term, None]] = {}  # By namespace; "" for perhaps any.
        self._meaning = label_memory.LabelMemory[Answer[Term]](lambda answer: len(answer.terms))
        self._keys: frozenset[str] | None = None  # The labels of nodes for which these answers hold.
        self._changed: list[Term] = []  # The terms that are new or gone, one after another.
        self._arrays: dict[Term, node_table.Numbers] = {}  # What `rows_and_counts` has returned.

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
                more = self._term_of(term).selector.size
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
        self._arrays.pop(term, None)
        if (rows := self._rows.get(term)) is None:
            rows = self._rows[term] = collections.Counter()
            self._brought_by[term] = namespace
            self._brought[namespace] += 1
            self._named[namespace] += self._term_of(term).selector.size
            for about in _namespaces_about(self._term_of(term).selector):
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
        self._named[bringer] -= self._term_of(term).selector.size
        if not self._brought[bringer]:
            del self._brought[bringer], self._named[bringer]
        for namespace in _namespaces_about(self._term_of(term).selector):
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
        """Forget which terms mean which pods, because labels of a namespace or of nodes have changed."""
        self._meaning.clear()
        self._changed.clear()

    def meaning(
        self, namespace: str, labels: facts.Labels, means: Means, keys: frozenset[str] | None = None
    ) -> frozenset[Term]:
        """Return the terms that mean a pod; `means` tells it of a selector.

        `keys` are the labels that nodes have, and terms over others are left out; with None no term is.
        """
        if keys is not self._keys and keys != self._keys:
            self.forget_answers()
        self._keys = keys
        identity = namespace, labels
        if (known := self._meaning.get(identity)) is None:
            perhaps = (*self._about.get(namespace, ()), *self._about.get("", ()))
            terms = frozenset(term for term in perhaps if self._concerns(term, means))
        elif known.changes == len(self._changed):
            return known.terms
        else:
            changed = set(self._changed[known.changes :])
            there = (term for term in changed if term in self._rows)
            terms = known.terms - changed | {term for term in there if self._concerns(term, means)}
        self._meaning.put(identity, Answer(terms, len(self._changed)))
        return terms

    def _concerns(self, term: Term, means: Means) -> bool:
        """Whether a term means a pod, and there is a domain of it."""
        found = self._term_of(term)
        somewhere = self._keys is None or not found.topology_key or found.topology_key in self._keys
        return somewhere and means(found.selector)

    def rows(self, term: Term) -> Mapping[int, int]:
        """Return how many pods of which rows have a term, as often as each has it."""
        return self._rows.get(term, {})

    def rows_and_counts(self, term: Term) -> node_table.Numbers:
        """Return the rows of the pods that have a term, and how often, as two rows of one array.

        It is kept until a pod comes or goes that has the term: there may be a hundred thousand pairs.
        """
        if (found := self._arrays.get(term)) is None:
            rows = self.rows(term)
            found = np.array((tuple(rows), tuple(rows.values())), dtype=np.int64)
            if rows:
                self._arrays[term] = found
        return found

    def rows_with_any(self, terms: Iterable[Term]) -> set[int]:
        """Return the rows of the pods that have any of these terms."""
        return set[int]().union(*[self._rows[term] for term in terms if term in self._rows])


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
