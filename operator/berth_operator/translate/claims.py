"""The PersistentVolumeClaims that a pod uses, by their names.

They are no part of the request that pods of one workload share: the claim of an ephemeral volume is named
after its pod, and belongs to it. So they are read of each pod that has any.
"""

import itertools
from collections.abc import Iterator, Sequence

from berth_operator.scheduling.decisions import Refusal
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import pod_limits, raw, refusals


def of_pod(pod: raw.Pod) -> tuple[facts.PodClaim, ...]:
    """Return the claims of a pod, each once, and at most MAX_BOUND_CLAIMS of them."""
    found = dict.fromkeys(_each(pod))
    return tuple(itertools.islice(found, pod_limits.MAX_BOUND_CLAIMS))


def _each(pod: raw.Pod) -> Iterator[facts.PodClaim]:
    """Yield the claim of each volume, as Kubernetes names them: that of an ephemeral one `pod-volume`."""
    namespace = pod.metadata.namespace
    for volume in pod_limits.first_volumes(pod.spec):
        if (source := volume.persistent_volume_claim) is not None:
            yield facts.PodClaim(namespace, source.claim_name)
        elif volume.ephemeral is not None:
            yield facts.PodClaim(namespace, f"{pod.metadata.name}-{volume.name}", pod.metadata.uid)


def too_many(claims: Sequence[facts.PodClaim]) -> Refusal | None:
    """Return a fault if a waiting pod uses more claims than Berth reads."""
    if len(claims) <= pod_limits.MAX_CLAIMS:
        return None
    return refusals.unsupported(
        f"the pod uses {len(claims)} persistent volume claims; Berth reads {pod_limits.MAX_CLAIMS} at most"
    )
