"""The make-believe kubelets do for a pod what real ones would, under their own name, and no more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support import kubelet
from testbed import audit, waiting
from testbed import cluster as clusters

POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}, annotations: {annotations}}}
spec:
  nodeName: {node}
  containers: [{{name: main, image: none}}]
  initContainers: [{{name: early, image: none}}]
"""


@pytest.fixture
async def kubelets(cluster: clusters.Cluster) -> AsyncIterator[kubelet.Kubelets]:
    """Yield the kubelets of one node with eight cards and one taint."""
    taint = {"key": "gpus", "effect": "NoSchedule"}
    node = kubelet.FakeNode("played", labels={"zone": "a"}, taints=(taint,), extended={"nvidia.com/gpu": 8})
    async with kubelet.Kubelets(cluster) as kubelets:
        await kubelets.add(node)
        yield kubelets


@pytest.mark.usefixtures("kubelets")
async def test_node_is_ready(cluster: clusters.Cluster) -> None:
    """A fake node is Ready, has what it was given, and no taint but its own."""
    node = json.loads(await _kubectl(cluster, "get", "node", "played", "-o", "json"))

    assert node["spec"]["taints"] == [{"key": "gpus", "effect": "NoSchedule"}]
    assert node["metadata"]["labels"]["zone"] == "a"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert [(one["type"], one["status"]) for one in node["status"]["conditions"]] == [("Ready", "True")]


@pytest.mark.usefixtures("kubelets")
async def test_pod_lives_and_dies(cluster: clusters.Cluster, namespace: str) -> None:
    """A bound pod runs, is deleted gracefully when told so, and every step is the kubelets' own write."""
    await _apply(cluster, namespace, "long")
    pod = await _reaches(cluster, namespace, "long", phase="Running")
    assert {one["type"]: one["status"] for one in pod["status"]["conditions"]}["Ready"] == "True"
    assert [one["ready"] for one in pod["status"]["containerStatuses"]] == [True]

    await _kubectl(cluster, "delete", "pod", "long", "-n", namespace, "--timeout=20s")

    async def both() -> list[tuple[str, str, int]] | None:
        written = audit.writes_by(cluster.audit(), kubelet.USER)
        found = [(one.verb, one.subresource, one.code) for one in written if one.namespace == namespace]
        return found if len(found) >= 2 else None

    # The server writes each line just after it has answered.
    steps = await waiting.eventually(both, what="both writes in the audit log")
    assert steps == [("patch", "status", 200), ("delete", "", 200)]


@pytest.mark.usefixtures("kubelets")
async def test_pod_finishes(cluster: clusters.Cluster, namespace: str) -> None:
    """A pod that says how long it runs has succeeded after that time."""
    await _apply(cluster, namespace, "short", **{kubelet.RUN_SECONDS: "0.5"})

    pod = await _reaches(cluster, namespace, "short", phase="Succeeded")

    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


@pytest.mark.usefixtures("kubelets")
async def test_other_nodes_are_left_alone(cluster: clusters.Cluster, namespace: str) -> None:
    """A pod on a node that is not played stays as it was."""
    await _apply(cluster, namespace, "foreign", node="elsewhere")
    await _apply(cluster, namespace, "own")

    await _reaches(cluster, namespace, "own", phase="Running")

    await _reaches(cluster, namespace, "foreign", phase="Pending")


@pytest.mark.cluster
async def test_survives_a_lost_server() -> None:
    """After the API server was away and its history is gone, new pods run and nothing has to be restarted."""
    with clusters.Cluster(controller_manager=False) as fragile:
        namespace = fragile.namespace()
        async with kubelet.Kubelets(fragile) as kubelets:
            await kubelets.add(kubelet.FakeNode("played"))
            await _apply(fragile, namespace, "before")
            await _reaches(fragile, namespace, "before", phase="Running")

            fragile.crash_apiserver()
            await asyncio.to_thread(fragile.expire_history)
            await _apply(fragile, namespace, "after")

            await _reaches(fragile, namespace, "after", phase="Running")


async def _kubectl(cluster: clusters.Cluster, *words: str) -> str:
    return await asyncio.to_thread(cluster.kubectl, *words)


async def _apply(
    cluster: clusters.Cluster, namespace: str, name: str, *, node: str = "played", **annotations: str
) -> None:
    text = POD.format(name=name, namespace=namespace, node=node, annotations=json.dumps(annotations))
    await asyncio.to_thread(cluster.apply, text)


async def _reaches(cluster: clusters.Cluster, namespace: str, name: str, *, phase: str) -> dict[str, Any]:
    """Wait for the phase of a pod and return the pod."""

    async def there() -> dict[str, Any] | None:
        pod: dict[str, Any] = json.loads(
            await _kubectl(cluster, "get", "pod", name, "-n", namespace, "-o", "json")
        )
        return pod if pod["status"]["phase"] == phase else None

    return await waiting.eventually(there, what=f"pod {name} to be {phase}")
