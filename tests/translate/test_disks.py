"""The disks that pods name themselves are read by kind and name, whoever the pod is."""

from typing import Any, Final

import pytest

from berth_operator.scheduling import cycle, decisions
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.nodes.facts import Disk
from berth_operator.translate import disks, pod_limits, pods
from support import builders

ISCSI: Final = {"name": "v", "iscsi": {"iqn": "iqn.example:d", "targetPortal": "10.0.0.1", "lun": 0}}
RBD: Final = {"name": "w", "rbd": {"monitors": ["m1", "m2"], "image": "i", "readOnly": True}}
READ: Final[dict[str, tuple[dict[str, Any], tuple[Disk, ...]]]] = {
    "no disk": ({"name": "e", "emptyDir": {}}, ()),
    "a claim": ({"name": "c", "persistentVolumeClaim": {"claimName": "data"}}, ()),
    "iscsi": (ISCSI, (Disk("iscsi iqn.example:d"),)),
    "of Ceph": (RBD, (Disk("rbd rbd/i", True, monitors=frozenset({"m1", "m2"})),)),
    "of another pool": (
        {"rbd": {"monitors": ["m"], "image": "i", "pool": "p"}},
        (Disk("rbd p/i", monitors=frozenset({"m"})),),
    ),
    "of Google": (
        {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
        (Disk("gcePersistentDisk d", True),),
    ),
    "of AWS, which cannot be shared": (
        {"awsElasticBlockStore": {"volumeID": "d", "readOnly": True}},
        (Disk("awsElasticBlockStore d", can_be_shared=False),),
    ),
}


@pytest.mark.parametrize(("volume", "expected"), READ.values(), ids=READ.keys())
def test_the_disks_of_a_pod(volume: dict[str, Any], expected: tuple[Disk, ...]) -> None:
    """They are the same while it waits and once it is bound."""
    volumes = [{"name": "v", **volume}]
    pod_info = pods.pod_info(builders.pod(gpus=0, volumes=volumes))
    bound = pods.read_bound(builders.pod(gpus=0, volumes=volumes, nodeName="n1"))

    assert pod_info.demand.disks == expected
    assert bound.hold.disks == expected
    assert cycle.hold_for(pod_info, decisions.Placement("n1")).disks == expected


def test_a_disk_that_is_mounted_twice_is_one() -> None:
    """The pod is not in its own way."""
    assert disks.of_pod(builders.pod(volumes=[ISCSI, ISCSI | {"name": "again"}])) == READ["iscsi"][1]


def test_a_pod_of_very_many_disks_is_refused_and_a_bound_one_is_read_in_part() -> None:
    """The sentence names the limit, and nothing is kept of the disks."""
    volumes = [{"name": f"v{at}", "iscsi": {"iqn": f"{at}"}} for at in range(2000)]
    most = pod_limits.MAX_DISKS

    refused = pods.pod_info(builders.pod(volumes=volumes[: most + 1]))
    bound = pods.read_bound(builders.pod(volumes=volumes, nodeName="n1"))

    (fault,) = refused.faults
    assert fault.reason is Reason.UNSUPPORTED_REQUEST
    assert fault.detail == f"the pod names {most + 1} disks of its own; Berth reads {most} at most"
    assert refused.demand.disks == ()
    assert pods.pod_info(builders.pod(volumes=volumes[:most])).faults == ()
    assert len(bound.hold.disks) == pod_limits.MAX_BOUND_DISKS


def with_monitors(each: int, count: int) -> list[dict[str, Any]]:
    """Return so many volumes of Ceph, each with so many monitors of its own."""
    return [
        {"name": f"v{at}", "rbd": {"image": "i", "monitors": [f"{at}-{number}" for number in range(each)]}}
        for at in range(count)
    ]


def test_a_pod_of_very_many_monitors_is_refused_and_a_bound_one_is_read_in_part() -> None:
    """A disk is looked for by each of its monitors, so a few disks may take as long as many."""
    most, most_bound = pod_limits.MAX_MONITORS, pod_limits.MAX_BOUND_MONITORS

    refused = pods.pod_info(builders.pod(volumes=with_monitors(most + 1, 1)))
    bound = pods.read_bound(builders.pod(volumes=with_monitors(most_bound // 4, 6), nodeName="n1"))

    (fault,) = refused.faults
    assert fault.detail == f"the pod names {most + 1} monitors of its disks; Berth reads {most} at most"
    assert refused.demand.disks == ()
    assert pods.pod_info(builders.pod(volumes=with_monitors(most // 64, 64))).faults == ()
    assert len(bound.hold.disks) == 4


def test_a_pod_of_very_many_volumes_is_refused_and_of_a_bound_one_the_first_are_read() -> None:
    """Each takes time, also one that is neither a claim nor a disk."""
    most = pod_limits.MAX_VOLUMES
    volumes = [{"name": f"v{at}", "emptyDir": {}} for at in range(most)]
    last = {"name": "last", "gcePersistentDisk": {"pdName": "last"}}

    refused = pods.pod_info(builders.pod(volumes=[*volumes, last]))
    read = pods.pod_info(builders.pod(volumes=[*volumes[1:], last]))
    bound = pods.read_bound(builders.pod(volumes=[*volumes, last], nodeName="n1"))

    (fault,) = refused.faults
    assert fault.detail == f"the pod has {most + 1} volumes; Berth reads {most} at most"
    assert (len(read.demand.disks), read.faults, bound.hold.disks) == (1, (), ())
