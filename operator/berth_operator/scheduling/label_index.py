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
# Keys for which it is kept which groups have them, and how much memory that may take.
MOST_KEYS_ASKED: Final = 1024
MOST_KEYS_ASKED_BYTES: Final = 32 << 20


class LabelIndex:
    """The pods, one after another in any order, with their groups and rows."""

    __slots__ = (
        "_by_key",
        "_group_of",
        "_groups_with",
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
        # A key may be of one value and one group alone: then it leads to these, which take little memory.
        self._by_key: dict[str, tuple[str, int] | _ByValue] = {}
        # Which groups have a label with any value, by its key: of keys that were asked for. There is room for
        # groups to come.
        self._groups_with: dict[str, Mask] = {}

    def __repr__(self) -> str:
        """Return the state in words."""
        groups = sum(len(one.groups) for one in self._namespaces.values())
        labels = sum(len(self._values_of(key)) for key in self._by_key)
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
            if (known := self._by_key.get(key)) is None:
                self._by_key[key] = value, group
                continue
            if isinstance(known, tuple):
                known = self._by_key[key] = _ByValue(known)
            known.add(value, group)
        self._note_keys(group, labels, has_them=True)
        return group

    def _values_of(self, key: str) -> "_ByValue":
        """Return the values of a key, to look at."""
        known = self._by_key.get(key, NO_VALUES)
        return _ByValue(known) if isinstance(known, tuple) else known

    def _note_keys(self, group: int, labels: facts.Labels, *, has_them: bool) -> None:
        for key, _ in labels if self._groups_with else ():
            if (mask := self._groups_with.get(key)) is not None:
                if group < len(mask):
                    mask[group] = has_them
                else:
                    del self._groups_with[key]

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
            known = self._by_key[key]
            if isinstance(known, _ByValue):
                known.remove(value, group)
            if isinstance(known, tuple) or not known:
                del self._by_key[key]
        self._note_keys(group, labels, has_them=False)

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
            by_value = self._values_of(one.key)
            match one.operator:
                case "In":
                    found &= self._any_of(map(by_value.of, one.values))
                case "Exists":
                    found &= self._with_key(one.key)
                case "NotIn" if one.values:
                    for value in one.values:
                        found[by_value.of(value)] = False
                case "DoesNotExist":
                    found &= ~self._with_key(one.key)
                case _:  # No pod meets an operator that is not known, nor `NotIn` without values.
                    found[:] = False
        return found

    def _with_key(self, key: str) -> Mask:
        """Return which groups have a label with a key, whatever its value."""
        size = len(self._namespace_of)
        mask = self._groups_with.get(key)
        if mask is None or len(mask) < size:
            room = size + size // 2 + 1
            if len(self._groups_with) >= min(MOST_KEYS_ASKED, MOST_KEYS_ASKED_BYTES // room):
                self._groups_with.clear()
            mask = self._groups_with[key] = np.zeros(room, dtype=np.bool_)
            mask[self._values_of(key).all_groups()] = True
        return mask[:size]

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
    """The groups that have a label, by its value: most values have one group, and need no set.

    A value that was asked for has its groups as an array, too, until one comes or goes.
    """

    __slots__ = ("_alone", "_arrays", "_together")

    def __init__(self, *known: tuple[str, int]) -> None:
        self._alone: dict[str, int] = dict(known)  # The groups of values that have one.
        self._together: dict[str, set[int]] = {}
        self._arrays: dict[str, Groups] = {}

    def __len__(self) -> int:
        return len(self._alone) + len(self._together)

    def add(self, value: str, group: int) -> None:
        if (groups := self._together.get(value)) is not None:
            self._arrays.pop(value, None)
            groups.add(group)
        elif (other := self._alone.pop(value, None)) is not None:
            self._together[value] = {other, group}
        else:
            self._alone[value] = group

    def remove(self, value: str, group: int) -> None:
        if (groups := self._together.get(value)) is None:
            del self._alone[value]
            return
        self._arrays.pop(value, None)
        groups.remove(group)
        if len(groups) == 1:
            del self._together[value]
            self._alone[value] = groups.pop()

    def of(self, value: str) -> int | Groups:
        """Return the groups with a value."""
        if (groups := self._together.get(value)) is None:
            return self._alone.get(value, NO_GROUPS)
        if (found := self._arrays.get(value)) is None:
            found = self._arrays[value] = np.fromiter(groups, np.int32, len(groups))
        return found

    def all_groups(self) -> Groups:
        """Return the groups with any value."""
        each = itertools.chain(self._alone.values(), *self._together.values())
        return np.fromiter(each, np.int32)


NO_VALUES: Final = _ByValue()
