"""Changes that could let a pod in: values that can be applied to the pod and one node.

Each constraint knows the changes that lift it: relaxations, by which the pod asks for less,
and remedies, by which pods on the node give something up or the node is repaired. `what_if`
finds out which of them would help.
"""

import abc
import dataclasses
import enum
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, Self

from berth_operator.scheduling import wording
from berth_operator.scheduling.devices import facts as devices
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.nodes import facts as nodes

WHOLE_SIZE: Final = 1.0  # The size of a change that is not a part of anything.
WISH_SIZE: Final = 0.5  # The size of giving up a preference: which devices, or how near each other.

MINORS_LISTED: Final = 16
NO_NODE: Final = nodes.Node("")


@dataclasses.dataclass(frozen=True, slots=True)
class Situation:
    """A pod, and one node with all that is on it; without a name the node does not matter."""

    request: requests.Request
    demand: nodes.Demand
    node: nodes.Node = NO_NODE
    device: devices.Device | None = None
    silent: bool = False
    holds: tuple[Hold, ...] = ()


class Rank(enum.IntEnum):
    """The order of changes of equal size: what others give up, what is repaired, what the pod gives up."""

    MAKE_ROOM = 0
    FREE_RESOURCE = 1
    END_PODS = 2
    REPAIR = 3
    ASK_LESS = 4
    ASK_REPLICAS = 5
    DROP_CONDITION = 6


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change(abc.ABC):
    """One change: of a node, or without its name of the pod.

    Its size is the part of the pod's own ask that it is about, from 0 to 1.
    """

    rank: ClassVar[Rank]
    node: str = ""
    size: float = WHOLE_SIZE

    @property
    def kind(self) -> Hashable:
        """What kind of change it is: of changes of several nodes only one of each kind is proposed."""
        return type(self)

    @property
    def parts(self) -> tuple[Any, ...]:
        """What it is made of, where some of it can be left out."""
        return ()

    def only(self, parts: Sequence[Any]) -> Self:
        """Return the change with only these of its parts."""
        raise NotImplementedError

    @abc.abstractmethod
    def apply(self, situation: Situation) -> Situation:
        """Return the situation after the change."""

    @abc.abstractmethod
    def clause(self) -> str:
        """Return what would have to happen, as a clause that follows "would fit if"."""


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """One change in several sizes, the smallest first.

    Where they are `nested`, each includes those before it, so that the last helps if any does.
    While one that is `required` is not made, no other change helps on its node.
    """

    sizes: Sequence[Change]
    nested: bool = True
    required: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Room:
    """So much of one device, in percent and bytes."""

    device: str
    minor: int
    core: int = 0
    memory: int = 0
    type: str = devices.GPU


def named(devices: Sequence[Room], node: str) -> str:
    """Return devices of a node by their names: by uuid, or by minor where there are many."""
    name = wording.short(node)
    if len(devices) <= wording.LISTED:
        return f"{wording.listed(one.device for one in devices)} of {name}"
    minors = wording.listed((str(one.minor) for one in devices), most=MINORS_LISTED)
    return f"{len(devices)} devices of {name} (minors {minors})"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DropCondition(Change):
    """The pod gives up one condition on devices: a field of its `conditions` or `grouping`."""

    rank: ClassVar = Rank.DROP_CONDITION
    part: str
    field: str
    nothing: object
    words: str

    def apply(self, situation: Situation) -> Situation:
        """Return the situation in which the field has the value that asks for nothing."""
        part = dataclasses.replace(getattr(situation.request, self.part), **{self.field: self.nothing})
        request = dataclasses.replace(situation.request, **{self.part: part})
        return dataclasses.replace(situation, request=request)

    def clause(self) -> str:
        """Return what the pod would give up."""
        return self.words


def dropped(
    asked: object, nothing: object, part: str, wordings: Iterable[tuple[str, float, str]]
) -> Iterator[Option]:
    """Yield for each of these fields that asks for something that it is dropped: by field, size and words."""
    for field, size, words in wordings:
        default = getattr(nothing, field)
        if getattr(asked, field) != default:
            drop = DropCondition(size=size, part=part, field=field, nothing=default, words=words)
            yield Option([drop])
