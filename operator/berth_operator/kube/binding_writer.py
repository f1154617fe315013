"""Writes one Binding for each placement, and reads the pod when the outcome is unclear.

The Binding carries the node, every annotation of the placement and the label that the fence
selects by, so that all of it is one revision in etcd and `patch pods` is never needed. The pod's
uid and revision are preconditions, which etcd itself compares: a bind that arrives late, at a
server whose copy of the Lease is old, is void once the pod has changed.
"""

import dataclasses
import logging
import math
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from berth_crds import names, vocabulary
from berth_crds.client import api, errors, resources
from berth_operator.engine import ports
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import volume_writer
from berth_operator.scheduling import decisions, queued_pods
from berth_operator.translate import bind_annotations, long_pods, pods, raw

log = logging.getLogger(__name__)

SERVER_SECONDS: Final = 3  # The server gives a bind up after this time, so that it cannot happen later.
CLIENT_SECONDS: Final = 4.0
FENCE: Final = "ValidatingAdmissionPolicy 'berth-fence'"
FENCE_PATIENCE_SECONDS: Final = 15.0  # The fence learns of a new leader within moments.
# The server's messages about webhooks, which it calls before it writes anything, begin so for any code.
WEBHOOKS: Final = ("Internal error occurred: failed calling webhook ", 'admission webhook "')
DEPOSED: Final = "this replica is no longer the leader; the new leader will bind the pod"
NO_DRY_RUN: Final = "does not support dry run"  # In the server's message.
DOUBTFUL: Final = (errors.Unreachable, errors.Unavailable, errors.AmbiguousNotFound)


Done = Coroutine[Any, Any, None]


@dataclasses.dataclass(frozen=True, slots=True)
class Leader:
    """Leadership, and the pods whose binds are declared in the Lease."""

    leads: Callable[[], bool]  # Whether we surely lead.
    doubt: Callable[[], None]  # Records that the server may be unavailable: leadership must be confirmed.
    wait_until_leading: Callable[[], Done]  # Waits until leadership and ledger are confirmed.
    # Waits until the Lease declares that a bind of the pod with this uid may be under way.
    permit: Callable[[str], Done]
    # Changes a pod that has this revision, so that no bind arrives which names it or an earlier one.
    touch: Callable[[queued_pods.PodInfo, str], Done]


class BindingWriter:
    """Writes the Bindings of one term, and only while it lasts."""

    def __init__(
        self, session: api.Api, ledger: Ledger, leader: Leader, *, term: str, clock: ports.Clock
    ) -> None:
        self._session = session
        self._ledger = ledger
        self._leader = leader
        self._term = term
        self._clock = clock
        self._fenced_since: float | None = None
        self.volumes = volume_writer.VolumeWriter(session, leader.leads)
        self.wait_until_leading, self.permit = leader.wait_until_leading, leader.permit

    async def bind(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> ports.Answer:
        """Send one Binding and return its outcome."""
        return await self._send(pod_info, placement)

    async def dry_run(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> ports.Answer:
        """Send a Binding as a dry run: admission and webhooks check it, and nothing is written.

        Where a webhook does not support dry runs, the answer is Bound.
        """
        answer = await self._send(pod_info, placement, dryRun="All")
        return ports.Bound() if isinstance(answer, ports.Refused) and NO_DRY_RUN in answer.message else answer

    async def _send(
        self, pod_info: queued_pods.PodInfo, placement: decisions.Placement, **params: str
    ) -> ports.Answer:
        path = resources.PODS.path(pod_info.name, namespace=pod_info.namespace, sub="binding")
        known = self._ledger.revisions.get(pod_info.uid)
        version = known.text if known is not None else ""
        records = self._ledger.policy.pod_records
        made = binding(pod_info, placement, term=self._term, version=version, records=records)
        body = msgspec.json.encode(made)
        params["timeout"] = f"{SERVER_SECONDS}s"
        if not self._leader.leads():
            # A process that was suspended must not go on with its writes when it wakes up.
            return ports.Refused(DEPOSED)
        try:
            await self._session.send("POST", path, params=params, body=body, deadline=CLIENT_SECONDS)
        except errors.ClientError as error:
            if isinstance(error, errors.Forbidden) and FENCE in error.message:
                self._fenced()
            if isinstance(error, DOUBTFUL) and not _is_from_webhook(error):
                self._leader.doubt()
            answer = outcome(error)
            return (
                dataclasses.replace(answer, version=version) if isinstance(answer, ports.Unknown) else answer
            )
        self._fenced_since = None
        return ports.Bound()

    def _fenced(self) -> None:
        """Log once if the fence keeps refusing the leader that the Lease names."""
        if self._fenced_since is None:
            self._fenced_since = self._clock()
        elif self._clock() - self._fenced_since > FENCE_PATIENCE_SECONDS:
            self._fenced_since = math.inf
            log.error(
                "berth-fence refuses the binds of term %s, though the Lease names it: an API server "
                "has only an old copy of that Lease if the policy was deleted and applied again; "
                "restart kube-apiserver",
                self._term,
            )

    async def read_pod(self, pod_info: queued_pods.PodInfo) -> ports.ReadResult:
        """Read the pod as it is now."""
        try:
            pod = await self._session.find(
                resources.PODS, pod_info.name, into=long_pods.Pod, namespace=pod_info.namespace
            )
        except (errors.ClientError, msgspec.DecodeError) as error:
            # Read as the pod's end, a 404 that proves nothing would give the pod's cards to another.
            return ports.Unknown(str(error))
        if pod is None or pod.metadata.uid != pod_info.uid:
            return ports.Gone()
        if not pod.spec.node_name:
            return self._unbound(pod, pod_info)
        if pod.metadata.annotations.get(names.TERM) != self._term:
            return ports.Refused(f"another scheduler bound the pod to {pod.spec.node_name}")
        return ports.Bound()

    async def void(self, pod_info: queued_pods.PodInfo) -> ports.ReadResult:
        """Change the pod, so that all earlier binds of it are void, and read it.

        Any other change of it has the same effect, unless that was a bind.
        """
        before = await self.read_pod(pod_info)
        if not isinstance(before, ports.Unbound):
            return before
        try:
            await self._leader.touch(pod_info, before.version)
        except errors.ClientError as error:
            log.debug("%s cannot be changed: %s", pod_info.title, error)
        after = await self.read_pod(pod_info)
        if isinstance(after, ports.Unbound) and after.version == before.version:
            return ports.Unknown(
                "cannot update the pod to invalidate an earlier bind, which may still take effect"
            )
        return after

    def _unbound(self, pod: raw.Pod, pod_info: queued_pods.PodInfo) -> ports.ReadResult:
        """Return the state of a pod without a node; the server binds no pod that is being deleted."""
        if pod.metadata.deletion_timestamp:
            return ports.Gone()
        self._ledger.revisions.see(pod.metadata.uid, pod.metadata.resource_version)
        return ports.Unbound(same=pods.pod_info(pod) == pod_info, version=pod.metadata.resource_version)


def _is_from_webhook(error: errors.ClientError) -> bool:
    """Whether a webhook refused or failed: then nothing was written, and the server is available."""
    return isinstance(error, errors.ApiError) and error.message.startswith(WEBHOOKS)


def outcome(error: errors.ClientError) -> ports.Answer:
    """Return the outcome of a failed bind for the pod."""
    match error:
        case errors.AmbiguousNotFound():
            # No API server answers a bind like this; a proxy may have passed it on.
            return ports.Unknown(str(error))
        case errors.Conflict() | errors.NotFound():
            # Our own earlier bind may have won: the pod shows it.
            return ports.Unknown(error.message, open=False)
        case errors.ApiError() if _is_from_webhook(error):
            return ports.Refused(error.message)
        case errors.Throttled():
            return ports.Throttled(error.message, error.pause)
        case errors.Unreachable(ambiguous=False):
            return ports.Refused(str(error))
        case (
            errors.BadRequest()
            | errors.Unauthorized()
            | errors.Forbidden()
            | errors.Invalid()
            | errors.Oversized()
        ):
            return ports.Refused(error.message)
        case errors.Unreachable() | errors.ApiError():
            # The server may have done it, or a proxy may have passed it on.
            return ports.Unknown(str(error))
        case _:
            return ports.Refused(str(error))


def binding(
    pod_info: queued_pods.PodInfo,
    placement: decisions.Placement,
    *,
    term: str,
    version: str = "",
    records: vocabulary.PodRecords = vocabulary.PodRecords.BERTH,
) -> dict[str, Any]:
    """Return the Binding of a placement; `version` is the pod's revision, if it is known."""
    annotations = bind_annotations.of(
        placement, term=term, containers=pod_info.without_devices, records=records
    )
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": pod_info.name,
            "namespace": pod_info.namespace,
            "uid": pod_info.uid,
            **({"resourceVersion": version} if version else {}),
            "labels": {names.FENCED_LABEL: "true"},
            "annotations": annotations,
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": placement.node},
    }
