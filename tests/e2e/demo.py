"""`make demo`: Berth at work on a real API server, told step by step.

Three GPU nodes of different models are simulated, a dozen pods of several shapes ask
for cards, a card fails and recovers, one agent dies and comes back. Everything is started
here and ends here, also on Ctrl-C; with `--keep` the cluster stays up until then.
"""

import argparse
import asyncio
import itertools
import json
import sys
import time
from typing import Any, Final

from e2e import fleet
from support import kubelet
from testbed import cluster as clusters
from testbed import console, processes, waiting

NODES: Final = (("dgx", "8xA100-SXM4-80GB"), ("workbench", "4xV100-SXM2-32GB"), ("edge", "2xT4"))
SICK: Final = {"dgx": {"0": {"reason": "XID79", "xid": 79, "message": "fell off the bus"}}}
QUICK_POLICY: Final = """
apiVersion: berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: default}
spec: {strategy: binpack, agents: {graceSeconds: 5, unknownSeconds: 2}}
"""


def pod(
    name: str, *cards: str, why: str, model: str = "", cpu: str = "1", init: str = ""
) -> tuple[str, dict[str, Any]]:
    """Describe a pod: one container for each entry of `cards`, such as `nvidia.com/gpu=2`."""
    annotations = {"berth.dev/model": model} if model else {}
    containers = [_container(f"c{at}", one, cpu) for at, one in enumerate(cards)]
    spec: dict[str, Any] = {"schedulerName": "berth-scheduler", "containers": containers}
    if init:
        spec["initContainers"] = [_container("prepare", init, cpu)]
    meta = {"name": name, "annotations": annotations}
    return why, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _container(name: str, cards: str, cpu: str) -> dict[str, Any]:
    limits = dict([cards.split("=")]) if cards else {}
    image = {"name": name, "image": "example.com/work"}
    return image | {"resources": {"limits": limits, "requests": {"cpu": cpu, **limits}}}


PODS: Final = (
    pod("notebook-0", "nvidia.com/gpu=1", why="one card"),
    pod("notebook-1", "nvidia.com/gpu=1", why="one card"),
    pod("serve-0", "berth.dev/gpu=100", why="one card, asked in percent"),
    pod("train-small", "nvidia.com/gpu=2", why="two cards"),
    pod("train-a100", "nvidia.com/gpu=4", model="A100-SXM4-80GB", why="four cards of one model"),
    pod("either", "nvidia.com/gpu=1", model="A100-SXM4-80GB, V100-SXM2-32GB", why="one of two models"),
    pod("pair", "nvidia.com/gpu=1", "nvidia.com/gpu=1", why="two containers, a card each"),
    pod("prepared", "nvidia.com/gpu=1", init="nvidia.com/gpu=1", why="an init container uses the same card"),
    pod("helper", "", why="no card at all"),
    pod("greedy", "nvidia.com/gpu=1", cpu="500", why="a card, and more cpu than any node has"),
    pod("huge", "nvidia.com/gpu=16", why="more cards than any node has"),
    pod("nonsense", "berth.dev/gpu=150", why="neither part of a card nor whole cards"),
)
TITLES: Final = [thing["metadata"]["name"] for _, thing in PODS]
PLACED: Final = TITLES[:9]  # The last three cannot be.
USED: Final = 13  # Cards of these; the init container of `prepared` borrows that of its main container.


class Demo:
    """One run: what happens is printed with the time since the start."""

    def __init__(self, cluster: clusters.Cluster, kubelets: kubelet.Kubelets) -> None:
        self._cluster = cluster
        self._kubelets = kubelets
        self._faults = cluster.directory / "faults.json"
        self._fleet = fleet.Fleet(cluster)
        self._start = time.monotonic()
        self._steps = itertools.count(1)
        self._where: tuple[str, ...] = ()

    async def play(self) -> None:
        """Play the whole story."""
        await self._install()
        await self._start_programs()
        await self._ask()
        await self._lose_a_card_and_find_it_again()
        await self._lose_an_agent_and_find_it_again()

    def end(self) -> None:
        """End what was started, agents first."""
        for program in reversed(self._fleet.programs):
            program.stop(grace=5)

    # ------------------------------------------------------------ the parts

    async def _install(self) -> None:
        self._step("Install: kubectl apply -f crds/ -f manifests/")
        await asyncio.to_thread(self._fleet.install)
        await asyncio.to_thread(self._cluster.apply, QUICK_POLICY)
        self._where = ("-n", await asyncio.to_thread(self._cluster.namespace, "demo"))
        _say("The kinds, the roles and the default policy are there; an agent may be silent for 5 s.")

    async def _start_programs(self) -> None:
        self._step("Start: three nodes, an operator, and agents, each under its own service account")
        await self._kubelets.add(*(kubelet.FakeNode(name) for name, _ in NODES))
        self._fleet.operator()
        self._faults.write_text("{}")
        self._start_agent(*NODES[:2])
        self._edge = self._start_agent(NODES[2])
        for name, shape in NODES:
            _say(f"{name}: {shape.replace('x', ' x ', 1)}")
        await self._until_ready(*dict(NODES))
        await self._show("get", "devices")

    async def _ask(self) -> None:
        self._step(f"Ask: {len(PODS)} pods, each with schedulerName: berth-scheduler")
        for why, thing in PODS:
            _say(f"{thing['metadata']['name']:<12} {why}")
        await self._create(*(thing for _, thing in PODS))
        _say("... waiting for the pods that fit to run and the others to be told why")
        await self._wait(RUNS, *(f"pod/{name}" for name in PLACED))
        await self._wait("condition=PodScheduled=False", *(f"pod/{name}" for name in TITLES[9:]))
        for state in ("create", "jsonpath={.status.granted}"):
            await self._wait(state, *(f"gpupod/{name}" for name in PLACED if name != "helper"))
        await waiting.eventually(self._all_shown, what="the Devices to show it", seconds=60)
        await self._show("get", "devices")
        await self._show("get", "gpupods", "-A")
        await self._show("get", "pods", "-o", PLACES)
        _say("Why the others wait:")
        await self._show("get", "pods", "--field-selector=spec.nodeName=", "-o", REASONS)

    async def _lose_a_card_and_find_it_again(self) -> None:
        self._step("A card fails: GPU 0 of the node dgx falls off the bus")
        self._faults.write_text(json.dumps(SICK))
        await self._wait("jsonpath={.status.summary.healthy}=7", "device/dgx")
        await self._show("get", "devices", "dgx", "-o", "wide")
        _say("The pod that has it is left alone; no new one gets it. The card answers again:")
        self._faults.write_text("{}")
        await self._wait("jsonpath={.status.summary.healthy}=8", "device/dgx")
        await self._show("get", "devices", "dgx")
        _say("Nobody restarted anything.")

    async def _lose_an_agent_and_find_it_again(self) -> None:
        self._step("An agent dies: the one that speaks for the node edge")
        self._edge.kill()
        _say("... waiting for the operator to find it silent")
        await self._wait("condition=Ready=False", "device/edge")
        await self._show("get", "devices", "-o", "wide")
        _say("Pods on edge go on; its cards get no new pod, the other nodes work as before:")
        _, late = pod("late", "nvidia.com/gpu=1", why="")
        await self._create(late)
        await self._wait(RUNS, "pod/late")
        await self._show("get", "pod", "late", "-o", PLACES)
        self._step("The agent comes back")
        self._start_agent(NODES[2])
        await self._until_ready("edge")
        await self._show("get", "devices")

    # ------------------------------------------------------------ what is said and done

    def _step(self, text: str) -> None:
        passed = time.monotonic() - self._start
        print(f"\n[{passed:5.1f} s] {next(self._steps)}. {text}", flush=True)

    def _start_agent(self, *nodes: tuple[str, str]) -> processes.Program:
        return self._fleet.agent(*nodes, flags=("--interval", "1", "--faults", f"{self._faults}"))

    async def _kubectl(self, *words: str, stdin: str | None = None) -> str:
        return await asyncio.to_thread(self._cluster.kubectl, *self._where, *words, stdin=stdin)

    async def _create(self, *things: dict[str, Any]) -> None:
        listing = {"apiVersion": "v1", "kind": "List", "items": things}
        await self._kubectl("apply", "-f", "-", stdin=json.dumps(listing))

    async def _wait(self, state: str, *things: str) -> None:
        await self._kubectl("wait", f"--for={state}", *things, "--timeout=60s")

    async def _until_ready(self, *nodes: str) -> None:
        _say("... waiting for the Devices to be ready")
        await asyncio.to_thread(self._fleet.until_ready, *nodes)

    async def _all_shown(self) -> bool:
        listed = json.loads(await self._kubectl("get", "devices", "-o", "json"))["items"]
        return bool(sum(one["status"]["summary"]["used"] for one in listed) == USED)

    async def _show(self, *words: str) -> None:
        """Show a command and what it prints."""
        print(f"\n  $ kubectl {' '.join(SHORT.get(word, word) for word in words)}")
        print("\n".join(f"  {line}" for line in (await self._kubectl(*words)).splitlines()), flush=True)


def _say(text: str) -> None:
    print(f"          {text}", flush=True)


LENGTH: Final = """\
The whole story takes about half a minute: a control plane starts (8 s), Berth is installed and its agents
begin (6 s), pods ask for cards (6 s), a card fails and recovers (2 s), an agent dies and comes back (8 s)."""
RUNS: Final = "jsonpath={.status.phase}=Running"
PLACES: Final = (
    "custom-columns=POD:.metadata.name,PHASE:.status.phase,NODE:.spec.nodeName,"
    r"MINORS:.metadata.annotations.berth\.dev/minors"
)
REASONS: Final = (
    "custom-columns=POD:.metadata.name,REASON:.status.conditions[0].reason,WHY:.status.conditions[0].message"
)
STAYS: Final = """
Stays up until Ctrl-C. To look around with kubectl, in another shell:

{exports}
"""
SHORT: Final = {PLACES: "custom-columns=…", REASONS: "custom-columns=…"}


async def run(*, keep: bool) -> None:
    """Start everything, tell the story, and stay if asked to."""
    print(LENGTH, flush=True)
    with clusters.Cluster() as cluster:
        async with kubelet.Kubelets(cluster) as kubelets:
            demo = Demo(cluster, kubelets)
            try:
                await demo.play()
                if keep:
                    print(STAYS.format(exports=console.exports(cluster)), flush=True)
                    await asyncio.Event().wait()
            finally:
                demo.end()
    print("\nThat was Berth; everything is stopped and removed.")


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument(
        "--keep", action="store_true", help="stay up at the end, until Ctrl-C (make demo KEEP=1)"
    )
    chosen = parser.parse_args()
    return console.exit_code(
        "demo",
        lambda: asyncio.run(run(keep=chosen.keep)),
        last_words="interrupted; everything is stopped and removed",
        interrupted=0,
    )


if __name__ == "__main__":
    sys.exit(main())
