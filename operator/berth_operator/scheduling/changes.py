"""Changes that could let a pod in: values that can be applied to the pod and one node.

Each constraint knows the changes that lift it: relaxations, by which the pod asks for less,
and remedies, by which pods on the node give something up or the node is repaired. `what_if`
finds out which of them would help.
"""

import abc
import dataclasses
import enum
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, Self

from berth_operator.scheduling import wording
from berth_operator.scheduling.devices import device_facts, requests
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.nodes import facts as nodes

# The cost of a change that is about no fraction of the request, such as the repair of a node. Dropping a
# condition costs less where only the order of preference is given up, such as how near devices are.
WHOLE_COST: Final = 1.0
CONDITION_COST: Final = 0.5

MINORS_LISTED: Final = 16
NO_NODE: Final = nodes.Node("")


@dataclasses.dataclass(frozen=True, slots=True)
class Scenario:
    """A pod, and one node with all that is on it; NO_NODE where only the pod changes."""

    request: requests.DeviceRequest
    demand: nodes.NodeDemand
    node: nodes.Node = NO_NODE
    device: device_facts.Device | None = None  # As `NodeInfo.device_before_holds`.
    agent_not_ready: bool = False  # Whether it is silent or unknown: then it gets no pod with devices.
    holds: tuple[Hold, ...] = ()
    quarantine: str = ""  # Why its kubelet gets no pod for a time.


class Precedence(enum.IntEnum):
    """The order of changes of equal cost: what others give up, what is repaired, what the pod gives up."""

    MAKE_ROOM = 0
    FREE_RESOURCE = 1
    END_PODS = 2
    REPAIR = 3
    ASK_LESS = 4
    ASK_REPLICAS = 5  # Of shared cards (time-slicing, MPS), in place of cards.
    DROP_CONDITION = 6


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change(abc.ABC):
    """One change: of the node that it names, or of the pod where it names none.

    Its cost is the fraction of the request that it is about, from 0 to 1.
    """

    precedence: ClassVar[Precedence]
    node: str = ""
    cost: float = WHOLE_COST

    @property
    def of_pod(self) -> bool:
        """Whether the pod changes, and no node."""
        return not self.node

    @property
    def change_type(self) -> Hashable:
        """What type of change it is: of all changes of nodes only one of each type is reported."""
        return type(self)

    @property
    def parts(self) -> tuple[Any, ...]:
        """What it is made of, where some of it can be left out."""
        return ()

    def with_parts(self, parts: Sequence[Any]) -> Self:  # noqa: ARG002
        """Return the change with only these of its parts; one that has no parts stays as it is."""
        return self

    @abc.abstractmethod
    def apply(self, scenario: Scenario) -> Scenario:
        """Return the scenario after the change."""

    @abc.abstractmethod
    def clause(self) -> str:
        """Return what would have to happen, as a clause that follows "would fit if"."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProposedChange:
    """One change in several variants, the cheapest first.

    Where they are `cumulative`, each includes those before it: if one helps, so do all that follow it. It
    `is_prerequisite` if no other change helps without it.
    """

    variants: Sequence[Change]
    cumulative: bool = True
    is_prerequisite: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceRef:
    """A device that a change is about; for a change of its use, how much of it, in percent and bytes.

    `occupants` are the processes that nobody gave it, for a change that ends these.
    """

    uuid: str
    minor: int
    core: int = 0
    memory: int = 0
    type: str = device_facts.GPU
    occupants: tuple[device_facts.Occupant, ...] = ()


def named(devices: Sequence[DeviceRef], node: str) -> str:
    """Return devices of a node by their names: by uuid, or by minor where there are many."""
    name = wording.clipped(node)
    if len(devices) <= wording.LISTED:
        return f"{wording.listed(one.uuid for one in devices)} of {name}"
    minors = wording.listed((str(one.minor) for one in devices), most=MINORS_LISTED)
    return f"{len(devices)} devices of {name} (minors {minors})"


def with_inter_pod_rules(
    scenario: Scenario, change: Callable[[nodes.InterPodRules], nodes.InterPodRules]
) -> Scenario:
    """Return the scenario in which the pod requires something else of other pods."""
    others = change(scenario.demand.inter_pod_rules or nodes.InterPodRules())
    return dataclasses.replace(scenario, demand=dataclasses.replace(scenario.demand, inter_pod_rules=others))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RemovePods(Change):
    """These pods of a node end."""

    precedence: ClassVar = Precedence.END_PODS
    holds: tuple[Hold, ...]

    @property
    def titles(self) -> tuple[str, ...]:
        """Namespaces and names of the pods."""
        return _titles(self.holds)

    @property
    def parts(self) -> tuple[Hold, ...]:
        """The pods."""
        return self.holds

    def with_parts(self, parts: Sequence[Hold]) -> Self:
        """Return the change of fewer pods."""
        return dataclasses.replace(self, holds=tuple(parts))

    def apply(self, scenario: Scenario) -> Scenario:
        """Return the scenario without the pods."""
        ended = {hold.uid for hold in self.holds}
        holds = tuple(hold for hold in scenario.holds if hold.uid not in ended)
        return dataclasses.replace(scenario, holds=holds)

    def clause(self) -> str:
        """Return which pods would have to terminate."""
        return self.clause_of(self.titles)

    def clause_of(self, titles: Iterable[str]) -> str:
        """Return that these pods would have to terminate."""
        return f"{wording.listed(titles)} on {wording.clipped(self.node)} terminated"


def removing_pods(node: str, holds: Sequence[Hold]) -> Iterator[ProposedChange]:
    """Propose to end pods of a node, the first alone, then one more each; nothing without pods."""
    if holds:
        counts = range(1, len(holds) + 1)
        yield ProposedChange([RemovePods(node=node, holds=tuple(holds[:count])) for count in counts])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FreeDevices(Change):
    """All pods of a node free these devices; `holds` are those that have them now. No pod ends."""

    precedence: ClassVar = Precedence.END_PODS
    holds: tuple[Hold, ...]
    devices: tuple[DeviceRef, ...]

    @property
    def change_type(self) -> Hashable:
        """The same as to end the pods, in whose place it is proposed."""
        return RemovePods

    @property
    def titles(self) -> tuple[str, ...]:
        """Namespaces and names of the pods that have the devices."""
        return _titles(self.holds)

    def apply(self, scenario: Scenario) -> Scenario:
        """Return the scenario in which no pod has a share of the devices."""
        freed = {one.uuid for one in self.devices}
        holds = tuple(
            dataclasses.replace(hold, shares=tuple(one for one in hold.shares if one.uuid not in freed))
            for hold in scenario.holds
        )
        return dataclasses.replace(scenario, holds=holds)

    def clause(self) -> str:
        """Return which devices would have to be freed."""
        return f"{named(self.devices, self.node)} were freed"


def _titles(holds: Iterable[Hold]) -> tuple[str, ...]:
    return tuple(sorted(hold.title for hold in holds))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DropCondition(Change):
    """The pod gives up one condition on devices: a field of its `conditions` or `grouping`."""

    precedence: ClassVar = Precedence.DROP_CONDITION
    section: str  # "conditions" or "grouping".
    field: str
    default: object
    text: str

    def apply(self, scenario: Scenario) -> Scenario:
        """Return the scenario in which the field has its default."""
        section = dataclasses.replace(getattr(scenario.request, self.section), **{self.field: self.default})
        request = dataclasses.replace(scenario.request, **{self.section: section})
        return dataclasses.replace(scenario, request=request)

    def clause(self) -> str:
        """Return what the pod would give up."""
        return self.text


def dropped(
    asked: object, defaults: object, section: str, wordings: Iterable[tuple[str, float, str]]
) -> Iterator[ProposedChange]:
    """Yield the option to drop each field that is not at its default; `wordings`: field, cost and text."""
    for field, cost, text in wordings:
        default = getattr(defaults, field)
        if getattr(asked, field) != default:
            yield ProposedChange(
                [DropCondition(cost=cost, section=section, field=field, default=default, text=text)]
            )
