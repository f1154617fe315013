"""Learns which pods of Berth's their kubelets reject, and has their nodes quarantined (`engine.rejections`).

A kubelet that rejects a pod (it lacks a resource, a device plugin refuses) sets its phase to Failed. Pods
that have failed leave the watch as a delete, and only a read tells them from those that were deleted at
once. So each pod that leaves before its kubelet has admitted it is read, unless it was being deleted.
"""

import asyncio
import collections
import dataclasses
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from berth_crds import logs, names, text, wire
from berth_crds.client import api, errors, resources
from berth_operator.engine import rejections
from berth_operator.engine.ledger import Ledger
from berth_operator.translate import raw

log = logging.getLogger(__name__)

MOST_UNADMITTED: Final = 10_000  # Pods that were bound and not admitted yet; of more, nothing is learned.
MOST_TO_READ: Final = 1_000
CHECK_SECONDS: Final = 1.0
FAILED: Final = "Failed"
LONGEST_REASON: Final = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Unadmitted:
    """A pod that Berth bound and that its kubelet has not admitted yet."""

    namespace: str
    name: str
    uid: str
    node: str
    deleted: bool = False  # Whether it leaves because somebody deletes it.


class Admissions:
    """The pods whose admission is awaited, those that left before it, and who admitted one."""

    def __init__(self) -> None:
        self._unadmitted: dict[str, Unadmitted] = {}
        self.left: collections.deque[Unadmitted] = collections.deque(maxlen=MOST_TO_READ)
        self.admitting: set[tuple[str, str]] = set()  # Nodes, and the namespaces of the pods.

    def pod_seen(self, pod: raw.Pod) -> None:
        """Record the state of a pod on a node. Quarantined nodes get those without devices."""
        meta = pod.metadata
        if names.TERM not in meta.annotations or names.ALLOCATION not in meta.annotations:
            return
        if pod.status.is_admitted:
            if self._unadmitted.pop(meta.uid, None) is not None:
                self.admitting.add((pod.spec.node_name, meta.namespace))
        elif len(self._unadmitted) < MOST_UNADMITTED or meta.uid in self._unadmitted:
            node, deleted = pod.spec.node_name, meta.deletion_timestamp is not None
            self._unadmitted[meta.uid] = Unadmitted(
                meta.namespace, meta.name, meta.uid, node, deleted=deleted
            )

    def pod_gone(self, uid: str) -> None:
        """Record that a pod has left the watch."""
        if (one := self._unadmitted.pop(uid, None)) is not None and not one.deleted:
            self.left.append(one)


class PodStatus(wire.Struct, frozen=True):
    """How a pod ended."""

    phase: str = ""
    reason: str = ""
    container_statuses: tuple[msgspec.Raw, ...] | None = None
    init_container_statuses: tuple[msgspec.Raw, ...] | None = None


class EndedPod(wire.Struct, frozen=True):
    """A pod that has left the watch."""

    metadata: wire.Meta
    status: PodStatus = PodStatus()


class RejectionWatch:
    """Has nodes quarantined whose kubelets reject pods again and again."""

    def __init__(
        self, session: api.Api, ledger: Ledger, admissions: Admissions, *, clock: Callable[[], float]
    ) -> None:
        self._session = session
        self._ledger = ledger
        self._admissions = admissions
        self._clock = clock
        self._rejections = rejections.Rejections()
        self._quarantines: dict[str, rejections.Quarantine] = {}  # As the ledger has them, by node.

    async def run(self) -> None:
        """Watch for ever; what another watch has found is forgotten."""
        for info in self._ledger.inventory.each():
            self._ledger.node_quarantined(info.name, "")
        while True:
            await self.check()
            await asyncio.sleep(CHECK_SECONDS)

    async def check(self) -> None:
        """Apply what has happened since the last check."""
        admissions = self._admissions
        self._rejections.keep_only(self._ledger.inventory.index)
        while admissions.admitting:
            node, namespace = admissions.admitting.pop()
            self._rejections.admitted(node, namespace)
            self._apply(node, "its kubelet has admitted a pod")
        while admissions.left:
            one = admissions.left.popleft()
            if (why := await self._reason(one)) is None:
                admissions.left.append(one)  # It is read again at the next check.
                break
            if why:
                short = text.line(why)[:LONGEST_REASON]
                self._rejections.rejected(one.node, one.namespace, short, self._clock())
                self._apply(one.node, f"the last was {one.namespace}/{one.name}")
        for node in self._rejections.end(self._clock()):
            self._apply(node, "it may have a pod on trial")
        for node in self._quarantines.keys() - self._ledger.inventory.index.keys():
            self._apply(node, "it is gone")

    def _apply(self, node: str, cause: str) -> None:
        """Record in the ledger whether a node is quarantined now, if that has changed."""
        before, now = self._quarantines.pop(node, None), self._rejections.quarantine(node)
        if now is not None:
            self._quarantines[node] = now
        if now == before:
            return
        self._ledger.node_quarantined(node, *(now or rejections.Quarantine("")))
        if now is None:
            log.info("node %s is no longer quarantined: %s", node, cause, extra=logs.node(node))
            return
        whose = f" for namespace {now.namespace}" if now.namespace else ""
        log.warning("node %s is quarantined%s: %s; %s", node, whose, now.why, cause, extra=logs.node(node))

    async def _reason(self, one: Unadmitted) -> str | None:
        """Return why a kubelet rejected a pod; empty if it did not, None if that cannot be read now."""
        try:
            pod = await self._session.get(resources.PODS, one.name, into=EndedPod, namespace=one.namespace)
        except errors.ClientError as error:
            log.debug("whether pod %s/%s was rejected is not known: %s", one.namespace, one.name, error)
            return None if errors.is_systemic(error) or isinstance(error, errors.Unavailable) else ""
        status = pod.status
        if pod.metadata.uid != one.uid or status.phase != FAILED:
            return ""
        # What was admitted and has failed since has had containers.
        had_containers = status.container_statuses or status.init_container_statuses
        return "" if had_containers else status.reason or "no reason given"
