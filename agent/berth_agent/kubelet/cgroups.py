"""Which pod and container a process belongs to, by the name of its cgroup. Pure but for the reads.

The kubelet gives each pod a cgroup whose name has the pod's uid, and the runtime gives
each container one below it whose name has the container's id. How these are spelled
depends on the driver:

  cgroupfs   /kubepods/burstable/pod<uid>/<container>
  systemd    /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid_>.slice/
             cri-containerd-<container>.scope      (in <uid_> each dash is an underscore)

Containerd under systemd, but configured for the cgroupfs driver, writes
`kubepods-burstable-pod<uid_>.slice:cri-containerd:<container>`. cgroup v2 has one line,
v1 one for each controller, of which some may be empty. Inside a cgroup namespace, paths begin
with `/..` and may lack the part of the pod; then only the id of the container is
known. The uid of a static pod is a hash without dashes.
"""

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from berth_agent import sysfs
from berth_crds import schema_limits, text

LONGEST: Final = 1 << 16  # A few lines of paths.
LONGEST_COMMAND: Final = 256  # The kernel cuts it at 15 characters.


@dataclasses.dataclass(frozen=True, slots=True)
class CgroupOwner:
    """The pod and the container of a cgroup; what is unknown is empty, on the host both are."""

    pod_uid: str = ""
    container_id: str = ""


HOST: Final = CgroupOwner()

_DASHED: Final = r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}"
_HASH: Final = r"[0-9a-f]{32}"
_POD: Final = re.compile(rf"(?:^|/|-)pod({_DASHED}|{_HASH})(?:\.slice)?(?=/|:|$)")
_CONTAINER: Final = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?=/|$)")


def parse_owner(content: str) -> CgroupOwner:
    """Return the owner of a process, given its /proc/PID/cgroup."""
    found = [one for one in map(_of_path, _paths(content)) if one != HOST]
    return max(found, key=lambda owner: (bool(owner.pod_uid), bool(owner.container_id)), default=HOST)


def read_owner(procfs: Path, pid: int) -> CgroupOwner | None:
    """Return the owner of a process; None if it has ended meanwhile, or may not be read."""
    try:
        content = sysfs.contents(procfs / str(pid) / "cgroup", most=LONGEST)
    except OSError:
        return None
    return parse_owner(content.decode(errors="replace"))


def read_command(procfs: Path, pid: int) -> str:
    """Return the name of the program that a process runs; empty if that cannot be read."""
    try:
        content = sysfs.contents(procfs / str(pid) / "comm", most=LONGEST_COMMAND)
    except OSError:
        return ""
    return text.line(content.decode(errors="replace").rstrip("\n"), most=schema_limits.LONGEST_COMMAND)


def _paths(content: str) -> Iterable[str]:
    """Return the paths of lines such as `4:memory:/kubepods/...`; a path may have colons itself."""
    parts = (line.split(":", 2) for line in content.splitlines())
    return (fields[2] for fields in parts if len(fields) == 3)  # noqa: PLR2004  number, controllers, path


def _of_path(path: str) -> CgroupOwner:
    if (pod := _POD.search(path)) is None and not path.startswith("/.."):
        # A container that no kubelet started: the 64 digits belong to some other runtime.
        return HOST
    # Before the pod there may be the container in which the whole node runs, and behind the
    # container cgroups of its processes: the first id after the pod counts.
    container = _CONTAINER.search(path, pod.end() if pod else 0)
    return CgroupOwner(pod.group(1).replace("_", "-") if pod else "", container.group(1) if container else "")
