"""The pods on nodes (`Hold`) of one namespace by their labels, and which of them a selector selects.

A pod may bring 64 selectors, and a namespace thousands of pods whose labels all differ: to compare each pod
with each expression would take a quarter of a second. So pods with equal labels form a group, a group has a
number, and each label and each key leads to the numbers of the groups that have it. A selector is then
answered with a few operations on sets.
"""

from collections.abc import Hashable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final, Generic, TypeVar

from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.nodes import facts

Key = TypeVar("Key", bound=Hashable)

NO_NUMBERS: Final[frozenset[int]] = frozenset()


class LabelIndex:
    """The pods of one namespace."""

    __slots__ = ("_by_key", "_by_label", "_groups", "_next", "_numbers")

    def __init__(self) -> None:
        self._groups: dict[int, dict[str, Hold]] = {}  # By number, then by uid.
        self._numbers: dict[facts.Labels, int] = {}
        self._next = 0
        self._by_label = _Numbers[tuple[str, str]]()
        self._by_key = _Numbers[str]()

    def __repr__(self) -> str:
        """Return the state in words."""
        labels, keys = len(self._by_label), len(self._by_key)
        return f"<LabelIndex: {len(self._groups)} groups, {labels} labels, {keys} keys>"

    def __bool__(self) -> bool:
        """Return whether any pod is left."""
        return bool(self._groups)

    def add(self, hold: Hold) -> None:
        """Add a pod, or put it in place of the one with the same uid and the same labels."""
        if (number := self._numbers.get(hold.labels)) is None:
            number = self._numbers[hold.labels] = self._next
            self._next += 1
            self._groups[number] = {}
            for label in hold.labels:
                self._by_label.add(label, number)
                self._by_key.add(label[0], number)
        self._groups[number][hold.uid] = hold

    def remove(self, hold: Hold) -> None:
        """Remove a pod."""
        number = self._numbers[hold.labels]
        group = self._groups[number]
        del group[hold.uid]
        if not group:
            del self._groups[number], self._numbers[hold.labels]
            for label in hold.labels:
                self._by_label.remove(label, number)
                self._by_key.remove(label[0], number)

    def selected(self, expressions: facts.Expressions) -> Iterator[Hold]:
        """Yield the pods whose labels meet all expressions."""
        for number in self._meeting(expressions):
            yield from self._groups[number].values()

    def _meeting(self, expressions: facts.Expressions) -> AbstractSet[int]:
        required, excluded = list[AbstractSet[int]](), list[AbstractSet[int]]()
        for one in expressions:
            match one.operator:
                case "In":
                    required.append(self._with_any(one))
                case "Exists":
                    required.append(self._by_key.of(one.key))
                case "NotIn" if one.values:
                    excluded.append(self._with_any(one))
                case "DoesNotExist":
                    excluded.append(self._by_key.of(one.key))
                case _:  # No pod meets an operator that is not known, nor `NotIn` without values.
                    return NO_NUMBERS
        found: AbstractSet[int] = self._groups.keys()
        if required:
            first, *others = sorted(required, key=len)
            found = set(first).intersection(*others)
        return set(found).difference(*excluded) if excluded else found

    def _with_any(self, expression: facts.LabelExpression) -> AbstractSet[int]:
        """Return the groups that have one of the values of an expression."""
        found = [self._by_label.of((expression.key, value)) for value in expression.values]
        return found[0] if len(found) == 1 else NO_NUMBERS.union(*found)


class _Numbers(Generic[Key]):
    """Sets of numbers by key. A number that is alone is kept bare: most labels belong to one group."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[Key, int | set[int]] = {}

    def __len__(self) -> int:
        return len(self._found)

    def add(self, key: Key, number: int) -> None:
        found = self._found.get(key)
        if found is None:
            self._found[key] = number
        elif isinstance(found, set):
            found.add(number)
        else:
            self._found[key] = {found, number}

    def remove(self, key: Key, number: int) -> None:
        found = self._found[key]
        if isinstance(found, set):
            found.remove(number)
        if not isinstance(found, set) or not found:
            del self._found[key]

    def of(self, key: Key) -> AbstractSet[int]:
        found = self._found.get(key, NO_NUMBERS)
        return {found} if isinstance(found, int) else found
