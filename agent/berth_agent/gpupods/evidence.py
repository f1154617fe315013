"""The last answers of the kubelet and the driver about the pods of the node.

The two answer independently, and each may fail: then its last answer stands. As long as a source
has never answered, nothing may be concluded from that: neither that a GpuPod is an orphan nor that
a process is unauthorized. This module keeps the answers, by pod and device. Others ask, and decide
what follows for the GpuPods.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from berth_agent import device_status, flag_table, other_holders
from berth_agent.gpupods import process_owners, verification
from berth_agent.kubelet import device_ids, podresources, poller
from berth_crds import vocabulary, wire

K = TypeVar("K")
ByPod = Mapping[device_ids.PodKey, verification.ByContainer]
LivingUid = Callable[[device_ids.PodKey], str]  # The uid of a pod that has not ended; empty for all others.


@dataclasses.dataclass(frozen=True, slots=True)
class EvidenceSources:
    """Which sources there are, and which resources of the kubelet and drivers of claims give GPUs.

    A process that nobody gave its card is small if it uses less of it than `least_process_memory` bytes.
    """

    kubelet: bool = False
    driver: bool = False
    resources: tuple[str, ...] = flag_table.GPU_RESOURCES
    drivers: tuple[str, ...] = other_holders.DRA_DRIVERS
    least_process_memory: int = other_holders.USUAL.least_process_memory


@dataclasses.dataclass(frozen=True, slots=True)
class KubeletListing:
    """What the kubelet lists under one name, the uid of that pod at the time, and whether it was running.

    The kubelet allocates devices before a pod runs, but may list the pod before that.
    """

    uid: str
    entries: tuple[podresources.ListedPod, ...] = ()
    was_running: bool = False


class EvidenceCache:
    """The last answers; `on_change` is called with the pods for which they changed, None for all."""

    def __init__(
        self,
        sources: EvidenceSources,
        living_uid: LivingUid,
        is_running: Callable[[device_ids.PodKey], bool],
        *,
        on_change: Callable[[Collection[device_ids.PodKey] | None], None],
    ) -> None:
        self.sources = sources
        self.allocatable: device_ids.AllocatableDevices = {}
        self.holdings: device_ids.Holdings = {}
        self._living_uid = living_uid
        self._is_running = is_running
        self._on_change = on_change
        self._report = poller.KubeletReport()
        self._listed: dict[device_ids.PodKey, KubeletListing] = {}
        self._changed: set[device_ids.PodKey] = (
            set()
        )  # Pods that have changed since the kubelet was last asked.
        self._processes_known = False
        self._processes: tuple[process_owners.CardProcess, ...] = ()
        self._driver: ByPod = {}
        self._suspects: frozenset[process_owners.CardProcess] = frozenset()

    # ------------------------------------------------------------ answers

    def pod_changed(self, key: device_ids.PodKey) -> None:
        """Note that a pod has changed: an answer that is under way may be older than that."""
        if self.sources.kubelet:
            self._changed.add(key)

    def kubelet_requested(self) -> None:
        """Note that the kubelet is asked now."""
        self._changed.clear()

    def kubelet_reported(self, report: poller.KubeletReport) -> None:
        """Apply an answer of the kubelet, or its failure.

        A kubelet that has just started does not know its pods yet, and lists none. So its last answer
        about a pod stands for as long as that very pod lives and is not listed again.
        """
        before, failure = self._listed, self._report.failure
        if (
            report.pods is not None and report.failure is None
        ):  # Otherwise these are the pods of its last answer.
            kept = {
                key: listing
                for key, listing in before.items()
                if listing.uid and self._living_uid(key) == listing.uid
            }
            self._listed = kept | self._grouped(report.pods)
            self._update_holdings()
        self._report = report
        self._on_change(_differing(before, self._listed) if failure == report.failure else None)

    def _grouped(self, pods: Iterable[podresources.ListedPod]) -> dict[device_ids.PodKey, KubeletListing]:
        found: dict[device_ids.PodKey, list[podresources.ListedPod]] = {}
        for pod in pods:
            found.setdefault((pod.namespace, pod.name), []).append(pod)
        return {key: self._listing(key, tuple(entries)) for key, entries in found.items()}

    def _listing(self, key: device_ids.PodKey, entries: tuple[podresources.ListedPod, ...]) -> KubeletListing:
        uid, before = self._living_uid(key), self._listed.get(key)
        was_running = before is not None and before.was_running and before.uid == uid
        return KubeletListing(
            uid, entries, self._is_running(key) and (was_running or key not in self._changed)
        )

    def set_allocatable(self, allocatable: device_ids.AllocatableDevices) -> None:
        """Set the devices that the node has."""
        if allocatable != self.allocatable:
            self.allocatable = allocatable
            self._update_holdings()
            self._on_change(None)

    def processes_seen(
        self, found: Iterable[process_owners.LocatedProcess], owner_of: process_owners.OwnerOf
    ) -> None:
        """Apply the processes that the driver lists."""
        self._processes = process_owners.on_cards(found, self.allocatable, owner_of)
        first, before = not self._processes_known, self._driver
        self._processes_known, self._driver = True, process_owners.by_pod(self._processes)
        if first or before != self._driver:
            self._on_change(None if first else _differing(before, self._driver))

    def _update_holdings(self) -> None:
        listed = (pod for one in self._listed.values() for pod in one.entries)
        self.holdings = device_ids.holdings(
            listed, self.sources.resources, self.allocatable, self.sources.drivers
        )

    # ------------------------------------------------------------ what follows

    def is_complete(self, key: device_ids.PodKey) -> bool:
        """Whether each source would have shown a pod on a card, if it had one."""
        return self._is_listed_as_it_is(key) and (self._processes_known or not self.sources.driver)

    def _is_listed_as_it_is(self, key: device_ids.PodKey) -> bool:
        """Whether the kubelet has listed this very pod, and since it runs if it does; or is never asked.

        An answer that was under way when an agent started may be older than what is known of the pod.
        """
        listed = self._listed.get(key)
        if listed is None or listed.uid != self._living_uid(key):
            return not self.sources.kubelet
        return listed.was_running or not self._is_running(key)

    def kubelet_knows(self, key: device_ids.PodKey) -> bool:
        """Whether the kubelet has listed a pod, with or without cards; or is never asked."""
        return key in self._listed or not self.sources.kubelet

    def listed_without_devices(self, key: device_ids.PodKey, uid: str) -> bool:
        """Whether the kubelet has listed this pod since it is running, and without any device."""
        if (listed := self._listed.get(key)) is None or listed.uid != uid or not listed.was_running:
            return False
        return not any(
            devices.ids
            for pod in listed.entries
            for container in pod.containers
            for devices in container.devices
        )

    def of_pod(
        self, key: device_ids.PodKey, published: Iterable[wire.Grant] = ()
    ) -> verification.Evidence | None:
        """Return the evidence about one pod; None where there is no source at all.

        `published` is what its GpuPod has so far. It stands for a source that has not answered since
        the agent started: a restart must not look like a change.
        """
        if not (self.sources.kubelet or self.sources.driver):
            return None
        kubelet: verification.ByContainer = {
            name: tuple(one.uuid for one in held) for name, held in self.holdings.get(key, {}).items()
        }
        if not self.kubelet_knows(key):
            kubelet = _published_grants(published, verification.PODRESOURCES)
        driver = self._driver.get(key, {})
        if self.sources.driver and not self._processes_known:
            driver = _published_grants(published, verification.NVML)
        failure = self._report.failure
        return verification.Evidence(kubelet, driver, str(failure) if failure else "")

    def unauthorized(
        self,
        given: Callable[[device_ids.PodKey], Iterable[str]],
        published: device_status.Occupants,
    ) -> tuple[process_owners.CardProcess, ...] | None:
        """Return the processes on cards that their pods were not given; None while that is not known.

        `given` returns what Berth gave to a pod. Call this once for each sample: a process counts when
        two samples in a row show it, or one does and it is published already.
        """
        if not self._processes_known or (self.sources.kubelet and not self._report.is_known):
            return None

        def everything_given(key: device_ids.PodKey) -> Iterable[str]:
            return (*given(key), *(one.uuid for held in self.holdings.get(key, {}).values() for one in held))

        suspects = process_owners.unauthorized(self._processes, everything_given, self.allocatable)
        found = process_owners.seen_before(suspects, self._suspects, published)
        self._suspects = suspects
        return found


def _differing(before: Mapping[K, object], after: Mapping[K, object]) -> set[K]:
    """Return the keys with different values."""
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def _published_grants(
    published: Iterable[wire.Grant], source: vocabulary.GrantSource
) -> verification.ByContainer:
    return {one.container: one.uuids for one in published if one.source == source}
