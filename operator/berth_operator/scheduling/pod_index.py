"""Which pods are on which nodes, by namespace and labels: what spread and pod affinity are counted from.

Pods are sorted by their labels as they come, for to sort all when somebody asks would take too long; but none
is counted before. A selector that was asked for keeps its counts by row, and each pod that comes, goes or
changes its labels is added to the counts of the selectors that select it. Which these are is remembered by
labels, for the pods of one workload have the same. The least recently asked selectors are forgotten. What a
pod with very many selectors asks for is counted anew after each change of pods: kept, a few such pods would
drive out the counts of all others.

What pods on nodes say of others is kept by distinct term (`pod_terms`): their required anti-affinity keeps
others away, whether these ask for anything or not, and their weighted terms count where others choose.
"""

import collections
import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from berth_operator.scheduling import (
    controller_index,
    label_index,
    label_memory,
    node_table,
    pod_terms,
    selector_index,
    terms_by_row,
)
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.nodes import affinity, facts, labels

# Keys whose counts are remembered, how much all their selectors may name (each pod with new labels is
# compared with all of them), and how much memory the counts may take.
MOST_COUNTERS: Final = 1024
MOST_NAMED: Final = 1 << 14
MOST_COUNTERS_BYTES: Final = 32 << 20
BYTES_PER_ROW: Final = 4
MOST_COUNTED_ONCE: Final = 128  # Keys whose counts are remembered until pods change.
MOST_ROWS_WITH: Final = 16  # Sets of terms whose rows are remembered.
# Every namespace has it, by the API server; the other labels are known once the Namespace has been read.
NAME_LABEL: Final = "kubernetes.io/metadata.name"

LabelTest = Callable[[Mapping[str, str]], bool]


class CounterKey(NamedTuple):
    """Pods that all of these selectors select; with `exclude_terminating` none that is being deleted."""

    selectors: tuple[facts.PodSelector, ...]
    exclude_terminating: bool = False

    @property
    def expressions(self) -> facts.Expressions | None:
        """The expressions of all selectors, or None if one of them selects no pod."""
        if any(one.expressions is None for one in self.selectors):
            return None
        return tuple(itertools.chain.from_iterable(one.expressions or () for one in self.selectors))


class Counter:
    """How many pods of each row a key selects; `size` is how much its selectors name."""

    __slots__ = ("counts", "key", "size")

    def __init__(self, key: CounterKey, counts: node_table.Counts) -> None:
        self.key = key
        self.size = sum(one.size for one in key.selectors)
        self.counts = counts

    def add(self, row: int, sign: int) -> None:
        """Count a pod of a row, or with -1 no more."""
        if row >= len(self.counts):
            self.grow(row + 1)
        self.counts[row] += sign

    def grow(self, size: int) -> None:
        """Make room for so many rows, and some more."""
        grown = np.zeros(size + size // 2, dtype=np.int32)
        grown[: len(self.counts)] = self.counts
        self.counts = grown


def label_matcher(expressions: facts.Expressions | None) -> LabelTest:
    """Return the function that tells whether labels meet all expressions; None is met by none."""
    if expressions is None:
        return lambda _: False
    if len(expressions) == 1 and expressions[0].operator == "In" and len(expressions[0].values) == 1:
        key, value = expressions[0].key, expressions[0].values[0]
        return lambda labels: labels.get(key) == value
    return lambda labels: all(affinity.holds(one, labels) for one in expressions)


class PodIndex:
    """The pods on nodes; `rows` are the rows of the nodes by name, and `holds` returns all pods.

    `node_labels` returns the labels of all nodes.
    """

    def __init__(
        self,
        rows: Mapping[str, int],
        holds: Callable[[], Iterable[Hold]],
        node_labels: Callable[[], labels.Labels],
    ) -> None:
        self._rows = rows
        self._node_labels = node_labels
        self._pods = label_index.LabelIndex()
        self._namespaces: dict[str, Mapping[str, str]] = {}  # Their labels.
        # By namespace, how many pods of each row there are whose labels are not known.
        self._unlabelled: dict[str, collections.Counter[int]] = {}
        # The least recently asked first. An ordered dict would hash each key when it is gone through.
        self._counters: dict[CounterKey, Counter] = {}
        self._selecting = selector_index.SelectorIndex[Counter]()
        self._selectors_size = 0  # Of all counters.
        self._counted_once: dict[CounterKey, node_table.Counts] = {}  # As pods are now.
        self._forgotten = False  # Whether any key was ever asked for whose counter is not kept.
        self._counters_by_labels = label_memory.LabelMemory[tuple[Counter, ...]](len)
        # Beyond the limit of a namespace, a term that keeps pods away becomes one about all pods, and one
        # that has only a weight is left out.
        self._repelling = pod_terms.TermIndex[facts.PodTerm](
            lambda term: term, beyond_limit=pod_terms.all_of_namespaces
        )
        self._rows_with: dict[frozenset[facts.PodTerm], dict[str, set[int]]] = {}  # Of those that repel.
        self._weighted = pod_terms.TermIndex[facts.WeightedPodTerm](
            lambda one: one.term, beyond_limit=lambda *_: None
        )
        self._kept_away = terms_by_row.of_repelling(self._repelling)
        self._weights_near = terms_by_row.of_weighted(self._weighted)
        self.by_controller = controller_index.ControllerIndex(
            lambda: ((one, rows[one.node]) for one in holds())
        )
        self.say_nothing = True  # Whether no pod on a node requires or prefers anything of pods to come.

    def __repr__(self) -> str:
        """Return the state in words."""
        return f"<PodIndex: {len(self._counters)} counted selectors, {len(self._repelling)} terms>"

    # ------------------------------------------------------------ pods

    def add(self, hold: Hold) -> None:
        """Add a pod that is on a node."""
        self._counted_once.clear()
        self._pods.add(hold, self._rows[hold.node])
        self.by_controller.count(hold, self._rows[hold.node], 1)
        if self._counters or hold.anti_affinity or hold.weighted_terms or not hold.labels_known:
            self._count(hold, 1)

    def remove(self, hold: Hold) -> None:
        """Remove a pod."""
        self._counted_once.clear()
        self._pods.remove(hold)
        self.by_controller.count(hold, self._rows[hold.node], -1)
        if self._counters or hold.anti_affinity or hold.weighted_terms or not hold.labels_known:
            self._count(hold, -1)

    @contextlib.contextmanager
    def without(self, holds: Sequence[Hold]) -> Iterator[None]:
        """Answer for a while as if these pods were not there."""
        for hold in holds:
            self.remove(hold)
        try:
            yield
        finally:
            for hold in holds:
                self.add(hold)

    def replace(self, before: Hold, hold: Hold) -> bool:
        """Replace a pod on the same node; return whether it is another one to those who look at it."""
        if seen_by_others(before) == seen_by_others(hold):
            return False
        self.remove(before)
        self.add(hold)
        return True

    def _count(self, hold: Hold, sign: int) -> None:
        row = self._rows[hold.node]
        if self._counters:
            for counter in self._counters_for(hold):
                if not (counter.key.exclude_terminating and hold.leaving):
                    counter.add(row, sign)
        if not hold.labels_known:
            self._count_unlabelled(hold.namespace, row, sign)
        if hold.anti_affinity:
            self._rows_with.clear()
            self._kept_away.clear()
        if hold.weighted_terms:
            self._weights_near.clear()
        self._repelling.count(hold.uid, hold.namespace, hold.anti_affinity, row, sign)
        self._weighted.count(hold.uid, hold.namespace, hold.weighted_terms, row, sign)
        self.say_nothing = not (self._repelling or self._weighted)

    def _count_unlabelled(self, namespace: str, row: int, sign: int) -> None:
        rows = self._unlabelled.setdefault(namespace, collections.Counter())
        rows[row] += sign
        if not rows[row]:
            del rows[row]
        if not rows:
            del self._unlabelled[namespace]

    # ------------------------------------------------------------ namespaces

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Record the labels of a namespace, or None if it is gone; return whether that changes anything."""
        before = self.labels_of_namespace(name)
        if labels is None:
            self._namespaces.pop(name, None)
        else:
            self._namespaces[name] = {NAME_LABEL: name, **labels}
        if before == self.labels_of_namespace(name):
            return False
        for key in [
            key for key in self._counters if any(pod_terms.by_namespace_labels(one) for one in key.selectors)
        ]:
            self._drop_counter(key)
        self._selecting.forget_namespaces()
        self._counters_by_labels.clear()
        self._counted_once.clear()
        self._repelling.forget_answers()
        self._weighted.forget_answers()
        return True

    def labels_of_namespace(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace; of one that is not known the one that each has."""
        return self._namespaces.get(name) or {NAME_LABEL: name}

    def includes(self, selector: facts.PodSelector, namespace: str) -> bool:
        """Whether a selector is about the pods of a namespace."""
        if namespace in selector.namespaces:
            return True
        if not selector.namespace_selector:
            return selector.namespace_selector is not None  # An empty one means all namespaces, None no more.
        return label_matcher(selector.namespace_selector)(self.labels_of_namespace(namespace))

    def selects(self, selector: facts.PodSelector, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a selector selects a pod."""
        return self.includes(selector, namespace) and label_matcher(selector.expressions)(labels)

    # ------------------------------------------------------------ counts

    def counts(self, key: CounterKey, size: int, *, keep: bool = True) -> node_table.Counts:
        """Return how many pods a key selects on each of so many rows, and perhaps go on counting."""
        if not keep:
            return self._count_once(key, size)
        if (counter := self._counters.pop(key, None)) is not None:
            self._counters[key] = counter
        else:
            counter = self._add_counter(key, size)
        if len(counter.counts) < size:
            counter.grow(size)
        return counter.counts[:size]

    def _count_once(self, key: CounterKey, size: int) -> node_table.Counts:
        counts = self._counted_once.get(key)
        if counts is None or len(counts) < size:
            self._forgotten = True
            if len(self._counted_once) >= MOST_COUNTED_ONCE:
                self._counted_once.clear()
            counts = self._counted_once[key] = self._counts_now(key, size)
        return counts[:size]

    def _counts_now(self, key: CounterKey, size: int) -> node_table.Counts:
        if (expressions := key.expressions) is None:
            return np.zeros(size, dtype=np.int32)
        return self._pods.counts(
            self._namespaces_of(key), expressions, size, exclude_leaving=key.exclude_terminating
        )

    def _add_counter(self, key: CounterKey, size: int) -> Counter:
        counter = self._counters[key] = Counter(key, self._counts_now(key, size))
        self._selecting.add(counter, key.expressions)
        self._selectors_size += counter.size
        self._counters_by_labels.clear()
        most = min(MOST_COUNTERS, MOST_COUNTERS_BYTES // (BYTES_PER_ROW * max(1, size)))
        while len(self._counters) > 1 and (len(self._counters) > most or self._selectors_size > MOST_NAMED):
            self._drop_counter(next(iter(self._counters)))
            self._forgotten = True
        return counter

    def _drop_counter(self, key: CounterKey) -> None:
        counter = self._counters.pop(key)
        self._selecting.remove(counter, key.expressions)
        self._selectors_size -= counter.size

    def _namespaces_of(self, key: CounterKey) -> Iterable[str] | None:
        """Return the namespaces that all selectors of a key are about; None for all there are."""
        limited = [one for one in key.selectors if one.namespace_selector != ()]
        return set.intersection(*map(self._namespaces_with_pods, limited)) if limited else None

    def _namespaces_with_pods(self, selector: facts.PodSelector) -> set[str]:
        """Return the namespaces that a selector names, and those with pods that it means by their labels."""
        named = set(selector.namespaces)
        if selector.namespace_selector is not None:
            meant = label_matcher(selector.namespace_selector)
            there = self._pods.namespaces
            named.update(one for one in there if meant(self.labels_of_namespace(one)))
        return named

    def _about(self, key: CounterKey, namespace: str) -> bool:
        return all(self.includes(one, namespace) for one in key.selectors)

    def _counters_for(self, hold: Hold) -> tuple[Counter, ...]:
        """Return the counters that select a pod, should it be leaving or not."""
        identity = hold.namespace, hold.labels
        if (found := self._counters_by_labels.get(identity)) is None:
            found = self._selecting.selecting(
                hold.namespace, dict(hold.labels), lambda one: self._about(one.key, hold.namespace)
            )
            self._counters_by_labels.put(identity, found)
        return found

    def rows_with_unknown_labels(self, selector: facts.PodSelector) -> list[int]:
        """Return the rows of the pods whose labels are not known and that a selector may select."""
        among = (rows for namespace, rows in self._unlabelled.items() if self.includes(selector, namespace))
        return list(dict.fromkeys(itertools.chain.from_iterable(among)))

    def concerns(self, hold: Hold) -> bool:
        """Whether this pod's coming, going or change may matter to a waiting pod for which pods were counted.

        Once a counter was forgotten, nobody knows for which.
        """
        if self._forgotten or hold.anti_affinity or not hold.labels_known:
            return True
        return bool(self._counters and self._counters_for(hold))

    # ------------------------------------------------------------ what pods on nodes say of others

    @property
    def repels(self) -> bool:
        """Whether any pod on a node has a required anti-affinity."""
        return bool(self._repelling)

    @property
    def repelling_keys(self) -> frozenset[str]:
        """The topology keys in the required anti-affinity of pods on nodes."""
        return frozenset(term.topology_key for term in self._repelling)

    def repelling(self, namespace: str, labels: facts.Labels) -> frozenset[facts.PodTerm]:
        """Return the terms of required anti-affinity of pods on nodes that mean a pod with these labels."""
        return self._repelling.meaning(namespace, labels, self._about_namespace(namespace), self._keys())

    def weighted(self, namespace: str, labels: facts.Labels) -> frozenset[facts.WeightedPodTerm]:
        """Return the terms by which pods on nodes would rather have such a pod near, or away."""
        return self._weighted.meaning(namespace, labels, self._about_namespace(namespace), self._keys())

    def _about_namespace(self, namespace: str) -> pod_terms.IsAbout:
        """Return a function that tells whether a selector is about the pods of a namespace."""
        return lambda selector: self.includes(selector, namespace)

    def _keys(self) -> frozenset[str]:
        """Return the labels that nodes have; what is said over any other concerns no node."""
        return self._node_labels().keys()

    def rows_with(self, terms: frozenset[facts.PodTerm]) -> dict[str, set[int]]:
        """Return by topology key the rows on which pods have any of these terms of required anti-affinity.

        There may be thousands of terms, and an explanation asks several times.
        """
        if (found := self._rows_with.get(terms)) is None:
            if len(self._rows_with) >= MOST_ROWS_WITH:
                self._rows_with.clear()
            by_key = collections.defaultdict[str, list[facts.PodTerm]](list)
            for term in terms:
                by_key[term.topology_key].append(term)
            found = {key: self._repelling.rows_with_any(some) for key, some in by_key.items()}
            self._rows_with[terms] = found
        return found

    def rows_kept_away(self, terms: frozenset[facts.PodTerm], size: int) -> node_table.Mask:
        """Return which of so many rows are in a domain with a pod that has any of these terms."""
        return self._kept_away.get(terms, self._node_labels(), size)

    def weights_near(self, terms: frozenset[facts.WeightedPodTerm], size: int) -> node_table.Numbers:
        """Return for each of so many rows the weights of terms, as often as pods in its domains have them."""
        return self._weights_near.get(terms, self._node_labels(), size)


def seen_by_others(hold: Hold) -> tuple[object, ...]:
    """Return what other pods see of a pod."""
    seen = hold.labels, hold.leaving, hold.labels_known, hold.anti_affinity, hold.weighted_terms
    return *seen, hold.controller
