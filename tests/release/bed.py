"""A cluster on which Berth runs in pods: a real node, the images, helm, and the stock scheduler."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from berth_crds import names
from release import layout, rendering
from support.nvml import build, presets
from support.nvml.machine import VARIABLE, Machine
from testbed import binaries, pod_network, ports, processes, stock_scheduler, waiting, workers
from testbed.cluster import Cluster, KubectlFailed

HAS_POLICIES: Final = not binaries.release()  # Another API server asks the operator's webhook.
NAMESPACE: Final = "gpu"
OPERATORS: Final = 2 if HAS_POLICIES else 1  # Nobody there leads the API server to one of several.
PROGRAMS: Final = (*["berth-operator"] * OPERATORS, "berth-agent")
RELEASE: Final = "berth"
KINDS: Final = layout.ROOT / "crds"
PAUSE: Final = "berth.invalid/pause:1"
RESOURCES: Final = {"cards": "nvidia.com/gpu", "percent": "berth.dev/gpu"}
AGENT_LABEL: Final = "berth.dev/agent=true"
# These a cloud provider and the controller of nodes would take away, which the cluster does not have.
TAINTS: Final = ("node.cloudprovider.kubernetes.io/uninitialized-", "node.kubernetes.io/not-ready-")


class Bed:
    """A cluster with one real node."""

    def __init__(self, cluster: Cluster, worker: workers.Worker, machine: Machine) -> None:
        self.cluster = cluster
        self.worker = worker
        self.machine = machine
        self.values = self._values()

    def helm(self, action: str, *words: str) -> None:
        """Have helm do something with Berth."""
        where = ("--namespace", NAMESPACE, "--kubeconfig", f"{self.cluster.admin_kubeconfig}")
        rendering.helm(action, RELEASE, *words, *where)

    def _values(self) -> Path:
        """Return a file of values for this bed, which has no registry and no kube-proxy."""
        library, state = build.library().parent, self.machine.folder
        mounts = {"library": library, "machine": state}
        values = {
            "image": {"pullPolicy": "Never"},
            "apiServer": {"host": pod_network.GATEWAY, "port": self.cluster.port},
            "operator": {} if HAS_POLICIES else self._webhook(),
            "agent": {
                "kubeletFolder": f"{self.worker.directory / 'kubelet'}",
                "env": [
                    {"name": "LD_LIBRARY_PATH", "value": f"{library}"},
                    {"name": VARIABLE, "value": f"{self.machine.state}"},
                ],
                # As a driver's library would be, were it not NVIDIA's runtime that puts it there.
                "extraVolumes": [
                    {"name": name, "hostPath": {"path": f"{path}"}} for name, path in mounts.items()
                ],
                "extraVolumeMounts": [
                    {"name": name, "mountPath": f"{path}"} for name, path in mounts.items()
                ],
            },
        }
        file = self.cluster.directory / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        return file

    def _webhook(self) -> dict[str, Any]:
        """Let the API server, which nobody leads to a Service, ask the operator at a port of the node."""
        port = ports.free()
        self.worker.publish(port)
        return {
            "hostNetwork": True,
            "replicas": OPERATORS,
            "ports": {"webhook": port},
            "webhookURL": f"https://localhost:{port}",
        }

    def install(self, version: Path) -> None:
        """Install a version of Berth."""
        self.helm("install", *self.chart(version), "--create-namespace")

    def chart(self, version: Path) -> tuple[str, ...]:
        """Return what helm is told to install or upgrade to: the chart of a version, and the values."""
        (chart,) = version.glob("berth-*.tgz")
        return f"{chart}", "--values", f"{self.values}"

    def load(self, version: Path) -> None:
        """Load the images of a version."""
        for archive in sorted(version.glob("*.oci.tar")):
            self.worker.load(archive)

    def send_away(self) -> None:
        """Have all pods of Berth end, without removing anything else."""
        self._set_replicas(0, {"berth.invalid/away": "true"})

    def call_back(self) -> None:
        """Have them run again."""
        self._set_replicas(OPERATORS, None)

    def _set_replicas(self, operators: int, selector: dict[str, str] | None) -> None:
        """Set how many operators there are, and on which nodes there are agents."""
        change = {"spec": {"template": {"spec": {"nodeSelector": selector}}}}
        self.cluster.kubectl("scale", "-n", NAMESPACE, "deployment/berth-operator", f"--replicas={operators}")
        self.cluster.kubectl(
            *("patch", "-n", NAMESPACE, "daemonset/berth-agent", "--type=merge"),
            *("--patch", json.dumps(change)),
        )

    def leader(self) -> str:
        """Return the pod of the operator that leads; empty while none does."""
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
        holder: str = self.cluster.read(f"{leases}/{names.LEADER_LEASE}")["spec"].get("holderIdentity", "")
        return holder.partition("_")[0]

    def until_gone(self, *names: str) -> None:
        """Wait until pods of Berth's are gone."""
        waiting.until(lambda: not set(names) & set(self.pods()), what=f"{names} to go", seconds=60)

    def pods(self, namespace: str = NAMESPACE) -> dict[str, Any]:
        """Read the pods of a namespace, by name."""
        found = self.cluster.read(f"/api/v1/namespaces/{namespace}/pods")
        return {one["metadata"]["name"]: one for one in found["items"]}

    def until_ready(self, *names: str, namespace: str = NAMESPACE, seconds: float = 120.0) -> None:
        """Wait until there is one pod for each beginning of a name, and all are ready."""

        def ready() -> bool:
            now = self.pods(namespace)
            wanted = [one for title, one in now.items() if title.startswith(names)]
            return len(wanted) == len(names) and all(map(_is_ready, wanted))

        try:
            waiting.until(ready, what=f"{', '.join(names)} to be ready", seconds=seconds)
        except waiting.TimedOut as error:
            raise waiting.TimedOut(f"{error}\n{self.said()}") from None

    def said(self) -> str:
        """Return what the pods of Berth are and say, for whoever looks for what went wrong."""
        texts = [self.cluster.kubectl("get", "pods", "--all-namespaces", "--output=wide")]
        for subject in ("deployment/berth-operator", "daemonset/berth-agent"):
            with contextlib.suppress(Exception):
                texts.append(
                    self.cluster.kubectl("logs", "-n", NAMESPACE, subject, "--all-pods", "--tail=100")
                )
        return "\n".join(texts)

    def create(self, *names: str, **limits: int) -> None:
        """Create pods of the README's kind, which ask for cards, or for shares of them."""
        container = {
            "name": "main",
            "image": PAUSE,
            "imagePullPolicy": "Never",
            "resources": {"limits": {RESOURCES[key]: amount for key, amount in limits.items()}},
        }
        spec = {"schedulerName": "berth-scheduler", "containers": [container]}
        pods = [
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec} for name in names
        ]
        body = json.dumps({"apiVersion": "v1", "kind": "List", "items": pods})
        waiting.until(lambda: self._is_taken(body), what=f"{', '.join(names)} to be taken", seconds=60)

    def _is_taken(self, body: str) -> bool:
        """Return whether pods are made; without policies they are not while no operator answers."""
        try:
            self.cluster.kubectl("apply", "-f", "-", stdin=body)
        except KubectlFailed as error:
            if HAS_POLICIES or "failed calling webhook" not in f"{error}":
                raise
            return False
        return True

    def cards(self, name: str) -> list[str]:
        """Return which cards a container sees, by its environment."""
        lines = self.worker.run_in("default", name, "main", "/pause", "env").splitlines()
        (value,) = (line.partition("=")[2] for line in lines if line.startswith("NVIDIA_VISIBLE_DEVICES="))
        return value.split(",")


def skip_without_tools() -> None:
    """Skip a test where there can be no bed."""
    if why := workers.obstacle():
        pytest.skip(why)
    if missing := [name for name in ("buildah", "mmdebstrap") if not shutil.which(name)]:
        pytest.skip(f"images are built with {' and '.join(missing)}, which are not on the PATH")


@contextlib.contextmanager
def made(cluster: Cluster, folder: Path) -> Iterator[Bed]:
    """Yield a bed on a cluster on which nothing of Berth was installed, and for which nothing was loaded."""
    machine = Machine.make(folder / "machine", presets.DGX_A100)
    with workers.Worker(cluster, "worker-1") as worker, _scheduler(cluster):
        cluster.kubectl("taint", "node", worker.name, *TAINTS)
        cluster.kubectl("label", "node", worker.name, AGENT_LABEL)
        yield Bed(cluster, worker, machine)


@contextlib.contextmanager
def _scheduler(cluster: Cluster) -> Iterator[None]:
    """Run the stock scheduler."""
    running = processes.start(
        "kube-scheduler", stock_scheduler.command(cluster), log=cluster.directory / "kube-scheduler.log"
    )
    try:
        yield
    finally:
        running.kill()


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return "deletionTimestamp" not in pod["metadata"] and any(
        one["type"] == "Ready" and one["status"] == "True" for one in conditions
    )
