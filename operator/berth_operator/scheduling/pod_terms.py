"""Terms that pods on nodes have about other pods, by distinct term: how many pods of which rows have each.

Which terms mean a pod is asked for each pod that is to be placed. The answer is remembered by the namespace
and the labels of that pod until terms come or go, and found without a look at each term (`selector_index`):
neither who has many terms nor who has them come and go all the time makes the others pay for that. A term
over a label that no node has concerns no node: it is in no answer until some node has it.
"""

import collections
import dataclasses
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np

from berth_operator.scheduling import label_memory, node_table, selector_index
from berth_operator.scheduling.nodes import facts

MOST_TERMS: Final = 1024  # Different ones that the pods of one namespace bring; those beyond are coarse.
MOST_NAMED: Final = 1 << 14  # By these together; beyond that they are coarse, too.
MOST_IN_AN_INDEX: Final = 1024  # An index takes a bit for each term at each label that one of them names.

IsAbout = Callable[[facts.PodSelector], bool]
Term = TypeVar("Term", bound=Hashable)


class Answer(NamedTuple, Generic[Term]):
    """The terms that mean a pod, after so many changes of terms."""

    terms: frozenset[Term]
    version: int


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
        # By namespace; "" for perhaps any.
        self._about: dict[str, list[selector_index.SelectorIndex[Term]]] = {}
        self._index_of: dict[tuple[str, Term], selector_index.SelectorIndex[Term]] = {}
        self._meaning = label_memory.LabelMemory[Answer[Term]](lambda answer: len(answer.terms))
        self._keys: frozenset[str] | None = None  # The labels of nodes for which these answers hold.
        self._version = 0  # Goes up with each term that is new or gone.
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
                more = self._term_of(term).size
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
            self._named[namespace] += self._term_of(term).size
            for about in _namespaces_about(self._term_of(term).selector):
                self._add_to_index(about, term)
            self._version += 1
        rows[row] += sign
        if not rows[row]:
            del rows[row]
        if not rows:
            self._drop(term)

    def _drop(self, term: Term) -> None:
        del self._rows[term]
        bringer = self._brought_by.pop(term)
        self._brought[bringer] -= 1
        self._named[bringer] -= self._term_of(term).size
        if not self._brought[bringer]:
            del self._brought[bringer], self._named[bringer]
        for about in _namespaces_about(self._term_of(term).selector):
            self._remove_from_index(about, term)
        self._version += 1

    def _add_to_index(self, about: str, term: Term) -> None:
        indexes = self._about.setdefault(about, [])
        if (index := next((one for one in indexes if len(one) < MOST_IN_AN_INDEX), None)) is None:
            indexes.append(index := selector_index.SelectorIndex[Term]())
        index.add(term, self._term_of(term).selector.expressions)
        self._index_of[about, term] = index

    def _remove_from_index(self, about: str, term: Term) -> None:
        index, indexes = self._index_of.pop((about, term)), self._about[about]
        index.remove(term, self._term_of(term).selector.expressions)
        if not index:
            indexes.remove(index)
        if not indexes:
            del self._about[about]

    def forget_answers(self) -> None:
        """Forget which terms mean which pods, because labels of a namespace have changed."""
        self._meaning.clear()
        for index in itertools.chain.from_iterable(self._about.values()):
            index.forget_namespaces()

    def meaning(
        self, namespace: str, labels: facts.Labels, is_about: IsAbout, keys: frozenset[str] | None = None
    ) -> frozenset[Term]:
        """Return the terms that mean a pod; `is_about` tells whether a selector is about its namespace.

        `keys` are the labels that nodes have, and terms over others are left out; with None no term is.
        """
        if keys is not self._keys and keys != self._keys:
            self._meaning.clear()
        self._keys = keys
        known = self._meaning.get((namespace, labels))
        if known is not None and known.version == self._version:
            return known.terms
        wanted = dict(labels)
        selecting = (
            index.selecting(namespace, wanted, lambda term: is_about(self._term_of(term).selector))
            for index in (*self._about.get(namespace, ()), *self._about.get("", ()))
        )
        terms = frozenset(filter(self._has_domain, itertools.chain.from_iterable(selecting)))
        self._meaning.put((namespace, labels), Answer(terms, self._version))
        return terms

    def _has_domain(self, term: Term) -> bool:
        """Whether nodes have the label of a term, so that it concerns any of them."""
        key = self._term_of(term).topology_key
        return self._keys is None or not key or key in self._keys

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
