"""What is found out about a pod that does not fit: values, before they are put into words.

An Explanation says of each node that refuses why it does, which node comes nearest, and
which single changes would each let the pod in. All quantities are the core's own: percent
and bytes of cards, thousandths of cpu, whole numbers of everything else. Words are made
of them in `phrases` and `sentences`.
"""

import dataclasses
import enum
from collections.abc import Iterable
from typing import Final

from berth_operator.scheduling import decisions, known_models
from berth_operator.scheduling.deficits import Deficit
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.scheduling.devices import facts as devices
from berth_operator.scheduling.nodes import facts

NO_MINOR: Final = -1  # The minor of what is no device.


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """Why one node refuses.

    `reason` is the first in the order of the constraints. Where that is about devices and the node
    was looked at closely, `shortfall` has the verdict on each card. `measures` say how much
    is missing, `holders` who holds cards that nobody can name. `never` tells that the node
    could not take the pod even with nothing used; of one without a Device, which is not
    `published`, nobody knows what it might have.
    """

    node: str
    reason: decisions.Reason
    detail: str = ""
    never: bool = False
    published: bool = True
    looked: bool = False
    measures: tuple[Deficit, ...] = ()
    holders: tuple[str, ...] = ()
    shortfall: allocator.Shortfall | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Nearest:
    """The node that comes closest, and its card where a single one does; `measures` are what is missing.

    Where nothing is nearly enough, or not that alone, `whys` are all the things in the way.
    """

    node: str
    reason: decisions.Reason
    detail: str
    measures: tuple[Deficit, ...]
    device: str = ""
    minor: int = NO_MINOR
    type: str = ""
    whys: tuple[tuple[decisions.Reason, str], ...] = ()

    @property
    def lack(self) -> float:
        """What part is missing of what is missing most."""
        return max((one.part for one in self.measures), default=1.0)


# ---------------------------------------------------------------- changes


class PodCondition(enum.StrEnum):
    """A condition that a pod may give up."""

    MODELS = "models"
    PATTERN = "pattern"
    AVOID_MODELS = "avoid-models"
    AVOID_PATTERN = "avoid-pattern"
    UUIDS = "uuids"
    AVOID_UUIDS = "avoid-uuids"
    MEMORY_AT_LEAST = "memory-at-least"
    SCOPE = "scope"
    JOINT = "joint"
    LABELS = "labels"
    FUNCTION_LABELS = "function-labels"
    SELECTOR = "selector"
    AFFINITY = "affinity"
    TAINT = "taint"


@dataclasses.dataclass(frozen=True, slots=True)
class ChangedRequest:
    """What a pod would ask after a change of its own, and how many nodes could take that.

    `exact` is false where only the likeliest nodes were looked at, so that there may be
    more. `example` is the first of them by name.
    """

    request: requests.Request
    demand: facts.Demand
    nodes: int
    exact: bool
    example: str


@dataclasses.dataclass(frozen=True, slots=True)
class Room:
    """So much of one device, in percent and bytes."""

    device: str
    minor: int
    core: int = 0
    memory: int = 0
    type: str = devices.GPU


@dataclasses.dataclass(frozen=True, slots=True)
class MakeRoom:
    """Somebody gives up a part of these cards of a node; `holders` are the pods that share them now."""

    node: str
    rooms: tuple[Room, ...]
    holders: tuple[str, ...]
    size: float


@dataclasses.dataclass(frozen=True, slots=True)
class EndPods:
    """These pods of a node end.

    `devices` are those of theirs that this pod would then get, if giving back these and
    nothing else were enough; else there are none, and it takes the pods with all they hold.
    """

    node: str
    pods: tuple[str, ...]
    titles: tuple[str, ...]
    devices: tuple[Room, ...]
    size: float


@dataclasses.dataclass(frozen=True, slots=True)
class FreeResource:
    """Somebody gives up so much of a resource of a node."""

    node: str
    measure: Deficit
    size: float


@dataclasses.dataclass(frozen=True, slots=True)
class AskLess:
    """The pod asks for less: of the cards of one container, of each card, or of a resource of the node."""

    container: str
    measure: Deficit  # `wanted` is what it asks now, `free` what it could have.
    edit: ChangedRequest
    size: float


@dataclasses.dataclass(frozen=True, slots=True)
class AskReplicas:
    """The pod asks for so many replicas of shared cards in place of cards: of whole ones, or of parts."""

    count: int
    whole: bool
    edit: ChangedRequest
    size: float


@dataclasses.dataclass(frozen=True, slots=True)
class DropCondition:
    """The pod gives up one condition; `value` says which where it has several of the kind."""

    condition: PodCondition
    value: str
    edit: ChangedRequest
    size: float


@dataclasses.dataclass(frozen=True, slots=True)
class Repair:
    """What is wrong with a node or some of its devices is put right; without devices it is the node's."""

    node: str
    reason: decisions.Reason
    devices: tuple[Room, ...]
    size: float


Single = MakeRoom | EndPods | FreeResource | AskLess | AskReplicas | DropCondition | Repair


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """Two changes that together let the pod in on a node; both edits have what it then asks."""

    node: str
    changes: tuple[Single, Single]
    size: float


Change = Single | Pair

# Between changes of equal size: what others may give up, what can be put right, what the pod gives up.
ORDER: Final = (MakeRoom, FreeResource, EndPods, Repair, AskLess, AskReplicas, DropCondition, Pair)
WHOLE_SIZE: Final = 1.0  # The size of a change that is not a part of anything.
WISH_SIZE: Final = (
    0.5  # The size of giving up a wish: which devices rather than others, or how near each other.
)
WISHES: Final = frozenset(
    {
        PodCondition.SCOPE,
        PodCondition.JOINT,
        PodCondition.AVOID_MODELS,
        PodCondition.AVOID_PATTERN,
        PodCondition.AVOID_UUIDS,
    }
)


def in_order(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return changes in order, the smallest first.

    The size of a change is the part of the pod's own ask that it is about: 2 of 8 GiB are
    smaller than 1 of 2 cards. A whole node that comes back and a whole condition that goes
    are as large as all of it; a wish that leaves the pod all it asks for comes before the
    loss of more than half. What is equal keeps the order in which it was found.
    """
    return tuple(sorted(changes, key=lambda one: (round(one.size, 6), ORDER.index(type(one)))))


# ---------------------------------------------------------------- the whole


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """All that was found out.

    `counts` say how many nodes refuse for which reason, `nodes` has each of them by name.
    `total` is the number of all known nodes. `whole` tells that all were looked at closely.
    `models` are those that there are, where the one that is asked for is lacking. `cut` tells
    that the effort ended before it was known what would help.
    """

    counts: tuple[decisions.Count, ...]
    nodes: tuple[Finding, ...]
    total: int
    nearest: Nearest | None = None
    changes: tuple[Change, ...] = ()
    whole: bool = True
    models: known_models.Models = known_models.UNTOLD
    cut: bool = False

    @property
    def fits(self) -> int:
        """How many nodes could take the pod as it is."""
        return self.total - len(self.nodes)

    @property
    def never(self) -> bool:
        """Whether no node that has a Device could take the pod even with nothing used and nothing wrong."""
        published = [one for one in self.nodes if one.published]
        return bool(published) and not self.fits and all(one.never for one in published)

    @property
    def unpublished(self) -> bool:
        """Whether there are nodes without a Device."""
        return not all(one.published for one in self.nodes)
