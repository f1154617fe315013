"""A worker is a node that is one, and nothing is left of it, not even what outlives its runtime."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from testbed import cluster as clusters
from testbed import enclosure, images, waiting, workers

pytestmark = pytest.mark.slow

POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: p, namespace: {namespace}}}
spec:
  nodeName: worker
  hostNetwork: true
  automountServiceAccountToken: false
  containers: [{{name: main, image: {image}, imagePullPolicy: Never}}]
"""


@pytest.fixture(autouse=True)
def able() -> None:
    """Skip the test where there can be no worker."""
    if why := workers.obstacle():
        pytest.skip(why)


def test_pod_runs_and_nothing_is_left(cluster: clusters.Cluster, namespace: str) -> None:
    """Its pods are processes of this machine; with it they go, and so do their cgroups and mounts."""
    mounts = Path("/proc/self/mounts").read_text()
    with workers.Worker(cluster, "worker") as worker:
        cluster.apply(POD.format(namespace=namespace, image=images.NAME))
        uid = waiting.until(lambda: _running(cluster, namespace), what="the pod to run", seconds=60)
        pids = worker.processes_of(uid)
        assert pids
        worker.kill_kubelet()
        assert worker.processes_of(uid) == pids
        worker.start_kubelet()
    cluster.kubectl("delete", "node", "worker")

    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert not list(enclosure.CGROUPS.glob(f"**/{cluster.directory.name}-worker"))
    assert Path("/proc/self/mounts").read_text() == mounts


def _running(cluster: clusters.Cluster, namespace: str) -> str:
    pod = json.loads(cluster.kubectl("get", "pod", "p", "-n", namespace, "-o", "json"))
    return pod["metadata"]["uid"] if pod["status"]["phase"] == "Running" else ""


def test_containers_can_be_looked_into(cluster: clusters.Cluster, namespace: str) -> None:
    """As on any node, kubectl shows what a container prints, and runs commands in it."""
    with workers.Worker(cluster, "seen"):
        cluster.apply(POD.format(namespace=namespace, image=images.NAME).replace("worker", "seen"))
        waiting.until(lambda: _running(cluster, namespace), what="the pod to run", seconds=60)
        assert cluster.kubectl("logs", "p", "-n", namespace) == ""
        assert "HOSTNAME=" in cluster.kubectl("exec", "p", "-n", namespace, "--", "/pause", "env")
    cluster.kubectl("delete", "node", "seen")


def test_what_cannot_start_is_told_with_its_last_words(cluster: clusters.Cluster) -> None:
    """A room that cannot be set up says why, and leaves nothing."""
    directory = cluster.directory / "room"
    directory.mkdir()
    room = enclosure.Enclosure(directory, setup=["echo no room here", "false"])

    with pytest.raises(Exception, match="no room here"):
        room.start()
    room.stop()
    assert not list(enclosure.CGROUPS.glob(f"**/{cluster.directory.name}-room"))


def test_who_may_not_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who is not root reads what is missing."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert workers.obstacle() == "only root can make namespaces and cgroups for a kubelet"
