"""What a pod asks of the devices, container by container: plain values.

`translate` reads them from resource names and annotations, its own and those of other
projects; from there on there is only one spelling. Quantities are whole percents and
bytes *of each card*; what was asked for several cards together is divided already.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from berth_crds.vocabulary import Scope, Strategy

WHOLE: Final = 100
# Rounding up takes less than a byte for each percent at most; a millionth of a card counts for nothing.
ROUNDING: Final = WHOLE - 1
MILLIONTH_BITS: Final = 20


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

    @property
    def whole(self) -> bool:
        """Whether the cards are wanted for this container alone."""
        return self.core == WHOLE and self.ratio == WHOLE

    @property
    def percent(self) -> int:
        """How much of each card this is as far as it was asked in percent, the scarcer of core and memory."""
        return max(self.core, self.ratio)

    def bytes_of(self, total: int) -> int:
        """Say how much memory this is on a card of that size."""
        return -(-total * self.ratio // WHOLE) if self.ratio else self.memory

    def least_of(self, total: int) -> int:
        """Say with how much this is content where a card of that size has no more.

        Each share in percent was rounded up, so the last one of a card may find a few bytes
        less than its own percentage: without this, ten shares of ten percent would not fit.
        """
        slack = rounding(total) if 0 < self.ratio < WHOLE else 0
        return max(0, self.bytes_of(total) - slack)


def rounding(total: int) -> int:
    """Say how many bytes of a card of that size the rounding of shares may have taken at most."""
    return min(ROUNDING, total >> MILLIONTH_BITS)


def cards(count: int) -> Gpus:
    """Ask for whole cards."""
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
class Parts:
    """Devices of another type: so many of them, each by so many percent.

    `every` asks for each device of the node that meets the labels, however many there are.
    """

    type: str
    count: int
    share: int = WHOLE
    every: bool = False


Ask = Gpus | Instances | Replicas | Parts


@dataclasses.dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What one container asks; `runs` is false for an init container that ends before the others start."""

    name: str
    asks: tuple[Ask, ...]
    runs: bool = True


class OfModels(NamedTuple):
    """Which models will do: one of these, found by a pattern, none of those, not found by another."""

    models: frozenset[str] = frozenset()
    pattern: str = ""
    avoid_models: frozenset[str] = frozenset()
    avoid_pattern: str = ""


ANY_MODEL: Final = OfModels()


@dataclasses.dataclass(frozen=True, slots=True)
class Conditions:
    """What must hold for each single card, all of it on the same card."""

    models: frozenset[str] = frozenset()
    pattern: str = ""
    avoid_models: frozenset[str] = frozenset()
    uuids: frozenset[str] = frozenset()
    avoid_uuids: frozenset[str] = frozenset()
    memory_at_least: int = 0
    avoid_pattern: str = ""

    @property
    def of_models(self) -> "OfModels":
        """What is said of models alone, which is all that may be asked of a name."""
        return OfModels(self.models, self.pattern, self.avoid_models, self.avoid_pattern)


@dataclasses.dataclass(frozen=True, slots=True)
class Manner:
    """How the devices of a pod belong together.

    `joint` names types that must sit on the same PCIe root. `labels` must be those of the
    devices of a type, `function_labels` those of their virtual functions.
    """

    scope: Scope | None = None
    required: bool = True
    joint: tuple[str, ...] = ()
    strategy: Strategy | None = None
    spread_replicas: bool = True
    labels: tuple[tuple[str, str], ...] = ()
    function_labels: tuple[tuple[str, str], ...] = ()


ANY_CARD: Final = Conditions()
ANY_MANNER: Final = Manner()


@dataclasses.dataclass(frozen=True)
class Request:
    """What all containers of a pod ask, in the order in which they start."""

    containers: tuple[ContainerRequest, ...] = ()
    conditions: Conditions = ANY_CARD
    manner: Manner = ANY_MANNER

    @functools.cached_property
    def need(self) -> "Need":
        """Sum the request up, for a first look at many nodes at once."""
        return sum_up(self)

    def __bool__(self) -> bool:
        """Tell whether any device is asked for at all."""
        return bool(self.containers)


NO_DEVICES: Final = Request()


def phases(request: Request) -> Iterator[tuple[ContainerRequest, ...]]:
    """Give the sets of containers that run at the same time.

    First all those that keep running; then, for each init container, it and the sidecars
    that started before it. A pod needs the largest of these, not their sum.
    """
    yield tuple(one for one in request.containers if one.runs)
    started: tuple[ContainerRequest, ...] = ()
    for one in request.containers:
        if one.runs:
            started = (*started, one)
        else:
            yield (*started, one)


@dataclasses.dataclass(frozen=True, slots=True)
class Need:
    """A request summed up over its containers.

    All of it is necessary on any node; where `simple`, it is also sufficient, and no
    closer look is needed.
    """

    whole: int = 0
    shares: tuple[Gpus, ...] = ()
    instances: tuple[Instances, ...] = ()
    replicas: int = 0
    parts: tuple[str, ...] = ()
    simple: bool = True

    @property
    def asked(self) -> bool:
        """Tell whether any device is asked for."""
        return bool(self.cards or self.parts)

    @property
    def cards(self) -> int:
        """How many cards are asked for, in people's words: whole ones, shared ones, instances, replicas."""
        shared = max((ask.count for ask in self.shares), default=0)
        return self.whole + shared + self.replicas + sum(ask.count for ask in self.instances)


def sum_up(request: Request) -> Need:
    """Sum a request up: containers that run together add, the others only raise the maximum."""
    asks = [ask for one in request.containers for ask in one.asks]
    profiles = sorted({ask.profile for ask in asks if isinstance(ask, Instances)})
    return Need(
        whole=_most(request, lambda ask: ask.count if isinstance(ask, Gpus) and ask.whole else 0),
        shares=tuple(ask for ask in asks if isinstance(ask, Gpus) and not ask.whole),
        instances=tuple(Instances(name, _most(request, _instances_of(name))) for name in profiles),
        replicas=_most(request, lambda ask: ask.count if isinstance(ask, Replicas) else 0),
        parts=tuple(sorted({ask.type for ask in asks if isinstance(ask, Parts)})),
        simple=_simple(request, asks),
    )


def _most(request: Request, amount: Callable[[Ask], int]) -> int:
    return max(sum(amount(ask) for one in phase for ask in one.asks) for phase in phases(request))


def _instances_of(profile: str) -> Callable[[Ask], int]:
    return lambda ask: ask.count if isinstance(ask, Instances) and ask.profile == profile else 0


def _simple(request: Request, asks: list[Ask]) -> bool:
    """One ask, for whole cards or for a share of one, without a word on how they belong together."""
    if request.manner.required and request.manner.scope not in {None, Scope.NODE}:
        return False
    if len(asks) != 1:
        return not asks
    ask = asks[0]
    return isinstance(ask, Gpus) and (ask.whole or ask.count == 1)
