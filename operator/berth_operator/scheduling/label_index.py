"""The pods on nodes (`Hold`) by their namespaces and labels, and how many on each node a selector selects.

A pod may bring 64 selectors, and there may be tens of thousands of pods whose labels all differ: to look at
each pod for each selector, or only at each that is selected, would take a second. So pods with equal labels
in one namespace form a group, a group has a number, and each namespace and each label leads to the numbers
of the groups that have it. Which groups a selector selects is then found with a few operations on
arrays, and so is how many pods of these groups are on which rows.
"""

import array
import itertools
from collections.abc import Collection, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from berth_operator.scheduling import node_table
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.nodes import facts

Mask = npt.NDArray[np.bool_]
Groups = npt.NDArray[np.int32]

NUMBER: Final = "i"  # Of a group, or of a row.
FLAG: Final = "b"
NO_GROUPS: Final[Groups] = np.empty(0, dtype=np.int32)


class LabelIndex:
    """The pods, one after another in any order, with their groups and rows."""

    __slots__ = (
        "_by_key",
        "_group_of",
        "_is_leaving",
        "_namespace_of",
        "_namespaces",
        "_places",
        "_row_of",
        "_sizes",
        "_uids",
        "_unused",
        "_unused_namespaces",
    )

    def __init__(self) -> None:
        self._uids: list[str] = []
        self._group_of = array.array(NUMBER)
        self._row_of = array.array(NUMBER)
        self._is_leaving = array.array(FLAG)
        self._places: dict[str, int] = {}  # Where a pod stands in these four, by its uid.
        self._sizes = array.array(NUMBER)  # How many pods each group has, by its number.
        self._namespace_of = array.array(NUMBER)  # The number of its namespace.
        self._unused = array.array(NUMBER)  # Numbers of groups that are gone, for those to come.
        self._namespaces: dict[str, _Namespace] = {}
        self._unused_namespaces = array.array(NUMBER)
        self._by_key: dict[str, _ByValue] = {}

    def __repr__(self) -> str:
        """Return the state in words."""
        groups = sum(len(one.groups) for one in self._namespaces.values())
        labels = sum(map(len, self._by_key.values()))
        return f"<LabelIndex: {groups} groups, {labels} labels, {len(self._by_key)} keys>"

    @property
    def namespaces(self) -> Collection[str]:
        """The namespaces that have pods."""
        return self._namespaces.keys()

    def add(self, hold: Hold, row: int) -> None:
        """Add a pod on the node of a row."""
        name, labels = hold.namespace, hold.labels
        if (namespace := self._namespaces.get(name)) is None:
            unused = self._unused_namespaces
            number = unused.pop() if unused else len(self._namespaces)
            namespace = self._namespaces[name] = _Namespace(number)
        if (group := namespace.groups.get(labels)) is None:
            group = namespace.groups[labels] = self._add_group(namespace.number, labels)
        self._sizes[group] += 1
        self._places[hold.uid] = len(self._uids)
        self._uids.append(hold.uid)
        self._group_of.append(group)
        self._row_of.append(row)
        self._is_leaving.append(hold.leaving)

    def _add_group(self, namespace: int, labels: facts.Labels) -> int:
        if self._unused:
            group = self._unused.pop()
            self._namespace_of[group] = namespace
        else:
            group = len(self._sizes)
            self._sizes.append(0)
            self._namespace_of.append(namespace)
        for key, value in labels:
            if (by_value := self._by_key.get(key)) is None:
                by_value = self._by_key[key] = _ByValue()
            by_value.add(value, group)
        return group

    def remove(self, hold: Hold) -> None:
        """Remove a pod; the last one takes its place."""
        place, last = self._places.pop(hold.uid), self._uids.pop()
        group = self._group_of[place]
        for column in (self._group_of, self._row_of, self._is_leaving):
            moved = column.pop()
            if last != hold.uid:
                column[place] = moved
        if last != hold.uid:
            self._uids[place], self._places[last] = last, place
        self._sizes[group] -= 1
        if not self._sizes[group]:
            self._remove_group(group, hold.namespace, hold.labels)

    def _remove_group(self, group: int, name: str, labels: facts.Labels) -> None:
        namespace = self._namespaces[name]
        del namespace.groups[labels]
        if not namespace.groups:
            del self._namespaces[name]
            self._unused_namespaces.append(namespace.number)
        self._unused.append(group)
        for key, value in labels:
            self._by_key[key].remove(value, group)
            if not self._by_key[key]:
                del self._by_key[key]

    def counts(
        self,
        namespaces: Iterable[str] | None,
        expressions: facts.Expressions,
        size: int,
        *,
        exclude_leaving: bool = False,
    ) -> node_table.Counts:
        """Return how many pods each of so many rows has whose labels meet all expressions.

        They are those of some namespaces; None stands for all. Those that are being deleted may not count.
        """
        selected = self._meeting(namespaces, expressions)[np.asarray(self._group_of)]
        if exclude_leaving:
            selected &= np.asarray(self._is_leaving) == 0
        return np.bincount(np.asarray(self._row_of)[selected], minlength=size).astype(np.int32)

    def _meeting(self, namespaces: Iterable[str] | None, expressions: facts.Expressions) -> Mask:
        """Return which groups are in any of the namespaces, with labels that meet all expressions."""
        found = np.ones(len(self._namespace_of), dtype=np.bool_)
        if namespaces is not None:
            found &= self._any_namespace(namespaces)[np.asarray(self._namespace_of)]
        for one in expressions:
            by_value = self._by_key.get(one.key, NO_VALUES)
            match one.operator:
                case "In":
                    found &= self._any_of(map(by_value.of, one.values))
                case "Exists":
                    found &= self._any_of((by_value.all_groups,))
                case "NotIn" if one.values:
                    for value in one.values:
                        found[by_value.of(value)] = False
                case "DoesNotExist":
                    found[by_value.all_groups] = False
                case _:  # No pod meets an operator that is not known, nor `NotIn` without values.
                    found[:] = False
        return found

    def _any_namespace(self, names: Iterable[str]) -> Mask:
        """Return by number which namespaces have any of these names."""
        found = np.zeros(len(self._namespaces) + len(self._unused_namespaces), dtype=np.bool_)
        found[[self._namespaces[one].number for one in names if one in self._namespaces]] = True
        return found

    def _any_of(self, groups: Iterable[int | Groups]) -> Mask:
        """Return which groups are any of these."""
        found = np.zeros(len(self._namespace_of), dtype=np.bool_)
        for some in groups:
            found[some] = True
        return found


class _Namespace:
    """The groups of a namespace by their labels, and the number of the namespace itself."""

    __slots__ = ("groups", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.groups: dict[facts.Labels, int] = {}


class _ByValue:
    """The groups that have a label, by its value. One that is alone is kept bare: most values have one.

    What was asked for is kept as an array, too, until a group comes or goes.
    """

    __slots__ = ("_all_groups", "_arrays", "_found")

    def __init__(self) -> None:
        self._found: dict[str, int | set[int]] = {}
        self._arrays: dict[str, Groups] = {}
        self._all_groups: Groups | None = None

    def __len__(self) -> int:
        return len(self._found)

    def add(self, value: str, number: int) -> None:
        self._changed(value)
        found = self._found.get(value)
        if found is None:
            self._found[value] = number
        elif isinstance(found, set):
            found.add(number)
        else:
            self._found[value] = {found, number}

    def remove(self, value: str, number: int) -> None:
        self._changed(value)
        found = self._found[value]
        if isinstance(found, set):
            found.remove(number)
        if not isinstance(found, set) or not found:
            del self._found[value]

    def _changed(self, value: str) -> None:
        self._all_groups = None
        if self._arrays:
            self._arrays.pop(value, None)

    def of(self, value: str) -> int | Groups:
        """Return the groups with a value."""
        found = self._found.get(value)
        if not isinstance(found, set):
            return NO_GROUPS if found is None else found
        if value not in self._arrays:
            self._arrays[value] = np.fromiter(found, np.int32, len(found))
        return self._arrays[value]

    @property
    def all_groups(self) -> Groups:
        """The groups with any value."""
        if self._all_groups is None:
            each = (one if isinstance(one, set) else (one,) for one in self._found.values())
            self._all_groups = np.fromiter(itertools.chain.from_iterable(each), np.int32)
        return self._all_groups


NO_VALUES: Final = _ByValue()
