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
        "_groups",
        "_leaving",
        "_numbers",
        "_of_namespaces",
        "_places",
        "_rows",
        "_sizes",
        "_uids",
        "_unused",
    )

    def __init__(self) -> None:
        self._uids: list[str] = []
        self._groups = array.array(NUMBER)
        self._rows = array.array(NUMBER)
        self._leaving = array.array(FLAG)
        self._places: dict[str, int] = {}  # Where a pod stands in these four, by its uid.
        self._numbers: dict[str, dict[facts.Labels, int]] = {}  # Of the groups, by namespace.
        self._sizes = array.array(NUMBER)  # How many pods each group has, by its number.
        self._unused = array.array(NUMBER)  # Numbers of groups that are gone, for those to come.
        self._by_key: dict[str, _ByValue] = {}
        self._of_namespaces: dict[str, Groups] = {}  # Those that were asked for, until one changes.

    def __repr__(self) -> str:
        """Return the state in words."""
        groups, labels = (sum(map(len, some.values())) for some in (self._numbers, self._by_key))
        return f"<LabelIndex: {groups} groups, {labels} labels, {len(self._by_key)} keys>"

    @property
    def namespaces(self) -> Collection[str]:
        """The namespaces that have pods."""
        return self._numbers.keys()

    def add(self, hold: Hold, row: int) -> None:
        """Add a pod on the node of a row."""
        namespace, labels = hold.namespace, hold.labels
        if (numbers := self._numbers.get(namespace)) is None:
            numbers = self._numbers[namespace] = {}
        if (number := numbers.get(labels)) is None:
            number = numbers[labels] = self._new_group(namespace, labels)
        self._sizes[number] += 1
        self._places[hold.uid] = len(self._uids)
        self._uids.append(hold.uid)
        self._groups.append(number)
        self._rows.append(row)
        self._leaving.append(hold.leaving)

    def _new_group(self, namespace: str, labels: facts.Labels) -> int:
        if self._unused:
            number = self._unused.pop()
        else:
            number = len(self._sizes)
            self._sizes.append(0)
        self._of_namespaces.pop(namespace, None)
        for key, value in labels:
            if (by_value := self._by_key.get(key)) is None:
                by_value = self._by_key[key] = _ByValue()
            by_value.add(value, number)
        return number

    def remove(self, hold: Hold) -> None:
        """Remove a pod; the last one takes its place."""
        place, last = self._places.pop(hold.uid), self._uids.pop()
        number = self._groups[place]
        for column in (self._groups, self._rows, self._leaving):
            moved = column.pop()
            if last != hold.uid:
                column[place] = moved
        if last != hold.uid:
            self._uids[place], self._places[last] = last, place
        self._sizes[number] -= 1
        if not self._sizes[number]:
            self._drop_group(number, hold.namespace, hold.labels)

    def _drop_group(self, number: int, namespace: str, labels: facts.Labels) -> None:
        del self._numbers[namespace][labels]
        if not self._numbers[namespace]:
            del self._numbers[namespace]
        self._of_namespaces.pop(namespace, None)
        self._unused.append(number)
        for key, value in labels:
            self._by_key[key].remove(value, number)
            if not self._by_key[key]:
                del self._by_key[key]

    def counts(
        self,
        namespaces: Iterable[str] | None,
        expressions: facts.Expressions,
        size: int,
        *,
        exclude_leaving: bool = False,
    ) -> node_table.Numbers:
        """Return how many pods each of so many rows has whose labels meet all expressions.

        They are those of some namespaces; None stands for all. Those that are being deleted may not count.
        """
        selected = self._meeting(namespaces, expressions)[np.asarray(self._groups)]
        if exclude_leaving:
            selected &= np.asarray(self._leaving) == 0
        found: node_table.Numbers = np.bincount(np.asarray(self._rows)[selected], minlength=size)
        return found

    def _meeting(self, namespaces: Iterable[str] | None, expressions: facts.Expressions) -> Mask:
        """Return which groups are in any of the namespaces, with labels that meet all expressions."""
        found = np.ones(len(self._sizes), dtype=np.bool_)
        if namespaces is not None:
            found &= self._any_of(map(self._in_namespace, namespaces))
        for one in expressions:
            by_value = self._by_key.get(one.key, NO_VALUES)
            match one.operator:
                case "In":
                    found &= self._any_of(map(by_value.of, one.values))
                case "Exists":
                    found &= self._any_of((by_value.all_groups,))
                case "NotIn" if one.values:
                    found &= ~self._any_of(map(by_value.of, one.values))
                case "DoesNotExist":
                    found &= ~self._any_of((by_value.all_groups,))
                case _:  # No pod meets an operator that is not known, nor `NotIn` without values.
                    found[:] = False
        return found

    def _in_namespace(self, namespace: str) -> Groups:
        if (numbers := self._numbers.get(namespace)) is None:
            return NO_GROUPS  # And nothing is kept: pods may name any.
        if (found := self._of_namespaces.get(namespace)) is None:
            found = self._of_namespaces[namespace] = np.fromiter(numbers.values(), np.int32, len(numbers))
        return found

    def _any_of(self, groups: Iterable[int | Groups]) -> Mask:
        """Return which groups are any of these."""
        found = np.zeros(len(self._sizes), dtype=np.bool_)
        for some in groups:
            found[some] = True
        return found


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
