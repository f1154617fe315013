"""Cards that a kubelet gave to pods in place of those that their binds promised, as the nodes' agents say.

The record of the bind stays, and what it names stays charged, for the environment of the pod may still show
it. The other cards are marked: nothing more of them is given while the pod has them.
"""

import dataclasses
import logging
from collections.abc import Iterable
from typing import Final

from berth_crds import logs
from berth_operator.scheduling import allocation_recovery
from berth_operator.scheduling.holds import Hold

log = logging.getLogger(__name__)

MOST_CARDS: Final = 64  # Of one pod; no node has more.


class GivenOtherwise:
    """What agents say of pods whose own record can be read."""

    def __init__(self, logger: logging.Logger = log) -> None:
        self._logger = logger
        self._found: dict[str, allocation_recovery.NamedDevices] = {}  # By the title of the GpuPod.
        self._titles: dict[str, str] = {}  # Of the GpuPod, by the uid of its pod.
        self._marked: dict[str, frozenset[str]] = {}  # By the uid of the pod.

    def __repr__(self) -> str:
        """Return the state in words."""
        return f"<GivenOtherwise: {len(self._found)} pods>"

    def gpupod_seen(self, named: allocation_recovery.NamedDevices) -> set[str]:
        """Record what a GpuPod says; return the uids of the pods that it concerns."""
        affected = self.gpupod_gone(named.title)
        if named.given_otherwise and len(named.given_otherwise) <= MOST_CARDS:
            self._found[named.title] = named
            self._titles[named.uid] = named.title
            affected.add(named.uid)
        return affected

    def gpupod_gone(self, title: str) -> set[str]:
        """Forget a GpuPod; return the uids of the pods that it concerned."""
        if (before := self._found.pop(title, None)) is None:
            return set()
        if self._titles.get(before.uid) == title:
            del self._titles[before.uid]
        return {before.uid}

    def marked(self, hold: Hold) -> Hold:
        """Return what a pod holds, with the cards marked that it was given otherwise, and no others."""
        before = self._marked.pop(hold.uid, frozenset())
        own = hold.marked - before
        named = self._found.get(self._titles.get(hold.uid, ""))
        if named is None or named.node != hold.node:
            return dataclasses.replace(hold, marked=own)
        extra = named.given_otherwise - own - {share.uuid for share in hold.shares}
        if extra:
            self._marked[hold.uid] = extra
        if extra - before:
            self._logger.warning(
                "pod %s was given %s on %s, which its bind did not promise; nothing more of that is given",
                hold.title,
                ", ".join(sorted(extra)),
                hold.node,
                extra=logs.pod(hold.title),
            )
        return dataclasses.replace(hold, marked=own | extra)

    def all(self) -> Iterable[tuple[str, frozenset[str]]]:
        """Return the uids of the pods that were given otherwise, each with these cards."""
        return self._marked.items()

    def pod_over(self, uid: str) -> None:
        """Forget what was marked of a pod that is over."""
        self._marked.pop(uid, None)
