"""Beside a real kubelet: what a driver gave to a pod's claim is in the pod's GpuPod, and goes with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from berth_crds import wire
from berth_crds.client import resources
from support.dradriver import DraDriver
from testbed import images, workers

if TYPE_CHECKING:
    from agent.conftest import Scene

pytestmark = pytest.mark.slow

DRIVER: Final = "gpu.nvidia.com"
CLAIM: Final = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: card, namespace: {namespace}}}
spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu.nvidia.com}}}}]}}}}
"""
CLAIMING: Final[dict[str, Any]] = {
    "schedulerName": "somebody-else",
    "hostNetwork": True,
    "automountServiceAccountToken": False,
    "terminationGracePeriodSeconds": 2,
    "resourceClaims": [{"name": "card", "resourceClaimName": "card"}],
    "containers": [
        {
            "name": "main",
            "image": images.NAME,
            "imagePullPolicy": "Never",
            "resources": {"claims": [{"name": "card"}]},
        }
    ],
}


def allocate(scene: Scene, device: str, pod: str, uid: str) -> None:
    """Give the claim a device, for a pod, as a scheduler does."""
    result = {"request": "gpu", "driver": DRIVER, "pool": scene.node, "device": device}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": pod, "uid": uid}],
    }
    change = json.dumps({"status": status})
    where = ("resourceclaim", "card", "--namespace", scene.namespace)
    scene.cluster.kubectl("patch", *where, "--subresource=status", "--type=merge", "--patch", change)


async def bound_with_claim(scene: Scene, name: str, device: str) -> None:
    """Create a pod, give its claim a device, and bind it: a kubelet that finds no device waits for long."""
    body = {"metadata": {"name": name}, "spec": CLAIMING}
    await scene.admin.create(resources.PODS, body, namespace=scene.namespace)
    allocate(scene, device, name, await scene.pod_uid(name))
    binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": scene.node}}
    await scene.admin.create(resources.PODS, binding, namespace=scene.namespace, sub="binding")


async def test_card_of_a_claim_is_named_until_the_pod_ends(scene: Scene, worker: workers.Worker) -> None:
    """By the number in the driver's name for it, without a device plugin and without a process on it."""
    scene.socket = worker.pod_resources
    scene.cluster.apply(CLAIM.format(namespace=scene.namespace))
    async with (
        DraDriver(worker.directory / "kubelet", DRIVER, scene.node, ["gpu-1"]),
        scene.agent(node=False),
    ):
        await bound_with_claim(scene, "p", "gpu-1")
        # A kubelet whose first try to prepare a claim fails waits for long before the next.
        with worker.explaining("claim"):
            found = await scene.until_verified("p", "True", "Agreed", seconds=240)
        await scene.end_pod("p")
        await scene.until_no_gpupod("p")

    assert [card.uuid for each in found.spec.containers for card in each.devices] == [scene.uuid(1)]
    assert found.status.granted == (wire.Grant("main", (scene.uuid(1),), "podresources"),)
