"""`make cluster`: a cluster to try Berth on by hand, with a node, an operator and an agent.

Without a name the node is played: pods are bound there, and are said to run. With `--worker NAME`
(as root) a real kubelet runs their containers, of the one image that it has. The cards are made up
either way. Everything is started here and ends here, also on Ctrl-C.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

from e2e import fleet
from support import kubelet
from testbed import cluster as clusters
from testbed import console, images, pki, ports, processes, workers

PLAYED: Final = "node-1"
IMAGE: Final = "example.com/train"

WORDS: Final = """
{exports}
export OPERATOR={operator}

# Nodes with eight cards each: {nodes}. An operator and an agent run; logs are in {directory}.
# The first pod of the README{changed}:
kubectl apply -f {pod}
kubectl get pods,gpupods -o wide
{inside}# A pod of your own needs schedulerName: berth-scheduler{image}.
# How the operator is doing, and which pages it has for debugging:
curl "http://$OPERATOR/healthz"
curl "http://$OPERATOR/debug"
# Certificates and tokens are good for {days} days: nothing here works any longer than that.
# Ctrl-C stops the cluster and removes everything.
"""
INSIDE: Final = "kubectl exec train -- /pause env\n"
NOTHING_INSIDE: Final = "# The node is played: there are no containers for kubectl logs and exec.\n"


@dataclasses.dataclass(frozen=True, slots=True)
class Prepared:
    """What was started, and what is to be told of it."""

    pod: Path
    operator: str  # HOST:PORT
    programs: tuple[processes.Program, ...]


async def prepare(
    cluster: clusters.Cluster, names: Sequence[str], stack: contextlib.AsyncExitStack
) -> Prepared:
    """Start all there is to be on a cluster, and write a file with a pod for it."""
    programs = fleet.Fleet(cluster)
    await asyncio.to_thread(programs.install)
    for name in names:
        stack.enter_context(workers.Worker(cluster, name))
        # The controllers that would do it are not run, for they would end the nodes that are played.
        cluster.kubectl("patch", "node", name, "--patch", '{"spec": {"taints": null}}')
    if not names:
        kubelets = await stack.enter_async_context(kubelet.Kubelets(cluster))
        await kubelets.add(kubelet.FakeNode(PLAYED))
    nodes = tuple((name, "8xA100-SXM4-80GB") for name in names or [PLAYED])
    address = f"127.0.0.1:{ports.free()}"
    started = (programs.operator("--listen", address), programs.agent(*nodes))
    for program in started:
        stack.callback(program.stop, grace=5)
    await asyncio.to_thread(programs.until_ready, *dict(nodes))
    pod = cluster.directory / "first-pod.yaml"
    pod.write_text(first_pod().replace(IMAGE, images.NAME) if names else first_pod())
    return Prepared(pod, address, started)


def first_pod() -> str:
    """Return the pod on the README's first page."""
    found = re.search(
        r"^```yaml\n(apiVersion.*?)^```", (fleet.ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert found, "the README begins with a pod"
    return found[1]


def words(cluster: clusters.Cluster, names: Sequence[str], prepared: Prepared) -> str:
    """Return what can be done with a cluster."""
    return WORDS.format(
        exports=console.exports(cluster),
        operator=prepared.operator,
        nodes=", ".join(names or [PLAYED]),
        directory=cluster.directory,
        changed=", with an image that the node has" if names else "",
        pod=prepared.pod,
        image=f", and the image {images.NAME}, for the node has no other" if names else "",
        inside=INSIDE if names else NOTHING_INSIDE,
        days=pki.LIFETIME.days,
    )


async def stay(programs: Sequence[processes.Program], tell: Callable[[str], None]) -> NoReturn:
    """Stay for as long as nobody ends it, and tell of each program that ends by itself."""
    running = list(programs)
    while True:
        for ended in [each for each in running if not each.alive()]:
            running.remove(ended)
            tell(f"{ended.name} has ended by itself; the end of {ended.log}:\n{processes.tail(ended.log)}")
        await asyncio.sleep(1.0)


async def run(names: Sequence[str]) -> None:
    """Start everything, say what can be done with it, and stay."""
    workers.require(names)
    with clusters.Cluster() as cluster:
        async with contextlib.AsyncExitStack() as stack:
            prepared = await prepare(cluster, names, stack)
            print(words(cluster, names, prepared), flush=True)
            await stay(prepared.programs, _tell)


def _tell(text: str) -> None:
    print(f"cluster: {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="make cluster", description=__doc__)
    workers.add_option(parser)
    chosen = parser.parse_args(arguments)
    return console.exit_code(
        "cluster",
        lambda: asyncio.run(run(chosen.worker)),
        last_words="everything is stopped and removed",
        interrupted=0,  # There is no other end.
    )


if __name__ == "__main__":
    sys.exit(main())
