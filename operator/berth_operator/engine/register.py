"""Pods whose own record cannot be read, and the GpuPods that may name their devices.

The ledger asks here what such a pod holds now. GpuPods are kept by the name that they
share with their pod, each until it is gone; of pods with a readable record nothing is
kept, for they take nothing from their GpuPod. People are told when a GpuPod speaks for
its pod, when one is ignored, and when nobody names a pod's cards any more.
"""

import logging
from collections.abc import Collection

from berth_operator.scheduling import naming
from berth_operator.scheduling.devices import facts
from berth_operator.scheduling.holds import Hold

log = logging.getLogger(__name__)


class Register:
    """Who withholds, and who may speak for whom."""

    def __init__(self, voice: logging.Logger = log) -> None:
        self._voice = voice
        self._named: dict[str, naming.Named] = {}  # By the title of the pod.
        self._nameless: dict[str, tuple[Hold, naming.Nameless]] = {}  # By uid.
        self._uids: dict[str, str] = {}  # Of the nameless, by title.
        self._said: dict[str, str] = {}  # By uid.

    def __repr__(self) -> str:
        """Tell the state in words."""
        return f"<Register: {len(self._nameless)} nameless pods, {len(self._named)} GpuPods>"

    def __contains__(self, uid: str) -> bool:
        """Tell whether the own record of a pod cannot be read."""
        return uid in self._nameless

    def named(self, named: naming.Named) -> str | None:
        """Take what a GpuPod says; give the uid of the nameless pod to which it may be news."""
        if self._named.get(named.title) == named:
            return None
        self._named[named.title] = named
        return self._uids.get(named.title)

    def unnamed(self, title: str) -> str | None:
        """Forget a GpuPod; give the uid of the nameless pod to which it may be news."""
        known = self._named.pop(title, None)
        return self._uids.get(title) if known is not None else None

    def come(self, hold: Hold, nameless: naming.Nameless) -> None:
        """Take a pod whose own record cannot be read, and what it withholds if nobody speaks for it."""
        self._nameless[hold.uid] = hold, nameless
        self._uids[hold.title] = hold.uid

    def go(self, uid: str) -> None:
        """Forget a pod: it is over, or its own record can be read."""
        hold, _ = self._nameless.pop(uid, (None, None))
        self._said.pop(uid, None)
        if hold is not None and self._uids.get(hold.title) == uid:
            del self._uids[hold.title]

    def held(self, uid: str, device: facts.Device | None, offers: Collection[str] | None) -> Hold:
        """Return what a nameless pod holds now, given the devices of its node and the resources it offers."""
        hold, nameless = self._nameless[uid]
        hold = naming.offered(hold, nameless, offers)
        named = self._named.get(hold.title)
        found = naming.held(hold, nameless, named, device)
        self._say(hold, found, naming.objection(hold, named) if named is not None else "")
        return found

    def _say(self, hold: Hold, found: Hold, objection: str) -> None:
        """Tell people, once for as long as nothing changes."""
        news = f"GpuPod {hold.title} is ignored: {objection}" if objection else _spoken(found)
        before = self._said.get(hold.uid, "")
        self._said[hold.uid] = news
        if news != before:
            level = logging.INFO if found.shares else logging.WARNING
            self._voice.log(level, "%s", news or f"no GpuPod names the devices of {hold.title} now")


def _spoken(found: Hold) -> str:
    if not found.shares:
        return ""
    rest = f", but for {found.withheld} which it still withholds" if found.withheld else ""
    return f"the GpuPod of {found.title} names its devices on {found.node}{rest}"
