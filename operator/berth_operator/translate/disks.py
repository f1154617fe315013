"""The disks that a pod names itself, without a claim, and that not all pods of a node can have at a time.

They are no part of the request that pods of one workload share, as its claims are none: volumes are read of
each pod that has any.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from berth_operator.scheduling.decisions import Refusal
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import pod_limits, raw, refusals

LONGEST_NAME: Final = 512


def of_pod(pod: raw.Pod) -> tuple[facts.Disk, ...]:
    """Return the disks of a pod, each once, and at most MAX_BOUND_DISKS of them."""
    found = dict.fromkeys(itertools.chain.from_iterable(map(_each, pod.spec.volumes or ())))
    return tuple(itertools.islice(found, pod_limits.MAX_BOUND_DISKS))


def _each(volume: raw.Volume) -> Iterator[facts.Disk]:
    """Yield the disk of a volume; of Ceph one for each monitor, for clusters are told apart by these."""
    if (iscsi := volume.iscsi) is not None:
        yield _disk("iscsi", iscsi.iqn, read_only=iscsi.read_only)
    elif (rbd := volume.rbd) is not None:
        for monitor in rbd.monitors:
            yield _disk("rbd", f"{monitor}/{rbd.pool}/{rbd.image}", read_only=rbd.read_only)
    elif (google := volume.gce_persistent_disk) is not None:
        yield _disk("gcePersistentDisk", google.pd_name, read_only=google.read_only)
    elif (aws := volume.aws_elastic_block_store) is not None:
        yield facts.Disk(f"awsElasticBlockStore {aws.volume_id}"[:LONGEST_NAME], can_be_shared=False)


def _disk(kind: str, name: str, *, read_only: bool) -> facts.Disk:
    return facts.Disk(f"{kind} {name}"[:LONGEST_NAME], read_only)


def too_many(disks: Sequence[facts.Disk]) -> Refusal | None:
    """Return a fault if a waiting pod names more disks than Berth reads."""
    if len(disks) <= pod_limits.MAX_DISKS:
        return None
    return refusals.unsupported(
        f"the pod names {len(disks)} disks of its own; Berth reads {pod_limits.MAX_DISKS} at most"
    )
