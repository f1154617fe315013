"""Which pods are to be evicted: those that hold cards of silent agents, and sick or cordoned cards.

The policy chooses which of the three count. Silent agents and sick cards have one circuit breaker: where
pods of too many nodes would be evicted at once, none is, for then the fault is more likely in what
Berth believes. What people have cordoned does not count there, and is drained all the same. No pod is
evicted while most agents are silent together. A pod that would come back is never evicted and does not count,
but only whoever reads it knows that; so while the breaker keeps pods, they are still examined.

What is remembered can be found out again: an operator that is started anew comes to the same plan, later by
the time of silence that it did not see. A
pod holds its cards until it is gone, so that they are promised to nobody else before.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from berth_operator.engine import sick_cards
from berth_operator.scheduling import node_info
from berth_operator.scheduling.decisions import EvictionCause, Reason
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.policy import Policy

# Of the nodes with devices, one in so many may be drained at the same time, and always one.
NODES_PER_DRAINED: Final = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that is to be evicted, and why."""

    uid: str
    title: str
    node: str
    cause: EvictionCause
    why: str

    @property
    def namespace_and_name(self) -> tuple[str, str]:
        """The namespace and the name of the pod."""
        namespace, _, name = self.title.partition("/")
        return namespace, name


def silence_before_eviction(policy: Policy) -> float | None:
    """Return for how long we have to have found an agent silent before its node's pods are evicted.

    An operator that is started anew relies on what the one before found. So it waits at least until every
    agent that lives must have reported.
    """
    if policy.evict_after_seconds is None:
        return None
    return max(policy.evict_after_seconds, policy.grace_seconds)


def of_node(
    info: node_info.NodeInfo, policy: Policy, *, silent_for: float | None, ready: bool = True
) -> Iterator[Eviction]:
    """Yield the pods of a node that are to be evicted, some perhaps for several reasons.

    `silent_for` is for how long its agent is surely silent, None if it is not; `ready` is whether it has
    reported since we began. While an agent is not ready, nobody knows how its cards are, and only the
    silence counts, and what people have cordoned.
    """
    if silent_for is not None:
        enough = silence_before_eviction(policy)
        if enough is not None and silent_for >= enough:
            yield from _holders_of_all(info, enough)
    elif (
        info.device is not None and not info.agent_not_ready and (policy.drain_cordoned or policy.evict_sick)
    ):
        for card in (*info.device.cards, *info.device.others):
            yield from _holders_of(info, card, policy, ready=ready)


def _holders_of_all(info: node_info.NodeInfo, seconds: float) -> Iterator[Eviction]:
    why = f"the agent of node {info.name} has been silent for {seconds:g} s or longer"
    for hold in info.holds.values():
        if hold.devices:
            yield Eviction(hold.uid, hold.title, info.name, EvictionCause.AGENT_SILENT, why)


def _holders_of(
    info: node_info.NodeInfo, card: PhysicalDevice, policy: Policy, *, ready: bool
) -> Iterator[Eviction]:
    of_card = f"{sick_cards.name(card)} of node {info.name}"
    if policy.drain_cordoned and card.trouble is Reason.CARD_CORDONED:
        cause, why = EvictionCause.CARD_CORDONED, f"{of_card} is cordoned"
    elif policy.evict_sick and ready and (need := sick_cards.need(card)):
        cause, why = EvictionCause.CARD_SICK, f"{of_card} is unhealthy and {need}"
    else:
        return
    for hold in sick_cards.holders(info, card):
        yield Eviction(hold.uid, hold.title, info.name, cause, why)


def is_surely_silent(info: node_info.NodeInfo) -> bool:
    """Whether a node has devices of which its agent surely says nothing any more."""
    return info.published is not None and info.agent_not_ready and not info.unknown


class EvictionPlan:
    """Which evictions are due, which were asked for, and whether any may be sent."""

    def __init__(self, is_ready: Callable[[str], bool] = lambda _node: True) -> None:
        """Begin without evictions; `is_ready` tells whether a node's agent has reported since we began."""
        self._is_ready = is_ready
        self._with_devices: set[str] = set()
        self._silent_since: dict[str, float] = {}
        self._due: dict[str, dict[str, Eviction]] = {}  # By node and uid; no node without any.
        self._asked: set[str] = set()
        self._spared: set[str] = set()
        self._examined: set[str] = set()
        # When refused ones are sent again at the earliest; a card that is well for a moment changes nothing.
        self._not_before: dict[str, float] = {}
        self._turns: dict[str, int] = {}  # By node, how many evictions there were until its last.
        self._count = 0

    # ------------------------------------------------------------ what is due

    def update(self, inventory: Inventory, changed: Iterable[str], policy: Policy, now: float) -> None:
        """Learn how the changed nodes are, and which agents are silent for long enough by now."""
        enough = silence_before_eviction(policy)
        lapsed = (
            [name for name, since in self._silent_since.items() if now - since >= enough]
            if enough is not None
            else ()
        )
        for name in {*changed, *(one for one in lapsed if one not in self._due)}:
            self._update(name, inventory.node(name), policy, now)
        due = self.uids if self._not_before else frozenset()
        self._not_before = {uid: at for uid, at in self._not_before.items() if at > now or uid in due}

    def _update(self, name: str, info: node_info.NodeInfo | None, policy: Policy, now: float) -> None:
        if info is None or info.published is None:
            self._with_devices.discard(name)
        else:
            self._with_devices.add(name)
        if info is not None and is_surely_silent(info):
            self._silent_since.setdefault(name, now)
        else:
            self._silent_since.pop(name, None)
        if info is None:
            self._turns.pop(name, None)
        before = self._due.pop(name, {})
        since = self._silent_since.get(name)
        silent_for = now - since if since is not None else None
        due: dict[str, Eviction] = {}
        if info is not None:
            for one in of_node(info, policy, silent_for=silent_for, ready=self._is_ready(name)):
                due.setdefault(one.uid, one)
        if due:
            self._due[name] = due
        for uid in before.keys() - due.keys():
            self._forget(uid)

    def _forget(self, uid: str) -> None:
        self._asked.discard(uid)
        self._spared.discard(uid)
        self._examined.discard(uid)

    # ------------------------------------------------------------ what may be sent

    @property
    def drained(self) -> frozenset[str]:
        """The nodes with pods to evict because of the agent or the cards, and not because of a cordon."""
        return frozenset(
            one.node
            for due in self._due.values()
            for one in due.values()
            if one.cause is not EvictionCause.CARD_CORDONED and one.uid not in self._spared
        )

    @property
    def known(self) -> frozenset[str]:
        """The nodes of which anything is remembered."""
        return frozenset(self._with_devices | self._silent_since.keys() | self._due.keys())

    @property
    def uids(self) -> frozenset[str]:
        """The pods that are due."""
        return frozenset(uid for due in self._due.values() for uid in due)

    @property
    def most_drained(self) -> int:
        """How many nodes may be drained at once."""
        return max(1, len(self._with_devices) // NODES_PER_DRAINED)

    @property
    def breaker_open(self) -> bool:
        """Whether so many nodes would be drained at once that none is."""
        return len(self.drained) > self.most_drained

    @property
    def nodes(self) -> int:
        """How many nodes have devices."""
        return len(self._with_devices)

    def next(self, now: float, *, suspects: int) -> Eviction | None:
        """Return the eviction to send now, if any may be; `suspects` counts agents silent together."""
        if suspects or not self._due:
            return None
        breaker_open, over = self.breaker_open, self._asked | self._spared
        return self._first(
            now,
            lambda one: (
                one.uid not in over and (one.cause is EvictionCause.CARD_CORDONED or not breaker_open)
            ),
        )

    def to_examine(self, now: float, *, suspects: int) -> Eviction | None:
        """Return an eviction that the breaker keeps back, if nobody knows yet whether it would be sent."""
        if suspects or not self.breaker_open:
            return None
        known = self._asked | self._spared | self._examined
        return self._first(
            now, lambda one: one.uid not in known and one.cause is not EvictionCause.CARD_CORDONED
        )

    def _first(self, now: float, wanted: Callable[[Eviction], bool]) -> Eviction | None:
        """Return the first eviction that is wanted now, if there is one."""
        ready = (
            one
            for due in self._due.values()
            for one in due.values()
            if self._not_before.get(one.uid, now) <= now and wanted(one)
        )
        return min(ready, key=self._sort_key, default=None)

    def _sort_key(self, one: Eviction) -> tuple[object, ...]:
        """Return by what evictions are sorted.

        Nodes take turns, so that an agent whose cards fall sick again and again holds nobody else up. What
        was refused comes after all of its node that was not tried yet.
        """
        refused = self._not_before.get(one.uid, -math.inf)
        return self._turns.get(one.node, 0), refused, one.node, one.title

    # ------------------------------------------------------------ what became of one

    def _had_turn(self, uid: str) -> None:
        """Record that it was the turn of the node of a pod."""
        self._count += 1
        self._turns |= {node: self._count for node, due in self._due.items() if uid in due}

    def asked(self, uid: str) -> None:
        """Record that a pod goes: it was asked to, or does anyway."""
        self._had_turn(uid)
        self._asked.add(uid)

    def spare(self, uid: str) -> None:
        """Record that a pod is not to be evicted: nothing would be won."""
        self._had_turn(uid)
        self._spared.add(uid)

    def examined(self, uid: str) -> None:
        """Record that a pod would be evicted, if that were not kept back."""
        self._had_turn(uid)
        self._examined.add(uid)

    def retry(self, uid: str, moment: float) -> None:
        """Record that an eviction was refused, and is to be sent again, but not before this moment."""
        self._had_turn(uid)
        self._not_before[uid] = moment
