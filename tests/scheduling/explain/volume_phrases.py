"""What is told of claims and volumes: the detail of each reason, and what one node and two nodes say."""

from typing import Final

from berth_operator.scheduling.decisions import Reason
from support import builders

CLAIM: Final = 'persistentvolumeclaim "data"'


def same(detail: str, words: str) -> tuple[str, str, str]:
    """Return words that do not count the nodes."""
    return detail, words, words


REASONS: Final[dict[Reason, tuple[str, str, str]]] = {
    Reason.CLAIMS_UNREAD: same("", "the claims of pods have not been read from the API server yet"),
    Reason.CLAIM_MISSING: same("data", f"{CLAIM} not found"),
    Reason.CLAIM_NOT_MADE: same("data", f"waiting for ephemeral volume controller to create the {CLAIM}"),
    Reason.CLAIM_UNREADABLE: same("data", f"{CLAIM} says more in its selector than Berth reads"),
    Reason.CLAIM_LOST: same("data", f"{CLAIM} bound to non-existent persistentvolume"),
    Reason.CLAIM_DELETED: same("data", f"{CLAIM} is being deleted"),
    Reason.CLAIM_NOT_OWNED: same("data", f"{CLAIM} was not created for this pod (pod is not owner)"),
    Reason.CLAIM_UNBOUND: same("data", f"pod has unbound immediate PersistentVolumeClaims ({CLAIM})"),
    Reason.CLAIM_IN_USE: same(
        "data", f"{CLAIM} has the access mode ReadWriteOncePod and is already in use by another pod"
    ),
    Reason.VOLUME_MISSING: same("data", f"{CLAIM} bound to non-existent persistentvolume"),
    Reason.VOLUME_AFFINITY: (
        "data",
        "1 does not match the node affinity of the volume of claim data",
        "2 do not match the node affinity of the volume of claim data",
    ),
    Reason.VOLUME_ZONE: (
        "data",
        "1 is in another zone than the volume of claim data",
        "2 are in other zones than the volume of claim data",
    ),
    Reason.VOLUME_ELSEWHERE: (
        "n3",
        "1 cannot be chosen any more: a volume of the pod is being made for n3",
        "2 cannot be chosen any more: a volume of the pod is being made for n3",
    ),
    Reason.VOLUME_TOPOLOGY: (
        "data",
        "1 is outside the allowedTopologies of the StorageClass of claim data",
        "2 are outside the allowedTopologies of the StorageClass of claim data",
    ),
    Reason.STORAGE_CAPACITY: (
        f"data {builders.GIB}",
        "1 has not enough free storage for claim data (1 GiB wanted)",
        "2 have not enough free storage for claim data (1 GiB wanted)",
    ),
    Reason.NO_VOLUME: (
        "data",
        "1 has no available persistent volume for claim data",
        "2 have no available persistent volume for claim data",
    ),
    Reason.VOLUME_LIMIT: (
        "ebs.csi.aws.com (25 at most)",
        "1 can attach no more volumes of ebs.csi.aws.com (25 at most)",
        "2 can attach no more volumes of ebs.csi.aws.com (25 at most)",
    ),
    Reason.VOLUME_FAILED: (
        "data",
        "1 is passed over for a time, for no volume could be made there for claim data",
        "2 are passed over for a time, for no volume could be made there for claim data",
    ),
}
