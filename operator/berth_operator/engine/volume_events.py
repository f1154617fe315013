"""The part of the ledger that follows claims, PersistentVolumes and storage.

A change wakes the pods that wait with a claim that it is about, now or soon (`paced_calls`), and at once
those binds that wait for it. Thousands of pods may use the same claims. So claims that many pods use are
paced together, those of a namespace; a claim of few pods by itself.
"""

import asyncio
import contextlib
import functools
from collections.abc import Iterable, Iterator
from typing import Final

from berth_operator.engine import paced_calls, pod_revisions
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.pods_by_claim import ChangedClaims
from berth_operator.scheduling.volumes import facts, index

FEW_PODS: Final = 8  # Of a claim that is paced by itself.


class VolumeEvents:
    """Applies events to the volumes of an inventory, and wakes those who wait for them."""

    def __init__(
        self, volumes: index.Volumes, backlog: Backlog, wake: asyncio.Event, paced: paced_calls.PacedCalls
    ) -> None:
        self.volumes = volumes
        self._backlog = backlog
        self._wake = wake
        self._paced = paced
        self._waiting: dict[facts.ClaimKey, dict[asyncio.Event, None]] = {}
        # By namespace, the claims of many pods that have changed.
        self._crowded: dict[str, set[facts.ClaimKey]] = {}
        volumes.on_change = self._changed

    def _changed(self, claims: ChangedClaims) -> None:
        if self._backlog:
            self._wake_pods(claims)
        self._wake.set()
        for key in list(self._waiting) if claims is None else claims:
            for event in self._waiting.get(key, ()):
                event.set()

    def _wake_pods(self, claims: ChangedClaims) -> None:
        if claims is None:
            self._paced.call("any claim has changed", lambda: self._backlog.volumes_changed(None))
            return
        for key in claims:
            if not (pods := self._backlog.by_claim.count(key)):
                continue  # A pod that ends may have had a thousand claims that nobody waits for.
            if pods <= FEW_PODS:
                call = functools.partial(self._backlog.volumes_changed, frozenset((key,)))
                self._paced.call(("a claim has changed", key), call)
            else:
                namespace, _ = key
                self._crowded.setdefault(namespace, set()).add(key)
                call = functools.partial(self._wake_crowds, namespace)
                self._paced.call(("claims of many pods have changed", namespace), call)

    def _wake_crowds(self, namespace: str) -> None:
        self._backlog.volumes_changed(self._crowded.pop(namespace, frozenset()))

    @contextlib.contextmanager
    def following(self, claims: Iterable[facts.ClaimKey]) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever one of these claims may have changed."""
        event, keys = asyncio.Event(), tuple(claims)
        for key in keys:
            self._waiting.setdefault(key, {})[event] = None
        try:
            yield event
        finally:
            for key in keys:
                del self._waiting[key][event]
                if not self._waiting[key]:
                    del self._waiting[key]

    def claim_read(self, claim: facts.Claim) -> None:
        """Record a claim that was read beside the watch, unless the watch has shown a later revision."""
        known = self.volumes.claims.get(claim.key)
        if known is None or _is_later(claim.version, known.version):
            self.volumes.put_claim(claim)

    def claim_gone(self, key: facts.ClaimKey, uid: str) -> None:
        """Record that a claim was not found, unless the watch has shown another one of its name."""
        known = self.volumes.claims.get(key)
        if known is not None and known.uid == uid:
            self.volumes.drop_claim(key)

    def volume_read(self, volume: facts.Volume) -> None:
        """Record a PersistentVolume that was read beside the watch, unless a later revision is known."""
        known = self.volumes.volumes.get(volume.name)
        if known is None or _is_later(volume.version, known.version):
            self.volumes.put_volume(volume)


def _is_later(version: str, known: str) -> bool:
    return pod_revisions.Revision.of(version).number > pod_revisions.Revision.of(known).number
