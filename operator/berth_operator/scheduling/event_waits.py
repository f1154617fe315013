"""The pods that wait for a cluster event, in groups that the same events of the same nodes may help."""

from collections.abc import Sequence

from berth_operator.scheduling.decisions import AwaitedEvents
from berth_operator.scheduling.queued_pods import Entry, EventWait

Group = dict[str, Entry]  # By uid.


class EventWaits:
    """Groups of pods of one kind, by what they wait for."""

    def __init__(self) -> None:
        self._groups: dict[EventWait, Group] = {}

    def add(self, entry: Entry) -> None:
        """Add a pod that waits for an event."""
        if (wait := entry.event_wait) is not None:
            self._groups.setdefault(wait, {})[entry.pod_info.uid] = entry

    def remove(self, entry: Entry) -> None:
        """Remove a pod, if it is there."""
        if (wait := entry.event_wait) is not None and (group := self._groups.get(wait)) is not None:
            group.pop(entry.pod_info.uid, None)
            if not group:
                del self._groups[wait]

    def awaits(self, changes: AwaitedEvents) -> bool:
        """Whether a pod waits for one of these changes."""
        return any(not wait.awaited.isdisjoint(changes) for wait in self._groups)

    def awaiting(self, changes: AwaitedEvents, node: str | None) -> Sequence[tuple[EventWait, Group]]:
        """Return the groups that wait for one of these changes of a node, or of any if that is None.

        Groups whose search left the node undecided are not among them.
        """
        return [
            (wait, group)
            for wait, group in self._groups.items()
            if not wait.awaited.isdisjoint(changes) and node not in wait.undecided
        ]

    def pop(self, wait: EventWait) -> Group:
        """Remove a group, and return it."""
        return self._groups.pop(wait)
