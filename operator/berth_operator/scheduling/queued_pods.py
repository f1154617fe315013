"""A pod that asks to be placed, and what is known of it while it waits.

The values alone, and how long the backoff is: `backlog` knows which pods are to be tried, and when.
"""

import dataclasses
import enum
import math
import operator
from typing import Final, NamedTuple

from berth_operator.scheduling import decisions, queue_order, values
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts

INITIAL_BACKOFF_SECONDS: Final = 0.1
MAX_BACKOFF_SECONDS: Final = 10.0
MAX_DEMOTED_BACKOFF_SECONDS: Final = 60.0

SortKey = tuple[bool, queue_order.Order]  # The demoted come last.
SORT_KEY: Final = operator.attrgetter("demoted", "order")  # As `Entry.sort_key`, in half the time, for many.


@dataclasses.dataclass(frozen=True, slots=True)
class SmallAmount:
    """A small amount of a card's memory as its author wrote it, in bytes, and what was meant perhaps."""

    text: str
    memory: int
    guess: str = ""
    guessed: int = 0


@values.quickly_made
@dataclasses.dataclass(frozen=True, slots=True)
class PodInfo:
    """A pod that asks to be placed; `faults` say why its request cannot be served at all.

    `label` is the priority that its author has written on it, where no PriorityClass gives one.
    `small` are amounts of memory that a policy may find too small. `without_devices` are the containers that
    ask for none.
    """

    uid: str
    namespace: str
    name: str
    request: requests.DeviceRequest = requests.NO_DEVICES
    demand: facts.NodeDemand = facts.NO_DEMAND
    priority: int = 0
    label: int = 0
    created: str = ""
    faults: tuple[decisions.Refusal, ...] = ()
    small: tuple[SmallAmount, ...] = ()
    labels: facts.Labels = dataclasses.field(default=(), compare=False)
    without_devices: tuple[str, ...] = ()
    priority_class: str = ""

    @property
    def asks(self) -> tuple[requests.DeviceRequest, facts.NodeDemand]:
        """All that the pod asks for."""
        return self.request, self.demand

    @property
    def kind(self) -> tuple[requests.DeviceRequest, facts.NodeDemand, str]:
        """All that its placement depends on, which makes it one of a kind.

        A policy may promise parts of cards to some PriorityClasses that others do not get.
        """
        return self.request, self.demand, self.priority_class if self.request.need.shares else ""

    @property
    def title(self) -> str:
        """Namespace and name, as people name a pod."""
        return f"{self.namespace}/{self.name}"

    def selectors_for(self, events: decisions.AwaitedEvents) -> tuple[facts.PodSelector, ...]:
        """Return which pods it requires something about that such events may bring.

        A pod that comes lifts an affinity, and one that leaves an anti-affinity. A pod that may be the first
        that its own affinity means is helped by the end of the last one as well.
        """
        if (rules := self.demand.inter_pod_rules) is None or events.isdisjoint(decisions.POD_EVENTS):
            return ()
        left = decisions.ClusterEvent.POD_LEFT in events
        near = rules.affinity if rules.self_match or decisions.ClusterEvent.POD_CAME in events else ()
        terms = (*near, *rules.anti_affinity) if left else near
        return *(one.selector for one in rules.spread), *(one.selector for one in terms)

    def comparisons(self, events: decisions.AwaitedEvents) -> int:
        """Count what it takes to find out whether events help it: one for each selector, or for the node."""
        return max(1, len(self.selectors_for(events)))

    @property
    def needs_device_search(self) -> bool:
        """Whether nothing less than a search on single nodes tells whether the pod fits."""
        return not self.faults and not self.request.need.filters_suffice

    def order(self, allowed: int = 0) -> queue_order.Order:
        """Return the sort key; a label raises the priority by `allowed` at most."""
        priority = self.priority + min(self.label, allowed)
        return queue_order.order(priority, self.created, self.namespace, self.name)


class EventWait(NamedTuple):
    """Pods of which kind wait for which events, except on nodes where only the end of a pause helps."""

    kind_number: int
    awaited: decisions.AwaitedEvents
    undecided: frozenset[str]


class Standing(enum.StrEnum):
    """How a pod without a node stands; the gated and those with a bind under way are not in the backlog."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    BINDING = "binding"


@dataclasses.dataclass(slots=True)
class Entry:
    """One waiting pod and what it waits for."""

    pod_info: PodInfo
    order: queue_order.Order
    attempts: int = 0
    not_before: float = 0.0
    awaited: decisions.AwaitedEvents | None = None  # None: it may be tried as soon as time allows.
    demoted: bool = False  # Until it is placed, edited or reinstated.
    kind_number: int = 0  # Of `PodInfo.kind`, given when a pod of the kind does not fit.
    ticket: int = 0  # Of the queue it stands in now; older ones are void.
    turns: int = 0  # How often it was tried out of order.
    held_back_since: float | None = None  # Since when it leaves to others what it might take.
    reservation: int = 0  # Which one it has part in, being woken; see `rotation.Reservations`.
    unsearched: float = math.inf  # How many nodes its last attempt left to the next one.
    # The nodes whose search did not end: left out of attempts that an event brings about before `search_at`.
    undecided: frozenset[str] = frozenset()
    search_at: float = 0.0

    @property
    def group(self) -> queue_order.Group:
        """The pods with which it may exchange positions."""
        return queue_order.Group(self.demoted, -self.order[0], self.pod_info.namespace)

    @property
    def event_wait(self) -> EventWait | None:
        """What it waits for, if it waits for an event."""
        return None if self.awaited is None else EventWait(self.kind_number, self.awaited, self.undecided)

    @property
    def local(self) -> queue_order.LocalOrder:
        """Sort key within its group."""
        return queue_order.local_order(self.extra, self.pod_info.created, self.pod_info.name)

    @property
    def raised(self) -> bool:
        """Whether its label ranks it higher in its namespace than between namespaces."""
        return self.extra > 0

    @property
    def extra(self) -> int:
        """What its label counts for in its namespace alone."""
        return self.pod_info.priority + self.pod_info.label + self.order[0]

    @property
    def sort_key(self) -> SortKey:
        """Sort key among all that are to be tried: the first comes first."""
        return self.demoted, self.order

    def count_attempt(
        self,
        now: float,
        *,
        demoted: bool = False,
        unsearched: int = 0,
        undecided: frozenset[str] = frozenset(),
    ) -> None:
        """Count an attempt, and set the pause after it: each is longer, and more so of a demoted pod.

        A search that takes several attempts counts as one, with short pauses, as long as each leaves fewer
        nodes `unsearched` than the one before. It is different where nodes change as fast as it gets on. One
        that left `undecided` nodes out does not count, and the pause goes on.
        """
        left_out, self.undecided = self.undecided, undecided
        if left_out and undecided:
            self.not_before = self.search_at
            return
        self.demoted |= demoted
        gets_on = 0 < unsearched < self.unsearched
        self.not_before = now + backoff(0 if gets_on else self.attempts, demoted=self.demoted)
        self.attempts = max(1, self.attempts) if gets_on else self.attempts + 1
        self.unsearched = unsearched or math.inf
        self.search_at = self.not_before

    def standing(self, now: float) -> Standing:
        """Return what keeps the pod from being tried."""
        if self.awaited is not None:
            return Standing.UNSCHEDULABLE
        return Standing.ACTIVE if self.not_before <= now else Standing.BACKOFF

    def idle(self, now: float) -> bool:
        """Return whether no bind of the pod may be sent for now, though one may be one day."""
        return (self.awaited is not None or self.not_before > now) and not self.pod_info.faults


def backoff(attempts: int, *, demoted: bool = False) -> float:
    """Return how many seconds a pod waits after so many attempts."""
    longest = MAX_DEMOTED_BACKOFF_SECONDS if demoted else MAX_BACKOFF_SECONDS
    return float(min(longest, INITIAL_BACKOFF_SECONDS * 2 ** min(attempts, 20)))
