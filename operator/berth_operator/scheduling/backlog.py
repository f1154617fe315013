"""The waiting pods: in which order they are tried, and what they wait for.

Pods are tried by priority, then by creation time, then by name; `queue_order` says what labels add.
Pods that are demoted, because their search takes long or their binds are refused, come last.

A pod that did not fit waits for a cluster event that could help it. Of the pods that an event could help, the
first of each kind are tried at once, and one more for each of the kind that is placed; the others back off,
longer with each attempt (`queued_pods.backoff`). So a crowd of pods that fit nowhere costs little and delays
no other pod. No clock is read here.
"""

import itertools
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Final

from berth_operator.scheduling import event_waits, queue_order, queued_pods, queues, rotation, wakeups
from berth_operator.scheduling.comparisons import Comparisons
from berth_operator.scheduling.decisions import AwaitedEvents, ClusterEvent
from berth_operator.scheduling.pods_by_claim import ChangedClaims, PodsByClaim
from berth_operator.scheduling.queued_pods import Entry, PodInfo, SortKey

ACTIVATED_AT_ONCE: Final = 256  # Of all kinds, when a namespace is suspended or resumed.
MOST_SEARCHED_IN_A_ROUND: Final = 64  # Pods that need a search on single nodes; so others come too.


class Backlog:
    """All pods that ask to be placed and are not.

    A pod is active (to be tried, by order), in backoff (by its end), unschedulable (by the cluster events
    that could help), or was woken by an event and is sorted in by one of the next rounds (`wakeups`).
    Moving from one line to another costs nothing (`queues`), so that a round costs what it tries, however
    long the backlog is. Pods of a suspended namespace keep their places, and others are tried instead. A
    pod whose search left nodes undecided is unschedulable and in backoff at once: an event of another node
    has it tried without these.
    """

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._kind_numbers, self._next_kind_number = dict[Hashable, int](), itertools.count(1)
        self._suspended = queues.SuspendedNamespaces()
        self._active_by_filters = queues.Queue[SortKey](self._stands, self._suspended)
        self._active_by_search = queues.Queue[SortKey](self._stands, self._suspended)
        # Pods leave these two whether their namespaces are suspended or not.
        self._backoff = queues.Queue[float](self._stands, queues.SuspendedNamespaces())
        self._woken = queues.Queue[wakeups.Rank](self._stands, queues.SuspendedNamespaces())
        self._unschedulable = event_waits.EventWaits()
        self._comparisons = Comparisons()
        self._all_woken_by: set[ClusterEvent] = set()  # Events for which no pod waits any more.
        # By kind number; and of the active pods those that are raised.
        self._woken_in_backoff = queues.Queues[int, SortKey](self._stands, self._suspended)
        self._raised = queues.Lines[queue_order.Group, queue_order.LocalOrder](self._stands)
        self._rotation = rotation.Rotation(self._stands, self._suspended)
        self.time_shares, self.reservations = self._rotation.time_shares, self._rotation.reservations
        self.by_claim = PodsByClaim()
        self._label_limit = self._last_ticket = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, uid: object) -> bool:
        return uid in self._entries

    def __repr__(self) -> str:
        """Return the state in words."""
        waiting = sum(entry.awaited is not None for entry in self._entries.values())
        return f"<Backlog: {len(self._entries)} pods, {waiting} of them waiting for a change>"

    def get(self, uid: str) -> PodInfo | None:
        """Return a pod by its uid."""
        return entry.pod_info if (entry := self._entries.get(uid)) else None

    def in_order(self) -> Iterable[Entry]:
        """Return all pods in the order in which they would be taken."""
        found = sorted(self._entries.values(), key=lambda entry: entry.sort_key)
        return queue_order.reordered(found, lambda *_: ())

    def entries(self) -> Collection[Entry]:
        """Return all pods, in no order."""
        return self._entries.values()

    def idle(self, uid: str, now: float) -> bool:
        """Return whether a pod waits for a change or for the end of a pause."""
        return (entry := self._entries.get(uid)) is not None and entry.idle(now)

    def first_in_line(self, limit: int) -> list[str]:
        """Return the uids of the pods that are tried next, without those that were demoted meanwhile."""
        tickets = queues.walk((self._active_by_filters, math.inf), (self._active_by_search, math.inf))
        found = (uid for sort_key, _, uid in tickets if self._entries[uid].sort_key == sort_key)
        return list(itertools.islice(found, limit))

    def undecided_nodes(self, uid: str) -> frozenset[str]:
        """Return the nodes to be left out of a pod's next attempt, because an event brought it forward."""
        return entry.undecided if (entry := self._entries.get(uid)) else frozenset()

    def attempts(self, uid: str) -> int:
        """Return how often a pod was tried."""
        return entry.attempts if (entry := self._entries.get(uid)) else 0

    # ------------------------------------------------------------ coming and going

    def push(self, pod_info: PodInfo) -> None:
        """Add a pod, or its edited request or labels; an unchanged one stays where it is."""
        entry = self._entries.get(pod_info.uid)
        if entry is not None and (entry.pod_info, entry.pod_info.labels) == (pod_info, pod_info.labels):
            entry.pod_info = pod_info  # Its images, which are not compared, may be others.
        else:
            self.remove(pod_info.uid)  # One that was tried has had its first turn: edits bring no other.
            self._activate(self._entered(pod_info, min(1, entry.attempts) if entry else 0))

    def _entered(self, pod_info: PodInfo, attempts: int = 0) -> Entry:
        self._entries[pod_info.uid] = entry = Entry(pod_info, pod_info.order(self._label_limit), attempts)
        if pod_info.demand.claims:
            self.by_claim.add(pod_info.uid, pod_info.demand.claims)
        return entry

    def set_label_limit(self, limit: int) -> None:
        """Let labels raise pods among those of other namespaces by so much at most, and sort all anew."""
        if limit == self._label_limit:
            return
        self._label_limit = limit
        woken, backoff = queues.uids(self._woken), queues.uids(self._backoff)
        for uid, entry in self._entries.items():
            entry.order = entry.pod_info.order(limit)
            if uid in woken:
                self._push_woken(entry)
            elif entry.awaited is None and uid not in backoff:
                self._activate(entry)

    def remove(self, uid: str) -> PodInfo | None:
        """Remove a pod, because it was placed or is gone."""
        if (entry := self._entries.pop(uid, None)) is None:
            return None
        self._leave(entry)
        if entry.pod_info.demand.claims:
            self.by_claim.remove(uid, entry.pod_info.demand.claims)
        return entry.pod_info

    def pod_placed(self, uid: str) -> PodInfo | None:
        """Remove a pod that was placed, and try the next of its kind: there may be a place for it, too."""
        if (entry := self._entries.get(uid)) is not None:
            self._activate_next(entry.kind_number)
        return self.remove(uid)

    def requeue(
        self,
        uid: str,
        *,
        now: float,
        awaited: AwaitedEvents | None,
        demoted: bool = False,
        unsearched: int = 0,
        undecided: frozenset[str] = frozenset(),
    ) -> None:
        """Make a pod wait: for an `awaited` event, for ever if there is none, or with None for its backoff.

        A demoted pod comes after all others and backs off for longer, until it is reinstated or edited. Its
        search has left so many nodes `unsearched`. Where some are `undecided`, the end of the backoff helps
        as well as an event of another node.
        """
        if (entry := self._entries.get(uid)) is not None:
            self.reservations.end(entry.kind_number)
            self._leave(entry)
            entry.count_attempt(now, demoted=demoted, unsearched=unsearched, undecided=undecided)
            self._set_aside(entry, awaited)

    def _set_aside(self, entry: Entry, awaited: AwaitedEvents | None = None) -> None:
        entry.awaited = awaited
        entry.kind_number = entry.kind_number or self._kind_number(entry.pod_info)
        if awaited is not None:
            self._all_woken_by.clear()
            self._unschedulable.add(entry)
        if awaited is None or entry.undecided:
            self._push_backoff(entry)

    def _kind_number(self, pod_info: PodInfo) -> int:
        """Return the number of a pod's kind; numbers that no pod has any more are forgotten."""
        if len(self._kind_numbers) > 2 * len(self._entries) + queues.SPARE_TICKETS:
            self._kind_numbers = {
                one.pod_info.kind: one.kind_number for one in self._entries.values() if one.kind_number
            }
        return self._kind_numbers.setdefault(pod_info.kind, next(self._next_kind_number))

    def put_back_refused(self, pod_info: PodInfo, *, attempts: int, now: float) -> None:
        """Put a pod back whose bind was refused; it is tried again after a pause, and after all others."""
        self.remove(pod_info.uid)
        self._entered(pod_info, attempts)
        self.requeue(pod_info.uid, now=now, awaited=None, demoted=True)

    def put_back_unjudged(self, pod_info: PodInfo, *, attempts: int) -> None:
        """Put a pod back whose bind was never judged: it is tried at once, since the fault is not its own."""
        self.remove(pod_info.uid)
        self._activate(self._entered(pod_info, max(1, attempts)))

    def back_off(self, uid: str, *, now: float) -> None:
        """Back off a pod that has a place but may not be bound yet; the next of its kind is tried."""
        if (entry := self._entries.get(uid)) is not None:
            self._leave(entry)
            entry.count_attempt(now)
            self._set_aside(entry)
            self._activate_next(entry.kind_number)

    def note_held_back(self, uid: str, *, now: float) -> None:
        """Record that a pod might fit, but only on nodes reserved for pods before it; it stays active."""
        if (entry := self._entries.get(uid)) is not None and entry.held_back_since is None:
            entry.held_back_since = now

    def suspend(self, namespace: str) -> None:
        """Skip the pods of a namespace until it is resumed; of each kind others are tried instead."""
        if namespace not in self._suspended:
            self._suspended.add(namespace)
            self._activate_next_of_each()

    def resume(self, namespace: str) -> None:
        """No longer skip the pods of a namespace."""
        self._suspended.resume(namespace)
        self._activate_next_of_each()

    @property
    def suspended(self) -> Collection[str]:
        """The namespaces that are suspended."""
        return self._suspended.names

    def first_in_line_of(self, namespace: str, most: int) -> list[PodInfo]:
        """Return the first active pods of a namespace, also where it is suspended."""
        active = (self._active_by_filters, self._active_by_search)
        tickets = itertools.chain.from_iterable(one.next_of(namespace, most) for one in active)
        return [self._entries[uid].pod_info for _, _, uid in sorted(tickets)[:most]]

    def demote(self, uid: str) -> None:
        """Put a pod behind all others from its next attempt on, until it is reinstated or edited."""
        if (entry := self._entries.get(uid)) is not None:
            entry.demoted = True

    def reinstate(self, uid: str) -> None:
        """Undo a demotion, and end the pod's pause if it waits for nothing else."""
        if (entry := self._entries.get(uid)) is not None:
            entry.demoted = False
            if entry.awaited is None:
                self._leave(entry)
                entry.not_before = 0.0
                self._activate(entry)

    def cluster_event(self, changes: Iterable[ClusterEvent]) -> None:
        """Wake the pods that one of these changes could help, whatever the node."""
        for group in self._unschedulable.awaiting(frozenset(changes), None):
            self._wake(group.pods.values(), None)

    def volumes_changed(self, claims: ChangedClaims) -> None:
        """Wake the pods that may be helped by a change of one of these claims; None stands for all."""
        found = (self._entries[uid] for uid in self.by_claim.uids(claims))
        self._wake((one for one in found if ClusterEvent.VOLUME_CHANGED in (one.awaited or ())), None)

    def awaits(self, changes: AwaitedEvents) -> bool:
        """Whether a pod waits for one of these changes."""
        return self._unschedulable.awaits(changes)

    def node_changed(self, node: str | None, changes: AwaitedEvents, able: Callable[[PodInfo], bool]) -> bool:
        """Wake the pods that such changes of a node could help, if `able` says that it might take them.

        Any rare event of the node may help the others from now on, since it may refuse them for a new reason.
        Without a node, pods have changed. Return False if kinds are too many to be compared, for `wake_all`.
        """
        allowed = self._comparisons
        if not allowed.take(self.reservations.comparisons(changes, allowed.left)):
            return False
        self.reservations.reserve_if_able(node, able)
        unable: list[event_waits.Group] = []
        for group in self._unschedulable.awaiting(changes, node):
            first = next(iter(group.pods.values())).pod_info
            if not allowed.take(first.comparisons(changes)):
                return False
            if able(first):
                self._wake(group.pods.values(), node)
            else:
                unable.append(group)
        if node is not None and self._unschedulable.changed_in_vain(unable, changes, node):
            self._all_woken_by.clear()
        return True

    def wake_all(self, node: str | None, change: ClusterEvent) -> None:
        """Wake all pods that wait for such an event of a node or of pods, because they cannot be compared."""
        self.reservations.reserve_for_all(node)
        if change not in self._all_woken_by:
            for group in self._unschedulable.awaiting(frozenset({change}), None):
                self._wake(group.pods.values(), node)
            self._all_woken_by.add(change)

    def _wake(self, entries: Iterable[Entry], node: str | None) -> None:
        for entry in list(entries):
            self._leave(entry)
            entry.awaited = None
            self._push_woken(entry)
            self.reservations.reserve_for_woken(entry, node)

    # ------------------------------------------------------------ whose turn it is

    def active(self, now: float, limit: int | None = None) -> Iterator[PodInfo]:
        """Yield the pods to try now in order; unless labels raise some, also those that join meanwhile."""
        self._comparisons.pay_in(now)
        self._sort_in_woken()
        for entry in wakeups.take_some(self._backoff, self._entries, lambda one: one.not_before <= now):
            self._end_backoff(entry)
        most_searched = MOST_SEARCHED_IN_A_ROUND if limit else math.inf
        tickets = queues.walk((self._active_by_filters, math.inf), (self._active_by_search, most_searched))
        found = (self._entries[uid] for _, _, uid in itertools.islice(tickets, limit))
        for entry in found if self._raised.empty else queue_order.reordered(list(found), self._first_raised):
            yield entry.pod_info

    def _end_backoff(self, entry: Entry) -> None:
        """Let a pod be tried on all nodes, those included whose search did not end."""
        if entry.awaited is not None:
            self._leave(entry)
            entry.awaited = None
        entry.undecided = frozenset()
        self._activate(entry)

    def out_of_order(self, now: float, done: Collection[str]) -> Iterator[tuple[PodInfo, frozenset[str]]]:
        """Yield active pods that were not tried in this round, with the nodes reserved for others."""
        for entry, reserved in self._rotation.each(self._entries, done, now):
            yield entry.pod_info, reserved

    def _first_raised(self, group: queue_order.Group, most: int) -> list[Entry]:
        """Return the first raised pods of a group that are active."""
        return [self._entries[uid] for _, _, uid in self._raised.next_of(group, most)]

    def next_due(self) -> float | None:
        """Return when the next pod may be tried, if no event comes; one that is active may be at once."""
        if not self._entries:
            return None
        self._sort_in_woken()
        if not self._woken.empty:
            return 0.0
        first = self._active_by_filters.first() or self._active_by_search.first() or self._backoff.first()
        return self._entries[first[0][2]].not_before if first is not None else None

    def _sort_in_woken(self) -> None:
        """Activate the first of the pods that were woken since the last time; the others back off."""
        if found := sorted(wakeups.take_some(self._woken, self._entries), key=queued_pods.SORT_KEY):
            sort_keys = list(map(queued_pods.SORT_KEY, found))
            if any(one.pod_info.label > 0 for one in found):
                found = queue_order.reordered(found, lambda *_: ())
            tried = wakeups.first_to_try(found, self._suspended.names)
            for entry, sort_key in zip(found, sort_keys, strict=True):
                if entry.pod_info.uid in tried:
                    entry.not_before = 0.0
                    self._activate(entry)
                else:
                    self._push_backoff(entry)
                    behind = self._woken_in_backoff.of(entry.kind_number)
                    behind.push(entry.pod_info.namespace, sort_key, entry.ticket, entry.pod_info.uid)

    def _activate_next_of_each(self) -> None:
        """Activate the next of each kind, because other pods come first now."""
        room = ACTIVATED_AT_ONCE
        for kind in self._woken_in_backoff:
            followers = (self._activate_next(kind) for _ in range(min(wakeups.TRIED_OF_A_KIND, room)))
            room -= sum(itertools.takewhile(bool, followers))

    def _activate_next(self, kind: int) -> bool:
        """Activate the next of the woken pods of a kind that are in backoff; return whether there was one."""
        if (ticket := self._woken_in_backoff.pop(kind)) is None:
            return False
        entry = self._entries[ticket[2]]
        entry.not_before = 0.0
        self._activate(entry)
        return True

    # ------------------------------------------------------------ queues

    def _activate(self, entry: Entry) -> None:
        line = self._active_by_search if entry.pod_info.needs_device_search else self._active_by_filters
        ticket, uid = self._ticket(entry), entry.pod_info.uid
        line.push(entry.pod_info.namespace, entry.sort_key, ticket, uid)
        if entry.raised:
            self._raised.push(entry.group, entry.local, ticket, uid)
        self._rotation.stand(entry)

    def _push_backoff(self, entry: Entry) -> None:
        of = entry.pod_info
        self._backoff.push(of.namespace, entry.not_before, self._ticket(entry), of.uid)

    def _push_woken(self, entry: Entry) -> None:
        of = entry.pod_info
        self._woken.push(of.namespace, wakeups.rank(entry), self._ticket(entry), of.uid)

    def _ticket(self, entry: Entry) -> int:
        self._last_ticket += 1
        entry.ticket = self._last_ticket
        return self._last_ticket

    def _stands(self, uid: str, ticket: int) -> bool:
        return (entry := self._entries.get(uid)) is not None and entry.ticket == ticket

    def _leave(self, entry: Entry) -> None:
        """Remove the pod from the queue in which it stands."""
        entry.ticket, entry.held_back_since = 0, None
        self.reservations.remove(entry)
        self._unschedulable.remove(entry)
