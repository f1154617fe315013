"""What the kubelet and the driver say of the pods of the node, for as long as it is the newest.

Both speak at moments of their own, and each may fail: then what it said last stands.
A source that has never spoken is another matter: nothing may be concluded from its
silence, neither that a record is an orphan nor that a process is a stray. This module
keeps what was said, turned into pods and pieces. Asking is for others, and so is what
follows for the records.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from berth_agent import settings
from berth_agent.gpupods import residents, verdict
from berth_agent.kubelet import follower, ids, podresources
from berth_crds import vocabulary, wire

K = TypeVar("K")
Seen = Mapping[ids.Key, verdict.ByContainer]
Living = Callable[[ids.Key], str]  # The uid of a pod that has not ended; empty for all others.


@dataclasses.dataclass(frozen=True, slots=True)
class Sources:
    """Which sources there are, and the resources of the kubelet that are GPUs."""

    kubelet: bool = False
    driver: bool = False
    resources: tuple[str, ...] = settings.GPU_RESOURCES

    def __bool__(self) -> bool:
        """Whether there is any."""
        return self.kubelet or self.driver


@dataclasses.dataclass(frozen=True, slots=True)
class Listed:
    """What the kubelet lists under one name; the uid that the pod of this name had by then, and if it ran.

    Devices are handed out before a pod runs, but not before it is listed.
    """

    uid: str
    entries: tuple[podresources.Pod, ...] = ()
    ran: bool = False


class Witnesses:
    """Keeps what was said; `on_change` is told of which pods that is something else, None for all of them."""

    def __init__(
        self,
        sources: Sources,
        living: Living,
        runs: Callable[[ids.Key], bool],
        *,
        on_change: Callable[[Collection[ids.Key] | None], None],
    ) -> None:
        self.sources = sources
        self.known: ids.Pieces = {}
        self.holdings: ids.Holdings = {}
        self._living = living
        self._runs = runs
        self._on_change = on_change
        self._report = follower.KubeletReport()
        self._listed: dict[ids.Key, Listed] = {}
        self._changed: set[ids.Key] = set()  # Pods that have changed since the kubelet was last asked.
        self._looked = False
        self._sights: tuple[residents.Sight, ...] = ()
        self._seen: Seen = {}
        self._suspects: frozenset[residents.Sight] = frozenset()

    def __repr__(self) -> str:
        """Return the state in words."""
        return f"<Witnesses: the kubelet tells of {len(self.holdings)} pods, the driver of {len(self._seen)}>"

    # ------------------------------------------------------------ what is said

    def changed(self, key: ids.Key) -> None:
        """Learn that a pod has changed: an answer that is on its way may be older than that."""
        if self.sources.kubelet:
            self._changed.add(key)

    def asking(self) -> None:
        """Learn that the kubelet is asked now."""
        self._changed.clear()

    def kubelet_reported(self, report: follower.KubeletReport) -> None:
        """Apply what the kubelet says, or that it says nothing.

        A kubelet that has just started does not know its pods yet, and lists none. So what it said of
        a pod stands for as long as that very pod lives and nothing else is said of it.
        """
        before, trouble = self._listed, self._report.trouble
        if report.pods is not None and report.trouble is None:  # Else these are what it said before.
            left = {key: one for key, one in before.items() if one.uid and self._living(key) == one.uid}
            self._listed = left | self._grouped(report.pods)
            self._hold()
        self._report = report
        self._on_change(_differing(before, self._listed) if trouble == report.trouble else None)

    def _grouped(self, pods: Iterable[podresources.Pod]) -> dict[ids.Key, Listed]:
        found: dict[ids.Key, list[podresources.Pod]] = {}
        for pod in pods:
            found.setdefault((pod.namespace, pod.name), []).append(pod)
        return {key: self._listing(key, tuple(entries)) for key, entries in found.items()}

    def _listing(self, key: ids.Key, entries: tuple[podresources.Pod, ...]) -> Listed:
        uid, before = self._living(key), self._listed.get(key)
        ran = before is not None and before.ran and before.uid == uid
        return Listed(uid, entries, self._runs(key) and (ran or key not in self._changed))

    def furnished(self, known: ids.Pieces) -> None:
        """Learn what there is to hold."""
        if known != self.known:
            self.known = known
            self._hold()
            self._on_change(None)

    def looked(self, found: Iterable[residents.Resident], join: residents.Joins) -> None:
        """Apply what the driver shows."""
        self._sights = residents.sights(found, self.known, join)
        first, before = not self._looked, self._seen
        self._looked, self._seen = True, residents.by_pod(self._sights)
        if first or before != self._seen:
            self._on_change(None if first else _differing(before, self._seen))

    def _hold(self) -> None:
        listed = (pod for one in self._listed.values() for pod in one.entries)
        self.holdings = ids.holdings(listed, self.sources.resources, self.known)

    # ------------------------------------------------------------ what follows

    def complete(self, key: ids.Key) -> bool:
        """Return whether each source would have shown a pod on a card, if it had one."""
        return self.kubelet_knows(key) and (self._looked or not self.sources.driver)

    def kubelet_knows(self, key: ids.Key) -> bool:
        """Return whether the kubelet has spoken of a pod, be it that it has no card; or is never asked."""
        return key in self._listed or not self.sources.kubelet

    def empty_handed(self, key: ids.Key, uid: str) -> bool:
        """Whether the kubelet has listed this pod since it runs, and without any device."""
        listed = self._listed.get(key)
        if listed is None or listed.uid != uid or not listed.ran:
            return False
        containers = [container for pod in listed.entries for container in pod.containers]
        return not any(one.ids for container in containers for one in container.devices)

    def evidence(self, key: ids.Key, said: Iterable[wire.Grant] = ()) -> verdict.Evidence | None:
        """Return what is known of one pod; None where there is no source at all.

        `said` is what its record has so far. It stands for a source that has not spoken since the
        agent started: to know less than the agent before us is no news.
        """
        if not self.sources:
            return None
        kubelet: verdict.ByContainer = {
            name: tuple(one.uuid for one in held) for name, held in self.holdings.get(key, {}).items()
        }
        if not self.kubelet_knows(key):
            kubelet = _remembered(said, verdict.PODRESOURCES)
        driver = self._seen.get(key, {})
        if self.sources.driver and not self._looked:
            driver = _remembered(said, verdict.NVML)
        trouble = self._report.trouble
        return verdict.Evidence(kubelet, driver, str(trouble) if trouble else "")

    def strays(self, given: Callable[[ids.Key], Iterable[str]]) -> tuple[residents.Sight, ...] | None:
        """Find the processes that nobody gave their card; None while that cannot be told.

        `given` says what Berth gave to a pod. Ask once for each look: who is suspect in two looks in a
        row is a stray.
        """
        if not self._looked or (self.sources.kubelet and not self._report.spoke):
            return None

        def all_given(key: ids.Key) -> Iterable[str]:
            held = self.holdings.get(key, {})
            return (*given(key), *(one.uuid for pieces in held.values() for one in pieces))

        suspects = residents.strays(self._sights, all_given, self.known)
        found = residents.lasting(suspects, self._suspects)
        self._suspects = suspects
        return found


def _differing(before: Mapping[K, object], after: Mapping[K, object]) -> set[K]:
    """Return the keys of what is not the same in both."""
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def _remembered(said: Iterable[wire.Grant], source: vocabulary.GrantSource) -> verdict.ByContainer:
    return {one.container: one.uuids for one in said if one.source == source}
