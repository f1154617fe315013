"""What a pod asks of the devices, container by container: plain values.

`translate` reads them from resource names and annotations, its own and those of other
projects; from there on there is only one spelling. Quantities are whole percents and
bytes *of each card*; what was asked for several cards together is divided already.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from berth_crds.vocabulary import DeviceType, PartitionChoice, Scope, Strategy
from berth_operator.scheduling import container_peaks
from berth_operator.scheduling.nodes import facts

WHOLE: Final = 100
# Rounding up takes less than a byte for each percent at most; a millionth of a card counts for nothing.
ROUNDING: Final = WHOLE - 1
MILLIONTH_BITS: Final = 20
FEW_SHARES: Final = 16  # So many different ones are asked of all nodes.
MOST_REMEMBERED: Final = 1024  # Requests that were summed up: most pods ask what others asked before.
OF_TYPE: Final = "type "  # In front of a type, which may be called as something else is.


@dataclasses.dataclass(frozen=True, slots=True)
class Gpus:
    """Cards, or equal shares of several cards.

    `core` is percent of each card's compute. Memory is asked either in bytes of each
    card, or as `ratio`, percent of the memory of the very card, rounded up.
    """

    count: int
    core: int = 0
    memory: int = 0
    ratio: int = 0

    def __hash__(self) -> int:
        """Hash the figures as text, which Python salts: of numbers a user finds many with one hash."""
        return hash(b"%d %d %d %d" % self.figures)

    @property
    def figures(self) -> tuple[int, int, int, int]:
        """All that is asked, as numbers."""
        return self.count, self.core, self.memory, self.ratio

    @property
    def is_whole(self) -> bool:
        """Whether the cards are wanted for this container alone."""
        return self.core == WHOLE and self.ratio == WHOLE

    @property
    def percent(self) -> int:
        """How much of each card this is as far as it was asked in percent, the scarcer of core and memory."""
        return max(self.core, self.ratio)

    def bytes_of(self, total: int) -> int:
        """Return how much memory this is on a card of that size."""
        return -(-total * self.ratio // WHOLE) if self.ratio else self.memory

    def least_of(self, total: int) -> int:
        """Return with how much this is content where a card of that size has no more.

        Each share in percent was rounded up, so the last one of a card may find a few bytes
        less than its own percentage: without this, ten shares of ten percent would not fit.
        """
        slack = rounding(total) if 0 < self.ratio < WHOLE else 0
        return max(0, self.bytes_of(total) - slack)


def rounding(total: int) -> int:
    """Return how many bytes of a card of that size the rounding of shares may have taken at most."""
    return min(ROUNDING, total >> MILLIONTH_BITS)


def cards(count: int) -> Gpus:
    """Return an ask for whole cards."""
    return Gpus(count, core=WHOLE, ratio=WHOLE)


@dataclasses.dataclass(frozen=True, slots=True)
class Instances:
    """Static MIG instances of one profile."""

    profile: str
    count: int


@dataclasses.dataclass(frozen=True, slots=True)
class Replicas:
    """Replicas of cards whose agent shares them by time-slicing or MPS."""

    count: int


@dataclasses.dataclass(frozen=True, slots=True)
class OtherDevices:
    """Devices of another type: so many of them, each by so many percent.

    `every` asks for each device of the node that meets the labels, however many there are.
    """

    type: str
    count: int
    share: int = WHOLE
    every: bool = False


Ask = Gpus | Instances | Replicas | OtherDevices
Asks = tuple[Ask, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What one container asks; `runs` is false for an init container that ends before the others start."""

    name: str
    asks: Asks
    runs: bool = True


class OfModels(NamedTuple):
    """Which models will do: one of these, found by a pattern, none of those, not found by another."""

    models: frozenset[str] = frozenset()
    pattern: str = ""
    avoid_models: frozenset[str] = frozenset()
    avoid_pattern: str = ""


ANY_MODEL: Final = OfModels()
Exclusive = tuple[str, Scope]  # Devices of a type that a pod wants to itself: each, or all of its PCIe root.


@dataclasses.dataclass(frozen=True)
class LabelSelector:
    """Which devices of a type are wanted, by their labels; of every type but cards where that is empty."""

    type: str
    expressions: tuple[facts.LabelExpression, ...]

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.type, self.expressions))

    def __hash__(self) -> int:
        """Return the hash, which is worked out once: a selector may be long, and is put to every device."""
        return self._hash

    @property
    def size(self) -> int:
        """How many things are named."""
        return sum(1 + len(one.values) for one in self.expressions)


def of_type(selectors: tuple[LabelSelector, ...], kind: str) -> tuple[LabelSelector, ...]:
    """Return the selectors that are about a type of device."""
    return tuple(one for one in selectors if one.type in {"", kind})


@dataclasses.dataclass(frozen=True, slots=True)
class Conditions:
    """What must hold for each single card, all of it on the same card.

    Of its memory `free_memory_at_least` must be free: not promised, nor measured in use lately. `spelt` has
    the models as they were written where that is not how they compare.
    """

    models: frozenset[str] = frozenset()
    pattern: str = ""
    avoid_models: frozenset[str] = frozenset()
    uuids: frozenset[str] = frozenset()
    avoid_uuids: frozenset[str] = frozenset()
    memory_at_least: int = 0
    free_memory_at_least: int = 0
    avoid_pattern: str = ""
    card_labels: tuple[LabelSelector, ...] = ()
    spelt: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    @property
    def size(self) -> int:
        """How many things are named."""
        named = (self.models, self.avoid_models, self.uuids, self.avoid_uuids, self.spelt)
        return sum(map(len, named)) + sum(one.size for one in self.card_labels)

    def as_written(self, models: Iterable[str]) -> list[str]:
        """Return models in order, each as it was written."""
        written = {one.casefold(): one for one in self.spelt}
        return [written.get(one, one) for one in sorted(models)]

    @property
    def least_memory(self) -> int:
        """How much memory a card must have at least, used or not."""
        return max(self.memory_at_least, self.free_memory_at_least)

    @property
    def of_models(self) -> "OfModels":
        """The conditions on models alone."""
        return OfModels(self.models, self.pattern, self.avoid_models, self.avoid_pattern)


@dataclasses.dataclass(frozen=True, slots=True)
class Grouping:
    """How the devices of a pod belong together, and the strategy that the pod itself asks for, if any.

    `joint` names types that must sit on the same PCIe root, `joint_wish` those that should if they can.
    With `cards_first` the cards are connected as well as they would be without `joint`. `labels` select
    devices that are no cards, `function_labels` their virtual functions: where a type has such a selector,
    be it one without expressions, each of its devices comes with a function. With `partition` the whole
    cards must be a partition of the node's table, of this bandwidth at least. So many bytes must be free on
    all cards of the node together: `memory_together`. With this pod, no more than `core_limit` percent of a
    card's core may be promised, where it gets a share. No other pod has anything of `exclusive` devices.
    """

    scope: Scope | None = None
    required: bool = True
    partition: PartitionChoice | None = None
    ring_bandwidth: int = 0
    joint: tuple[str, ...] = ()
    joint_wish: tuple[str, ...] = ()
    cards_first: bool = False
    strategy: Strategy | None = None
    spread_replicas: bool = True
    labels: tuple[LabelSelector, ...] = ()
    function_labels: tuple[LabelSelector, ...] = ()
    memory_together: int = 0
    core_limit: int = WHOLE
    exclusive: tuple[Exclusive, ...] = ()

    @property
    def restricts_sets(self) -> bool:
        """Whether cards of a node that would each do may still not do together."""
        narrow = self.required and self.scope not in {None, Scope.NODE}
        alone = bool(self.exclusive) and any(kind == DeviceType.GPU for kind, _ in self.exclusive)
        return narrow or self.partition is not None or alone


ANY_CARD: Final = Conditions()
NO_GROUPING: Final = Grouping()


@dataclasses.dataclass(frozen=True)
class DeviceRequest:
    """What all containers of a pod ask, in the order in which they start."""

    containers: tuple[ContainerRequest, ...] = ()
    conditions: Conditions = ANY_CARD
    grouping: Grouping = NO_GROUPING

    @functools.cached_property
    def size(self) -> int:
        """How many things are named, which is what it takes of memory."""
        labels = sum(one.size for one in (*self.grouping.labels, *self.grouping.function_labels))
        return self.conditions.size + labels + sum(1 + len(one.asks) for one in self.containers)

    @functools.cached_property
    def need(self) -> "Need":
        """Return the request summed up, to filter many nodes at once."""
        asked = tuple((one.asks, one.runs) for one in self.containers)
        grouping = self.grouping
        return _need_of(asked, restricts_sets=grouping.restricts_sets, core_limit=grouping.core_limit)

    def __bool__(self) -> bool:
        """Return whether any device is asked for at all."""
        return bool(self.containers)


NO_DEVICES: Final = DeviceRequest()


@dataclasses.dataclass(frozen=True)
class Need:
    """A request summed up over its containers.

    A node must have all of it; where `filters_suffice`, a node that has it fits, and no search is needed.
    `core`, `ratio` (percents of cards) and `memory` (bytes) are what is taken of plain cards in all, as far
    as that is known, and `other_parts` the percents of other devices. `replicas_each` is how many replicas
    one container asks for at most. Of many shares only the `largest_shares` are asked of thousands of nodes:
    what has room for one of those has room for what is smaller.
    """

    whole_cards: int = 0
    shares: tuple[Gpus, ...] = ()
    largest_shares: tuple[Gpus, ...] = ()
    core: int = 0
    ratio: int = 0
    memory: int = 0
    instances: tuple[Instances, ...] = ()
    replicas: int = 0
    replicas_each: int = 0
    other_parts: tuple[tuple[str, int], ...] = ()  # By type; 0 where it asks for every device.
    filters_suffice: bool = True
    core_limit: int = WHOLE

    @functools.cached_property
    def other_types(self) -> tuple[str, ...]:
        """The types of the other devices that are asked for."""
        return tuple(kind for kind, _ in self.other_parts)

    @property
    def any_device(self) -> bool:
        """Whether any device is asked for."""
        return bool(self.cards or self.other_types)

    @functools.cached_property
    def cards(self) -> int:
        """How many cards are asked for, in people's words: whole ones, shared ones, instances, replicas."""
        shared = max((ask.count for ask in self.shares), default=0)
        return self.whole_cards + shared + self.replicas + sum(ask.count for ask in self.instances)

    @property
    def min_cards(self) -> int:
        """How many plain cards a node must have at least, by count and by what is taken of them."""
        counts = [ask.count for ask in self.largest_shares]
        return max(self.whole_cards, *counts, -(-self.core // self.core_limit), -(-self.ratio // WHOLE), 0)


@functools.lru_cache(maxsize=MOST_REMEMBERED)
def _need_of(asked: tuple[tuple[Asks, bool], ...], *, restricts_sets: bool, core_limit: int) -> Need:
    """Sum up what each container asks, and whether it keeps running when the next one starts.

    Containers that run together add, the others only raise the maximum.
    """
    asks = [ask for of_container, _ in asked for ask in of_container]
    shares = tuple(ask for ask in asks if isinstance(ask, Gpus) and not ask.is_whole)
    most = container_peaks.peaks((_sum(of_container).items(), runs) for of_container, runs in asked)
    profiles = sorted({ask.profile for ask in asks if isinstance(ask, Instances)})
    kinds = sorted({ask.type for ask in asks if isinstance(ask, OtherDevices)})
    return Need(
        whole_cards=most.get("whole_cards", 0),
        shares=shares,
        largest_shares=_largest(shares),
        core=most.get("core", 0),
        ratio=most.get("ratio", 0),
        memory=most.get("memory", 0),
        instances=tuple(Instances(name, most.get(name, 0)) for name in profiles),
        replicas=most.get("replicas", 0),
        replicas_each=max((_sum(of_container).get("replicas", 0) for of_container, _ in asked), default=0),
        other_parts=tuple((kind, most.get(OF_TYPE + kind, 0)) for kind in kinds),
        filters_suffice=not restricts_sets and (not asked or only_ask([one for one, _ in asked]) is not None),
        core_limit=core_limit,
    )


def _sum(asks: Asks) -> dict[str, int]:
    """Return how much is asked of each kind of thing; MIG profiles are kinds by name."""
    own: dict[str, int] = {}
    for ask in asks:
        for kind, amount in _amounts(ask):
            own[kind] = own.get(kind, 0) + amount
    return own


def _amounts(ask: Ask) -> tuple[tuple[str, int], ...]:
    if isinstance(ask, Gpus):
        if ask.is_whole:
            return ("whole_cards", ask.count), ("core", ask.count * WHOLE)
        core, ratio = min(ask.core, WHOLE), min(ask.ratio, WHOLE)
        taken = ("ratio", ask.count * ratio) if ratio else ("memory", ask.count * ask.memory)
        return ("core", ask.count * core), taken
    if isinstance(ask, Instances):
        return ((ask.profile, ask.count),)
    if isinstance(ask, OtherDevices):
        return ((OF_TYPE + ask.type, 0 if ask.every else ask.count * ask.share),)
    return (("replicas", ask.count),)


def _largest(shares: tuple[Gpus, ...]) -> tuple[Gpus, ...]:
    """Return the shares that no other contains, the largest first where they are many."""
    if len(shares) <= FEW_SHARES:
        return tuple(dict.fromkeys(shares))
    return tuple(itertools.islice(uncontained(shares), FEW_SHARES))


def uncontained(shares: Iterable[Gpus]) -> Iterator[Gpus]:
    """Yield the shares that no other contains, the largest first."""
    found: list[Gpus] = []
    for ask in sorted(set(shares), key=_size, reverse=True):
        if not any(_contains(one, ask) for one in found):
            found.append(ask)
            yield ask


def _size(ask: Gpus) -> tuple[int, ...]:
    return ask.count * max(ask.percent, 1), ask.count, ask.core, ask.ratio, ask.memory


def _contains(one: Gpus, other: Gpus) -> bool:
    """Return whether what has room for one share has room for the other."""
    return all(amount >= wanted for amount, wanted in zip(one.figures, other.figures, strict=True))


def only_ask(containers: Sequence[Asks]) -> Gpus | None:
    """Return what one container asks, if it is whole cards or a share of one card and no more is asked."""
    asks = containers[0] if len(containers) == 1 else ()
    ask = asks[0] if len(asks) == 1 else None
    return ask if isinstance(ask, Gpus) and ask.count and (ask.is_whole or ask.count == 1) else None
