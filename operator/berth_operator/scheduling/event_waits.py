"""The pods that wait for a cluster event, in groups that the same events of the same nodes may help.

A node may change and still refuse the pods of a group: it has changed in vain. From then on it may refuse
them for another reason than when they were tried, and nobody knows for which. So any rare event of that node
may help the group, too (`ANY_RARE_EVENT`), as well as what the group waits for on all nodes.
"""

import collections
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Final

from berth_operator.scheduling.decisions import ANY_RARE_EVENT, AwaitedEvents, ClusterEvent
from berth_operator.scheduling.queued_pods import Entry, EventWait

MOST_NODES: Final = 1 << 14  # Whose changes in vain are remembered.

Pods = dict[str, Entry]  # By uid.
InVain = Mapping[ClusterEvent, int]  # By event, the serial number of its last change in vain.


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Pods that wait for the same, and how many changes in vain there had been before the first of them."""

    wait: EventWait
    since: int
    pods: Pods = dataclasses.field(default_factory=dict)

    def waits_for(self, events: AwaitedEvents) -> bool:
        """Whether one of these events may help on any node, whatever has changed before."""
        return not self.wait.awaited.isdisjoint(events)

    def has_seen_one_of(self, in_vain: InVain) -> bool:
        """Whether something that it waits for has changed in vain since then."""
        return any(in_vain.get(event, 0) > self.since for event in self.wait.awaited)


class EventWaits:
    """Groups of pods of one kind, by what they wait for."""

    def __init__(self) -> None:
        self._groups: dict[EventWait, Group] = {}
        self._count = 0  # Of all changes in vain.
        self._in_vain = collections.OrderedDict[str, InVain]()  # By node.
        self._in_vain_anywhere: InVain = {}
        self._forgotten: InVain = {}  # Of nodes whose changes are not remembered any more.

    def add(self, entry: Entry) -> None:
        """Add a pod that waits for an event."""
        if (wait := entry.event_wait) is not None:
            if (group := self._groups.get(wait)) is None:
                group = self._groups[wait] = Group(wait, self._count)
            group.pods[entry.pod_info.uid] = entry

    def remove(self, entry: Entry) -> None:
        """Remove a pod, if it is there."""
        if (wait := entry.event_wait) is not None and (group := self._groups.get(wait)) is not None:
            group.pods.pop(entry.pod_info.uid, None)
            if not group.pods:
                del self._groups[wait]
            if not self._groups:
                self._in_vain.clear()

    def awaits(self, events: AwaitedEvents) -> bool:
        """Whether a pod waits for one of these events, of whatever node."""
        return any(group.waits_for(events) for group in self._groups.values())

    def awaiting(self, events: AwaitedEvents, node: str | None) -> list[Group]:
        """Return the groups that one of these events of a node may help, or of any node if that is None.

        Groups whose search left the node undecided are not among them.
        """
        groups = [one for one in self._groups.values() if node not in one.wait.undecided]
        in_vain = self._in_vain_anywhere if node is None else self._in_vain.get(node, self._forgotten)
        if events.isdisjoint(ANY_RARE_EVENT) or not in_vain:
            return [one for one in groups if one.waits_for(events)]
        return [one for one in groups if one.waits_for(events) or one.has_seen_one_of(in_vain)]

    def changed_in_vain(self, groups: Iterable[Group], events: AwaitedEvents, node: str) -> bool:
        """Record that such events of a node have helped none of these groups; return whether that matters.

        It does not matter to groups that wait for every rare event of all nodes anyway.
        """
        if all(one.wait.awaited >= ANY_RARE_EVENT or not one.waits_for(events) for one in groups):
            return False
        self._count += 1
        numbers = dict.fromkeys(events, self._count)
        self._in_vain_anywhere = {**self._in_vain_anywhere, **numbers}
        self._in_vain[node] = {**self._in_vain.get(node, self._forgotten), **numbers}
        self._in_vain.move_to_end(node)
        if len(self._in_vain) > MOST_NODES:
            _, oldest = self._in_vain.popitem(last=False)
            self._forgotten = dict.fromkeys(ClusterEvent, max(oldest.values()))
        return True
