"""Pods whose own record cannot be read, and the GpuPods that may name their devices.

The ledger asks here what such a pod holds now. A GpuPod counts for the pod of its uid on its node,
whatever its name is: only the agent of that node can have written it. It is kept until it is deleted, or
until its pod has a readable record. What is kept of one node is limited, since its agent's token allows
any number of GpuPods. A change is logged: when a GpuPod names the devices of its pod, when one is
ignored, and when no GpuPod names a pod's devices any more.
"""

import dataclasses
import logging
from collections.abc import Collection, KeysView
from typing import Final

from berth_crds import logs
from berth_operator.engine import totals
from berth_operator.scheduling import allocation_recovery
from berth_operator.scheduling.devices import device_facts
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.policy import Policy

log = logging.getLogger(__name__)

# Of all GpuPods of a node together, each of which counts as one more share than it lists: enough to list
# each of 64 cards a hundred times over.
MOST_SHARES: Final = 8192


class UnreadablePods:
    """All unreadable pods, and the GpuPods that may name their devices."""

    def __init__(self, logger: logging.Logger = log) -> None:
        self._logger = logger
        self._gpupods: dict[str, allocation_recovery.NamedDevices] = {}  # By the title of the GpuPod.
        self._titles: dict[str, dict[str, None]] = {}  # The titles of GpuPods, by the uid of their pod.
        self._pods: dict[str, tuple[Hold, allocation_recovery.UnreadableAllocation]] = {}  # By uid.
        self._shares = totals.Totals()  # Listed by all these, by node.
        self._limited: set[str] = set()  # The nodes of whose GpuPods some were once too many.
        self._uids: dict[str, str] = {}  # Of the nameless, by title.
        self._logged: dict[str, str] = {}  # By uid.
        self._believed = Policy().pod_records_from  # The schedulers.

    def __repr__(self) -> str:
        """Return the state in words."""
        return f"<UnreadablePods: {len(self._pods)} pods, {len(self._gpupods)} GpuPods>"

    def __contains__(self, uid: str) -> bool:
        """Whether the own record of a pod cannot be read."""
        return uid in self._pods

    def gpupod_seen(self, named: allocation_recovery.NamedDevices) -> set[str]:
        """Record a GpuPod; return the uids of the pods that it may concern."""
        before = self._gpupods.get(named.title)
        if before == named:
            return set()
        self._remove_gpupod(named.title)
        if self._shares[named.node] + named.size <= MOST_SHARES:
            self._gpupods[named.title] = named
            self._titles.setdefault(named.uid, {})[named.title] = None
            self._shares.add(named.node, named.size)
        else:
            self._limited.add(named.node)
            self._logger.warning(
                "GpuPod %s is ignored: those of node %s list more than %d shares in all",
                named.title,
                named.node,
                MOST_SHARES,
                extra=logs.about(f"GpuPods of {named.node}"),
            )
        return self._affected(named.title, named, before)

    def is_limited(self, node: str) -> bool:
        """Whether an agent has named more than is read, so that it is chance which of it is."""
        return node in self._limited

    def gpupod_gone(self, title: str) -> set[str]:
        """Forget a GpuPod; return the uids of the pods that it may concern."""
        before = self._remove_gpupod(title)
        return self._affected(title, before) if before is not None else set()

    def _remove_gpupod(self, title: str) -> allocation_recovery.NamedDevices | None:
        if (before := self._gpupods.pop(title, None)) is not None:
            titles = self._titles[before.uid]
            del titles[title]
            if not titles:
                del self._titles[before.uid]
            self._shares.add(before.node, -before.size)
        return before

    def _affected(self, title: str, *gpupods: allocation_recovery.NamedDevices | None) -> set[str]:
        """Return the uids of pods with this title, or with the uids of these GpuPods."""
        uids = {one.uid for one in gpupods if one is not None} | {self._uids.get(title, "")}
        return uids & self._pods.keys()

    def _gpupod_of(self, hold: Hold, most: int) -> allocation_recovery.NamedDevices | None:
        """Return the GpuPod that names the devices of a pod; else an ignored one, of its uid or its title."""
        gpupods = [self._gpupods[title] for title in self._titles.get(hold.uid, ())]
        valid = [one for one in gpupods if not allocation_recovery.rejection(hold, one, most)]
        if valid:
            return max(valid, key=lambda one: (bool(one.grants), one.title == hold.title))
        return gpupods[0] if gpupods else self._gpupods.get(hold.title)

    def add(self, hold: Hold, nameless: allocation_recovery.UnreadableAllocation) -> None:
        """Record a pod whose own record cannot be read, and what it withholds without a GpuPod."""
        self._pods[hold.uid] = hold, nameless
        self._uids[hold.title] = hold.uid

    def believe(self, schedulers: frozenset[str]) -> set[str]:
        """Believe the records of these schedulers alone; return the uids of the pods that this concerns."""
        changed = schedulers ^ self._believed
        self._believed = schedulers
        return {uid for uid in self._pods if self.record_scheduler(uid) in changed} if changed else set()

    def record_scheduler(self, uid: str) -> str | None:
        """Return the scheduler whose record of its devices a pod has; None if it has no record."""
        _, nameless = self._pods[uid]
        return nameless.record.scheduler if nameless.record is not None else None

    def disbelieved(self, uid: str) -> str | None:
        """Return the scheduler whose record of a pod's devices is not believed; None if there is none."""
        scheduler = self.record_scheduler(uid) if uid in self._pods else None
        return scheduler if scheduler not in self._believed else None

    def uids(self) -> KeysView[str]:
        """Return the uids of all unreadable pods."""
        return self._pods.keys()

    def of_other_scheduler(self, uid: str) -> Hold | None:
        """Return what a pod withholds that another scheduler has bound, naming no cards that are believed."""
        hold, nameless = self._pods.get(uid, (None, None))
        if nameless is None:
            return None
        unnamed = nameless.plugged is not None and not (nameless.record and nameless.record.minors)
        return hold if unnamed or self.disbelieved(uid) is not None else None

    def remove(self, uid: str) -> None:
        """Forget a pod that is over, or whose own record can be read."""
        hold, _ = self._pods.pop(uid, (None, None))
        self._logged.pop(uid, None)
        if hold is not None and self._uids.get(hold.title) == uid:
            del self._uids[hold.title]

    def remove_gpupods_of(self, uid: str) -> None:
        """Forget the GpuPods of a pod whose own record can be read."""
        for title in list(self._titles.get(uid, ())):
            self._remove_gpupod(title)

    def current_hold(
        self, uid: str, device: device_facts.Device | None, plugged: Collection[str] | None
    ) -> Hold:
        """Return what a pod holds now, given the devices of its node and what a plugin may give of them."""
        hold, nameless = self._pods[uid]
        if self.disbelieved(uid) is not None:
            nameless = allocation_recovery.distrusted(nameless)
        hold = allocation_recovery.offered(hold, nameless, plugged)
        named = self._gpupod_of(hold, nameless.most)
        found = allocation_recovery.held(hold, nameless, named, device)
        if found.shares:
            found = dataclasses.replace(found, by_agent=True)
        rejection = allocation_recovery.rejection(hold, named, nameless.most) if named is not None else ""
        self._log_change(hold, found, rejection, is_named=named is not None and bool(named.grants))
        return found

    def _log_change(self, hold: Hold, found: Hold, rejection: str, *, is_named: bool) -> None:
        """Log what a pod holds, once for as long as nothing changes."""
        message = f"GpuPod {hold.title} is ignored: {rejection}" if rejection else ""
        message = message or (_named_devices(found) if is_named else "")
        before = self._logged.get(hold.uid, "")
        self._logged[hold.uid] = message
        if message != before:
            level = logging.INFO if found.shares else logging.WARNING
            message = message or f"no GpuPod names the devices of {hold.title} now"
            self._logger.log(level, "%s", message, extra=logs.pod(hold.title))


def _named_devices(found: Hold) -> str:
    if not found.shares:
        return ""
    left = [str(found.withheld)] if found.withheld else []
    left += [f"any of type {kind}" for kind in sorted(found.withheld_types)]
    rest = f", but for {' and '.join(left)} which it still withholds" if left else ""
    return f"the GpuPod of {found.title} names its devices on {found.node}{rest}"
