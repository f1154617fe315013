"""Where the driver sees a container now and then, its GpuPod says so all the while."""

from typing import Any

import msgspec
import pytest

from agent.test_desired_gpupods import NOTHING, POD, WITH_KUBELET, by_kubelet, status
from berth_agent.gpupods import desired, verification, watched_pod
from berth_agent.kubelet.device_ids import ALL
from berth_crds import wire
from support import nodes

TWO_CARDS = by_kubelet(main={"GPU-a": ALL, "GPU-b": ALL}, side={"MIG-1": ALL})
SEEN = wire.GpuPodStatus(granted=(wire.Grant("main", ("GPU-a", "GPU-x"), "nvml"),))


@pytest.mark.parametrize("kubelet", [{}, {"main": ("GPU-a", "GPU-b")}], ids=["by variables", "by a plugin"])
def test_a_program_that_computes_in_bursts_changes_nothing(kubelet: dict[str, tuple[str, ...]]) -> None:
    """It is on one card now, on another then, and on none between; the GpuPod is not written each time."""
    found, written = NOTHING, 0
    for on in (("GPU-b",), (), ("GPU-a",), (), ("GPU-a", "GPU-b"), (), ("GPU-b",)):
        evidence = verification.Evidence(kubelet, {"main": on} if on else {})
        after = status("Running", found, given=TWO_CARDS, node_cards=WITH_KUBELET, evidence=evidence)
        found, written = after, written + (after != found)

    assert written == 2
    assert found.granted[-1] == wire.Grant("main", ("GPU-a", "GPU-b"), "nvml")
    assert found.conditions[0].reason == "Agreed"


@pytest.mark.parametrize(
    ("phase", "state", "evidence", "uuids"),
    [
        pytest.param("Running", None, verification.Evidence(), ("GPU-a",), id="of a container that runs"),
        pytest.param(
            "Running", {"running": {"startedAt": "x"}}, verification.Evidence(), ("GPU-a",), id="and says so"
        ),
        pytest.param("Running", {"terminated": {}}, verification.Evidence(), (), id="which has ended"),
        pytest.param("Running", {"waiting": {}}, verification.Evidence(), (), id="which is started again"),
        pytest.param("Succeeded", None, verification.Evidence(), (), id="of a pod that has ended"),
        pytest.param(
            "Running", None, verification.Evidence({"main": ("GPU-b",)}), (), id="the kubelet says otherwise"
        ),
    ],
)
def test_where_the_driver_saw_a_container_stands_until_it_ends(
    phase: str, state: dict[str, Any] | None, evidence: verification.Evidence, uuids: tuple[str, ...]
) -> None:
    """Or something contradicts it; on what it was not given it is only while it is seen there."""
    told = msgspec.convert({"name": "main", "state": state}, watched_pod.ContainerStatus)
    pod = msgspec.structs.replace(
        POD, status=watched_pod.PodStatus(phase, container_statuses=(told,) if state else ())
    )
    spec = desired.spec(pod, TWO_CARDS, WITH_KUBELET)

    found = desired.status(pod, spec, SEEN, WITH_KUBELET, evidence=evidence, now=nodes.NOON)

    assert [one.uuids for one in found.granted if one.source == "nvml"] == ([uuids] if uuids else [])
