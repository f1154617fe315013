"""Terms that pods on nodes have about other pods, by distinct term: how many pods of which rows have each.

Whether a term means a pod is asked for each pod that is to be placed. So the answer is remembered by the
namespace and the labels of that pod, and is forgotten when a term is new or gone.
"""

import collections
from collections.abc import Callable, Hashable, Mapping
from typing import Final, Generic, TypeVar

from berth_operator.scheduling.nodes import facts

MOST_REMEMBERED: Final = 4096  # Namespaces with labels whose counts, or terms, are remembered.
MOST_LABELS: Final = 64  # Of a pod for which that is remembered.

Identity = tuple[str, facts.Labels]  # The namespace and the labels of a pod.
Means = Callable[[facts.PodSelector], bool]
Term = TypeVar("Term", bound=Hashable)
T = TypeVar("T")


class TermIndex(Generic[Term]):
    """The terms, with the rows of the pods that have them; `selector_of` returns whom a term means."""

    def __init__(self, selector_of: Callable[[Term], facts.PodSelector]) -> None:
        self._selector_of = selector_of
        self._rows: dict[Term, collections.Counter[int]] = {}
        self._about: dict[str, dict[Term, None]] = {}  # By namespace; "" for perhaps any.
        self._meaning: dict[Identity, frozenset[Term]] = {}

    def __len__(self) -> int:
        """Count the terms."""
        return len(self._rows)

    def count(self, term: Term, row: int, sign: int) -> None:
        """Count a pod of a row that has the term, or with -1 no more."""
        if (rows := self._rows.get(term)) is None:
            rows = self._rows[term] = collections.Counter()
            for namespace in _namespaces_about(self._selector_of(term)):
                self._about.setdefault(namespace, {})[term] = None
            self.forget_answers()
        rows[row] += sign
        if not rows[row]:
            del rows[row]
        if not rows:
            self._drop(term)

    def _drop(self, term: Term) -> None:
        del self._rows[term]
        for namespace in _namespaces_about(self._selector_of(term)):
            del self._about[namespace][term]
            if not self._about[namespace]:
                del self._about[namespace]
        self.forget_answers()

    def forget_answers(self) -> None:
        """Forget which terms mean which pods: a term or the labels of a namespace have changed."""
        self._meaning.clear()

    def meaning(self, namespace: str, labels: facts.Labels, means: Means) -> frozenset[Term]:
        """Return the terms that mean a pod; `means` tells it of a selector."""
        identity = namespace, labels
        if (found := self._meaning.get(identity)) is None:
            perhaps = (*self._about.get(namespace, ()), *self._about.get("", ()))
            found = frozenset(term for term in perhaps if means(self._selector_of(term)))
            remember(self._meaning, identity, found)
        return found

    def rows(self, term: Term) -> Mapping[int, int]:
        """Return how many pods of which rows have a term, as often as each has it."""
        return self._rows.get(term, {})


def remember(known: dict[Identity, T], identity: Identity, found: T) -> None:
    """Remember an answer for pods with these labels, if these are not very many."""
    if len(known) >= MOST_REMEMBERED:
        known.clear()
    if len(identity[1]) <= MOST_LABELS:
        known[identity] = found


def by_namespace_labels(selector: facts.PodSelector) -> bool:
    """Whether a selector may be about namespaces that it does not name."""
    return selector.namespace_selector is not None


def _namespaces_about(selector: facts.PodSelector) -> tuple[str, ...]:
    """Return the namespaces that a selector names; "" where it may be about any."""
    return ("",) if by_namespace_labels(selector) else tuple(dict.fromkeys(selector.namespaces))
