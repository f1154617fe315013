"""The network of a node: a bridge, to which each pod has a wire of its own.

It lies in the node's own network namespace, so that nothing of it is seen outside, and the kernel removes it
with the namespace. Nothing leads out of it but relays: to the API server, and to those ports of the node that
are published.
"""

import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from testbed import relay

GATEWAY = "10.88.0.1"  # The node's own address there, at which pods find the API server.
TOOLS = ("ip", "flock")
SETUP = (
    "ip link set lo up",
    "ip link add pods type bridge",
    f"ip address add {GATEWAY}/16 dev pods",
    "ip link set pods up",
)

CONFIGURATION = {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "wire"}]}
WIRE = f"""\
#!/bin/sh
# Gives a pod a wire to the bridge, and the next address; the kernel removes both with the pod.
set -e
cat > /dev/null
case "$CNI_COMMAND" in
VERSION) echo '{{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}}' ;;
ADD)
  exec 9< "$0"
  flock 9
  number=$(cat "$0.count")
  echo $((number + 1)) > "$0.count"
  exec 9<&-
  address=10.88.$((number / 250)).$((number % 250 + 2))
  ip link add "pod$number" type veth peer name eth0 netns "$CNI_NETNS"
  ip link set "pod$number" master pods up
  nsenter --net="$CNI_NETNS" sh -c "
    ip address add $address/16 dev eth0 && ip link set eth0 up && ip route add default via {GATEWAY}" >&2
  echo '{{"cniVersion": "1.0.0", "interfaces": [{{"name": "eth0", "sandbox": "'"$CNI_NETNS"'"}}],'
  echo ' "ips": [{{"interface": 0, "address": "'"$address"'/16", "gateway": "{GATEWAY}"}}]}}' ;;
esac
"""


class Way(NamedTuple):
    """An address and its target outside, and the pair inside to which that leads or from which it comes."""

    outside: str
    inside: str


def obstacle() -> str:
    """Return in one sentence why this machine can have no such network; empty if it can."""
    if missing := [tool for tool in TOOLS if not shutil.which(tool)]:
        return f"there is no {missing[0]}, of which Debian's package is called iproute2 or util-linux"
    return ""


def install(folder: Path) -> None:
    """Write what containerd needs to give pods their wires into an empty folder, its programs included."""
    folder.mkdir()
    (folder / "pods.conflist").write_text(json.dumps(CONFIGURATION))
    wire = folder / "wire"
    wire.write_text(WIRE)
    wire.chmod(0o755)
    (folder / "wire.count").write_text("0\n")


def inward(port: int, socket: Path) -> Way:
    """Return how a port outside leads to the same port of the node."""
    here = f"127.0.0.1:{port}"
    return Way(f"{here}={socket}", f"{socket}={here}")


def outward(port: int, socket: Path) -> Way:
    """Return how a port of the node leads to the same port outside."""
    return Way(f"{socket}=127.0.0.1:{port}", f"0.0.0.0:{port}={socket}")


def command(pairs: Iterable[str]) -> list[str]:
    """Return the command of a relay between these addresses and their targets."""
    return [sys.executable, "-I", "-S", str(relay.__file__), *pairs]
