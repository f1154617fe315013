"""A node that is one: a real kubelet over a real containerd, whose pods are real processes.

    with workers.Worker(cluster, "worker-1") as worker:
        ...  # bind pods to it; their image is `images.NAME`

It lives in an enclosure, so that it touches no kubelet of the host and leaves nothing behind. Its network is
its own, too: pods reach each other, the node and the API server there, and `publish` lets others in. Devices
are whatever a device plugin registers in `plugins`.
"""

import argparse
import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testbed import binaries, enclosure, images, nvidia_runtime, pod_network, ports, processes, relay, waiting
from testbed import cluster as clusters

READY_SECONDS = 60.0
LOAD_SECONDS = 240.0  # An image has hundreds of megabytes, and each layer is copied.
LOOPBACK = "127.0.0.1"
ADDRESSES = {"status": {"addresses": [{"type": "InternalIP", "address": LOOPBACK}]}}

# Folders and cgroups are called like that too, and the paths of sockets may have 107 bytes.
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")

CONTAINERD = """\
version = 3
root = "{directory}/containerd"
state = "{directory}/state"
[grpc]
address = "{directory}/containerd.sock"
[plugins.'io.containerd.cri.v1.images']
snapshotter = "{snapshotter}"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{image}"
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
enable_cdi = true
cdi_spec_dirs = ["{directory}/cdi"]
disable_apparmor = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{directory}/networks"]
conf_dir = "{directory}/networks"
use_internal_loopback = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "{runc}"
[plugins.'io.containerd.nri.v1.nri']
socket_path = "{directory}/nri.sock"
plugin_path = "{directory}/nri"
plugin_config_path = "{directory}/nri"
[plugins.'io.containerd.nri.v1.nri'.default_validator]
enable = true
"""


def misnamed(names: Sequence[str]) -> str:
    """Return in one sentence why workers cannot be called that; empty if they can."""
    for name in names:
        if not NAME.fullmatch(name):
            return f"{name!r} is not up to 40 lowercase letters, digits and hyphens between them, such as w1"
        if names.count(name) > 1:
            return f"{name!r} is named twice"
    return ""


def add_option(parser: argparse.ArgumentParser) -> None:
    """Let somebody ask for workers on a command line."""
    parser.add_argument(
        "--worker",
        action="append",
        default=[],
        metavar="NAME",
        help="a node with a real kubelet, as root; may be repeated",
    )


def require(names: Sequence[str]) -> None:
    """Raise an error in one sentence if there can be no workers of these names."""
    if names and (why := misnamed(names) or obstacle()):
        raise processes.CannotStart(f"there can be no worker: {why}")


def obstacle() -> str:
    """Return in one sentence why this machine can have no worker; empty if it can."""
    runc = "" if _runc() else "there is no runc, of which Debian's package is called runc"
    return enclosure.obstacle() or pod_network.obstacle() or images.obstacle() or runc


def _runc() -> str:
    return shutil.which("runc", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or ""


@functools.cache
def _snapshotter() -> str:
    """Return by what a container gets its image: layers that lie over each other, where the kernel lets us.

    A copy of all files would take seconds for each container.
    """
    with tempfile.TemporaryDirectory(prefix="berth-overlay-") as folder:
        for name in ("lower", "upper", "work", "merged"):
            (Path(folder) / name).mkdir()
        options = "lowerdir=lower,upperdir=upper,workdir=work"
        command = ["unshare", "--mount", "mount", "-t", "overlay", "overlay", "-o", options, "merged"]
        tried = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return "native" if tried.returncode else "overlayfs"


class Worker:
    """One node of a cluster; use it as a context manager."""

    def __init__(self, cluster: clusters.Cluster, name: str, *, nvidia: bool = False) -> None:
        """Choose its name, and whether NVIDIA's runtime is played; nothing happens before it is entered."""
        self.name = name
        self._nvidia = nvidia
        self._cluster = cluster
        self._directory = cluster.directory / name
        self._enclosure = enclosure.Enclosure(self._directory, setup=(*pod_network.SETUP, *self._setup()))
        self._port = ports.free()
        self._outside: list[processes.Program] = []
        self._kubelet: enclosure.EnclosedProgram | None = None
        self._programs: dict[str, Path] = {}

    def __enter__(self) -> Self:
        """Start it, and wait until its Node is there."""
        self._programs = binaries.ensure(("kubelet", "containerd", "containerd-shim-runc-v2", "ctr"))
        try:
            self._prepare()
            self._enclosure.start()
            self._relay({self._cluster.port: pod_network.outward, self._port: pod_network.inward})
            self._start_containerd()
            self.start_kubelet()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it with all its pods."""
        self._stop()

    @property
    def plugins(self) -> Path:
        """The folder of the sockets of device plugins."""
        return self._directory / "device-plugins"

    @property
    def directory(self) -> Path:
        """The folder of all its files."""
        return self._directory

    @property
    def pod_resources(self) -> Path:
        """The socket at which the kubelet tells which devices it gave to whom."""
        return self._directory / "kubelet" / "pod-resources" / "kubelet.sock"

    @property
    def nri(self) -> Path:
        """The socket at which containerd asks plugins about each container."""
        return self._directory / "nri.sock"

    @property
    def cdi(self) -> Path:
        """The folder of the specs that say what CDI devices are."""
        return self._directory / "cdi"

    def run_in(self, namespace: str, pod: str, container: str, *words: str) -> str:
        """Run a command in a container, as `kubectl exec` does, and return what it says."""
        where = ("--namespace", namespace, f"--container={container}")
        return self._cluster.kubectl("exec", pod, *where, "--", *words)

    def load(self, archive: Path) -> None:
        """Load an archive of images, so that pods may have them."""
        options = ("--namespace=k8s.io", "images", "import", "--local", f"--snapshotter={_snapshotter()}")
        imported = self._ctr(*options, str(archive), seconds=LOAD_SECONDS)
        if imported.returncode:
            raise processes.CannotStart(f"the image cannot be imported: {imported.stderr}")

    def start_kubelet(self) -> None:
        """Start the kubelet, and wait until it serves and its Node is there."""
        command = [
            str(self._programs["kubelet"]),
            f"--config={self._directory / 'kubelet.json'}",
            f"--kubeconfig={self._cluster.component_kubeconfig(f'node:{self.name}', 'system:nodes')}",
            f"--hostname-override={self.name}",
            f"--root-dir={self._directory / 'kubelet'}",
            # Somebody else says which addresses the Node has, for a kubelet takes no loopback address.
            "--cloud-provider=external",
        ]
        # The sockets of a kubelet that was killed stay, and tell nothing of the next one.
        before = {socket: _made(socket) for socket in (self.pod_resources, self.plugins / "kubelet.sock")}
        self._kubelet = self._enclosure.run("kubelet", command, env=self._environment())
        waiting.until(lambda: self._is_up(before), what=f"the kubelet of {self.name}", seconds=READY_SECONDS)
        # There the API server asks it for logs, and to run commands in containers.
        self._cluster.patch(f"/api/v1/nodes/{self.name}/status", ADDRESSES)

    def last_words(self, *, lines: int) -> str:
        """Return the end of the kubelet's log."""
        return processes.tail(self._kubelet.entry.log, lines=lines) if self._kubelet else "(no kubelet)"

    @contextlib.contextmanager
    def explaining(self, word: str, *, lines: int = 30) -> Iterator[None]:
        """Add to an error what the kubelet's log said first about a word: what came last only repeats it."""
        try:
            yield
        except AssertionError as error:
            log = self.last_words(lines=sys.maxsize).splitlines()
            said = [line for line in log if word in line.lower()][:lines]
            error.add_note("\n".join((f"What the kubelet of {self.name} said first of {word}:", *said)))
            raise

    def kill_kubelet(self) -> None:
        """Kill the kubelet; its pods run on."""
        assert self._kubelet, "it runs"
        self._kubelet.kill()
        self._kubelet = None

    def publish(self, port: int) -> None:
        """Lead what connects to a port of 127.0.0.1 outside to the same port of the node."""
        self._relay({port: pod_network.inward})

    def processes_of(self, pod_uid: str) -> list[int]:
        """Return the processes of a pod's containers, as numbered outside."""
        found = (each for each in Path("/proc").iterdir() if each.name.isdecimal())
        return sorted(int(each.name) for each in found if f"/pod{pod_uid}/" in _read(each / "cgroup"))

    def environments_of(self, pod_uid: str) -> list[dict[str, str]]:
        """Read with which environment each process of a pod was started."""
        texts = (_read(Path(f"/proc/{pid}/environ")).split("\0") for pid in self.processes_of(pod_uid))
        return [dict(pair.split("=", 1) for pair in pairs if pair) for pairs in texts]

    # ------------------------------------------------------------ how it starts

    def _setup(self) -> list[str]:
        # The kubelet and containerd keep some things at fixed places, whatever their roots are.
        return [
            "mount -t tmpfs none /var/lib",
            "mkdir -p /var/lib/kubelet/device-plugins",
            f"mount --bind {self.plugins} /var/lib/kubelet/device-plugins",
            "mount -t tmpfs none /run",
        ]

    def _prepare(self) -> None:
        for folder in (self.plugins, self.cdi, self._directory / "nri"):
            folder.mkdir(parents=True)
        runc = nvidia_runtime.install(self._directory, _runc()) if self._nvidia else _runc()
        words = {
            "directory": self._directory,
            "image": images.NAME,
            "runc": runc,
            "snapshotter": _snapshotter(),
        }
        (self._directory / "containerd.toml").write_text(CONTAINERD.format_map(words))
        pod_network.install(self._directory / "networks")
        (self._directory / "kubelet.json").write_text(json.dumps(self._configuration()))

    def _configuration(self) -> dict[str, Any]:
        """Return how the kubelet is to run: as root of a small machine that is not its own."""
        signals = ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available")
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": LOOPBACK,
            "port": self._port,
            "healthzPort": 0,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(self._cluster.ca_file)},
            },
            # Whoever has a certificate of this cluster may ask it for anything.
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{self._directory / 'containerd.sock'}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self._enclosure.cgroup,
            "failCgroupV1": False,
            "failSwapOn": False,
            "localStorageCapacityIsolation": False,
            "evictionHard": dict.fromkeys(signals, "0%"),
            "resolvConf": "",
            "podLogsDir": str(self._directory / "logs"),
            "nodeStatusUpdateFrequency": "1s",
        }

    def _start_containerd(self) -> None:
        command = [str(self._programs["containerd"]), f"--config={self._directory / 'containerd.toml'}"]
        running = self._enclosure.run("containerd", command, env=self._environment())
        waiting.until(
            lambda: self._ctr("version").returncode == 0 or not running.alive(),
            what="containerd",
            seconds=READY_SECONDS,
        )
        self.load(images.build(self._directory))

    def _ctr(self, *words: str, seconds: float = READY_SECONDS) -> subprocess.CompletedProcess[str]:
        socket = self._directory / "containerd.sock"
        return self._enclosure.call([self._programs["ctr"], f"--address={socket}", *words], seconds=seconds)

    def _relay(self, ways: Mapping[int, Callable[[int, Path], pod_network.Way]]) -> None:
        """Lead connections to these ports into the node's network or out of it."""
        made = [way(port, self._directory / f"{port}.sock") for port, way in ways.items()]
        name = f"relay-{'-'.join(map(str, ways))}"
        log = self._directory / f"{name}-outside.log"
        outside = pod_network.command(way.outside for way in made)
        self._outside.append(processes.start("relay", outside, log=log))
        inside = pod_network.command(way.inside for way in made)
        logs = log, self._enclosure.run(name, inside, env=os.environ).entry.log
        waiting.until(
            lambda: all(relay.LISTENS in _read(log) for log in logs),
            what=f"the way to the ports {[*ways]}",
            seconds=READY_SECONDS,
        )

    def _stop(self) -> None:
        self._enclosure.stop()
        while self._outside:
            self._outside.pop().kill()

    def _environment(self) -> dict[str, str]:
        """Let containerd find its shim."""
        return os.environ | {
            "PATH": f"{self._programs['containerd-shim-runc-v2'].parent}:{os.environ['PATH']}"
        }

    def _is_up(self, before: Mapping[Path, int]) -> bool:
        assert self._kubelet, "it was started"
        if not self._kubelet.alive():
            raise processes.CannotStart(
                f"the kubelet ended by itself; the end of its log:\n{self.last_words(lines=15)}"
            )
        if not all(_made(socket) > made for socket, made in before.items()):
            return False
        return self._cluster.read_node(self.name) is not None


def _made(path: Path) -> int:
    """Return when a file was made; a file that is not there was made before all others."""
    try:
        return path.stat().st_ctime_ns
    except FileNotFoundError:
        return 0


def _read(path: Path) -> str:
    """Read a file; one that is not there, as for a process that has ended, has nothing to tell."""
    try:
        return path.read_text()
    except OSError:
        return ""
