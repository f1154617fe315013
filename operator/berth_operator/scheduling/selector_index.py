"""Which of many selectors select a pod, without a look at each of them.

There may be a thousand, with 16 expressions each, and a pod whose labels change has to find those that select
it. So each selector has a number, and a set of them is the bits of one number: each label leads to those
that it rules out, and to those of which it meets an expression. What a pod costs is then a matter of its own
labels.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from berth_operator.scheduling.nodes import affinity, facts

T = TypeVar("T", bound=Hashable)
Numbers = int  # A bit for each number.
Label = tuple[str, str | None]  # A key with a value; None for any.

# Selectors that are new or gone, and namespaces, until it is forgotten which selectors are about which.
MOST_CHANGES: Final = 1 << 14
MOST_NAMESPACES: Final = 4096


class Condition(NamedTuple):
    """An expression: the labels of which a pod must have one, or else none."""

    labels: tuple[Label, ...]
    is_refusing: bool = False


NEVER: Final = Condition(())
COMPARING: Final = frozenset({"Gt", "Lt"})  # An API server lets selectors of pods have neither.


def _conditions(expressions: facts.Expressions | None) -> list[Condition]:
    """Return the different conditions of a selector; None selects no pod."""
    return list(dict.fromkeys(map(_condition, expressions))) if expressions is not None else [NEVER]


def _condition(one: facts.LabelExpression) -> Condition:
    match one.operator:
        case "In":
            return Condition(tuple((one.key, value) for value in one.values))
        case "NotIn" if one.values:
            return Condition(tuple((one.key, value) for value in one.values), is_refusing=True)
        case "Exists":
            return Condition(((one.key, None),))
        case "DoesNotExist":
            return Condition(((one.key, None),), is_refusing=True)
        case _:
            return NEVER


class _Selectors:
    """Selectors by number: which of them labels meet."""

    def __init__(self) -> None:
        self._all: Numbers = 0
        self._ruled_out: dict[Label, Numbers] = {}
        # The conditions that need a label stand in the order of their selector: by label and by place, the
        # numbers of those that are met; and by place, the numbers of those that are to be met.
        self._met: dict[Label, dict[int, Numbers]] = {}
        self._to_be_met: list[Numbers] = []
        self._comparing: dict[int, facts.Expressions] = {}  # With operators that are asked one by one.

    def change(self, number: int, expressions: facts.Expressions | None) -> None:
        """Add a selector, or remove it, given the very same expressions."""
        bit = 1 << number
        if expressions is not None and any(one.operator in COMPARING for one in expressions):
            if self._comparing.pop(number, None) is None:
                self._comparing[number] = expressions
            return
        self._all ^= bit
        conditions = _conditions(expressions)
        for label in {label for one in conditions if one.is_refusing for label in one.labels}:
            _toggle(self._ruled_out, label, bit)
        for place, one in enumerate(one for one in conditions if not one.is_refusing):
            self._change_to_be_met(place, bit)
            for label in set(one.labels):
                met = self._met.setdefault(label, {})
                _toggle(met, place, bit)
                if not met:
                    del self._met[label]

    def _change_to_be_met(self, place: int, bit: Numbers) -> None:
        if place == len(self._to_be_met):
            self._to_be_met.append(0)
        self._to_be_met[place] ^= bit

    def meeting(self, labels: Mapping[str, str]) -> Numbers:
        """Return which selectors labels meet."""
        found, met = self._all, dict[int, Numbers]()
        for label in _labels(labels):
            found &= ~self._ruled_out.get(label, 0)
            for place, numbers in self._met.get(label, {}).items():
                met[place] = met.get(place, 0) | numbers
        for place, numbers in enumerate(self._to_be_met):
            if not found & numbers:
                break  # Nor has any of them a condition at a later place.
            found &= ~numbers | met.get(place, 0)
        for number, expressions in self._comparing.items():
            if all(affinity.holds(one, labels) for one in expressions):
                found |= 1 << number
        return found


def _labels(labels: Mapping[str, str]) -> Iterator[Label]:
    for key, value in labels.items():
        yield key, None
        yield key, value


K = TypeVar("K", bound=Hashable)


def _toggle(numbers: dict[K, Numbers], key: K, bit: Numbers) -> None:
    """Change whether a number is among those of a key, and keep no key without any."""
    if found := numbers.get(key, 0) ^ bit:
        numbers[key] = found
    else:
        del numbers[key]


class _About(NamedTuple):
    """Which selectors are about the pods of a namespace, as of so many changes."""

    numbers: Numbers
    changes: int


class SelectorIndex(Generic[T]):
    """Things that select pods, by the expressions that labels must meet and the namespaces that count."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}
        self._things: list[T | None] = []  # By number.
        self._unused: list[int] = []
        self._selectors = _Selectors()
        self._about: dict[str, _About] = {}  # By namespace.
        self._changed: list[int] = []  # The numbers of what is new or gone, one after another.

    def __len__(self) -> int:
        """Count the things."""
        return len(self._numbers)

    def add(self, thing: T, expressions: facts.Expressions | None) -> None:
        """Add a thing that selects the pods whose labels meet all expressions; None is met by none."""
        if self._unused:
            number = self._unused.pop()
            self._things[number] = thing
        else:
            number = len(self._things)
            self._things.append(thing)
        self._numbers[thing] = number
        self._change(number, expressions)

    def remove(self, thing: T, expressions: facts.Expressions | None) -> None:
        """Remove a thing, given the expressions with which it was added."""
        number = self._numbers.pop(thing)
        self._things[number] = None
        self._unused.append(number)
        self._change(number, expressions)

    def _change(self, number: int, expressions: facts.Expressions | None) -> None:
        self._selectors.change(number, expressions)
        if len(self._changed) >= MOST_CHANGES:
            self.forget_namespaces()
        if self._about:
            self._changed.append(number)

    def forget_namespaces(self) -> None:
        """Forget what is about the pods of which namespaces, because that may have changed."""
        self._about.clear()
        self._changed.clear()

    def selecting(
        self, namespace: str, labels: Mapping[str, str], is_about: Callable[[T], bool]
    ) -> tuple[T, ...]:
        """Return what selects a pod; `is_about` tells whether a thing selects any of the namespace."""
        found = self._selectors.meeting(labels)
        if found:
            found &= self._numbers_about(namespace, is_about)
        return tuple(thing for number in _bits(found) if (thing := self._things[number]) is not None)

    def _numbers_about(self, namespace: str, is_about: Callable[[T], bool]) -> Numbers:
        """Return what is about a namespace; only what has changed since the last time is asked."""
        if (known := self._about.get(namespace)) is None:
            known, changed = _About(0, 0), set(self._numbers.values())
        else:
            changed = set(self._changed[known.changes :])
        if len(self._about) >= MOST_NAMESPACES:
            self.forget_namespaces()
        numbers = known.numbers
        for number in changed:
            thing = self._things[number]
            numbers &= ~(1 << number)
            if thing is not None and is_about(thing):
                numbers |= 1 << number
        self._about[namespace] = _About(numbers, len(self._changed))
        return numbers


def _bits(numbers: Numbers) -> Iterator[int]:
    """Yield the numbers of a set."""
    digits = f"{numbers:b}"[::-1]
    at = digits.find("1")
    while at >= 0:
        yield at
        at = digits.find("1", at + 1)
