"""A worker is a node that is one, and nothing is left of it, not even what outlives its runtime."""

import os
from pathlib import Path

import pytest

from testbed import cluster as clusters
from testbed import enclosure, images, processes, waiting, workers

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


def cgroups(name: str) -> list[Path]:
    """Return the cgroups with a name that are there now; below them others come and go all the time."""
    return [path for pattern in (name, f"*/{name}") for path in enclosure.CGROUPS.glob(pattern)]


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.skipif(bool(workers.obstacle()), reason=workers.obstacle())
def test_pod_runs_and_nothing_is_left(cluster: clusters.Cluster, namespace: str) -> None:
    """Its pods are processes of this machine; with it they go, and so do their cgroups and mounts."""

    def running() -> str:
        pod = cluster.read(f"/api/v1/namespaces/{namespace}/pods/p")
        return pod["metadata"]["uid"] if pod["status"]["phase"] == "Running" else ""

    mounts = Path("/proc/self/mounts").read_text()
    with workers.Worker(cluster, "worker") as worker:
        cluster.apply(POD.format(namespace=namespace, image=images.NAME))
        uid = waiting.until(running, what="the pod to run", seconds=60)
        pids = worker.processes_of(uid)
        assert pids
        assert cgroups(f"{cluster.directory.name}-worker")
        worker.kill_kubelet()
        assert worker.processes_of(uid) == pids
        worker.start_kubelet()
    cluster.kubectl("delete", "node", "worker")

    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert not cgroups(f"{cluster.directory.name}-worker")
    assert Path("/proc/self/mounts").read_text() == mounts


@pytest.mark.skipif(bool(workers.obstacle()), reason=workers.obstacle())
def test_what_cannot_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    """An enclosure that cannot be set up says why, and leaves nothing."""
    room = enclosure.Enclosure(tmp_path, setup=["echo no room here", "false"])

    with pytest.raises(processes.CannotStart, match="no room here"):
        room.start()
    room.stop()
    assert not cgroups(room.cgroup.lstrip("/"))


def test_who_may_not_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who is not root reads what is missing."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert workers.obstacle() == "only root can make namespaces and cgroups for a kubelet"
