"""The disks that a pod names itself, without a claim, and that not all pods of a node can have at a time.

They are no part of the request that pods of one workload share, as its claims are none: volumes are read of
each pod that has any.
"""

import itertools
from collections.abc import Iterator, Sequence

from berth_operator.scheduling.decisions import Refusal
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import pod_limits, raw, refusals


def of_pod(pod: raw.Pod) -> tuple[facts.Disk, ...]:
    """Return the disks of a pod, each once, and at most MAX_BOUND_DISKS of them.

    Together they have at most MAX_BOUND_MONITORS monitors, by each of which they are compared.
    """
    found = dict.fromkeys(itertools.chain.from_iterable(map(_each, pod_limits.first_volumes(pod.spec))))
    some = tuple(itertools.islice(found, pod_limits.MAX_BOUND_DISKS))
    monitors = itertools.accumulate(len(one.monitors) for one in some)
    return tuple(
        one for one, so_far in zip(some, monitors, strict=True) if so_far <= pod_limits.MAX_BOUND_MONITORS
    )


def _each(volume: raw.Volume) -> Iterator[facts.Disk]:
    """Yield the disk of a volume, if it is one."""
    if (iscsi := volume.iscsi) is not None:
        yield facts.Disk(f"iscsi {iscsi.iqn}", iscsi.read_only)
    elif (rbd := volume.rbd) is not None:
        yield facts.Disk(f"rbd {rbd.pool}/{rbd.image}", rbd.read_only, monitors=frozenset(rbd.monitors))
    elif (google := volume.gce_persistent_disk) is not None:
        yield facts.Disk(f"gcePersistentDisk {google.pd_name}", google.read_only)
    elif (aws := volume.aws_elastic_block_store) is not None:
        yield facts.Disk(f"awsElasticBlockStore {aws.volume_id}", can_be_shared=False)


def too_many(disks: Sequence[facts.Disk]) -> Refusal | None:
    """Return a fault if a waiting pod names more disks, or more monitors of them, than Berth reads."""
    monitors = sum(len(one.monitors) for one in disks)
    counts = (
        (len(disks), "disks of its own", pod_limits.MAX_DISKS),
        (monitors, "monitors of its disks", pod_limits.MAX_MONITORS),
    )
    for count, what, most in counts:
        if count > most:
            return refusals.unsupported(f"the pod names {count} {what}; Berth reads {most} at most")
    return None
