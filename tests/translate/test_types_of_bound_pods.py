"""Types of devices other than cards of which a bound pod may have any, as no record names them (I9)."""

from typing import Any, Final

import pytest

from berth_crds import aliases, allocation, names
from berth_operator.translate import raw
from support import builders
from translate import pod_requests

ON_NODE: Final[dict[str, Any]] = {"nodeName": "n1"}
NIC: Final = builders.written("n1", {"main": {"rdma": [allocation.Share("r", 0, 100, 0)]}})

TYPES: dict[str, tuple[raw.Pod, set[str]]] = {
    "a NIC without a record": (pod_requests.asking({names.RDMA: 1}, **ON_NODE), {"rdma"}),
    "a NIC and an FPGA": (
        pod_requests.asking({"koordinator.sh/rdma": 100, names.FPGA: 5}, **ON_NODE),
        {"rdma", "fpga"},
    ),
    "a NIC with a record that names it": (
        pod_requests.asking({names.RDMA: 100}, annotations=NIC, **ON_NODE),
        set(),
    ),
    "a NIC with a record that names a card alone": (
        pod_requests.asking(
            {names.RDMA: 1, names.NVIDIA_GPU: 1}, annotations=builders.record("n1", main=[0]), **ON_NODE
        ),
        {"rdma"},
    ),
    "a NIC with a damaged record": (
        pod_requests.asking({names.RDMA: 100}, annotations={names.ALLOCATION: "{"}, **ON_NODE),
        {"rdma"},
    ),
    "a NIC with all of its record lost but the term": (
        pod_requests.asking({names.RDMA: 150}, annotations={names.TERM: "7"}, **ON_NODE),
        {"rdma"},
    ),
    "an amount that makes no sense": (pod_requests.asking({names.RDMA: "x"}, **ON_NODE), {"rdma"}),
    "no NIC": (pod_requests.asking({names.RDMA: 0, names.NVIDIA_GPU: 1}, **ON_NODE), set()),
    "no NIC, with a record of one": (
        builders.pod(annotations={aliases.KOORDINATOR_RECORD: '{"rdma":[{"minor":0}]}'}, **ON_NODE),
        set(),
    ),
    "another scheduler's, by a name that nodes just list": (
        pod_requests.asking({names.RDMA: 100}, schedulerName="default-scheduler", **ON_NODE),
        set(),
    ),
    "another scheduler's, by a name of Koordinator's": (
        pod_requests.asking({"koordinator.sh/rdma": 100}, schedulerName="default-scheduler", **ON_NODE),
        {"rdma"},
    ),
}


@pytest.mark.parametrize(("pod", "types"), TYPES.values(), ids=TYPES)
def test_of_what_no_record_names_a_pod_may_have_any(pod: raw.Pod, types: set[str]) -> None:
    """Of each type of devices other than cards that its containers ask for by resources, and of no other."""
    found = pod_requests.bound(pod)

    assert found.hold.withheld_types == types
