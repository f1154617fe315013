"""`make demo`: Berth at work on a real API server, told step by step.

Three GPU nodes of different models are simulated, a dozen pods of several shapes ask
for cards, one agent dies and comes back. Everything is started here and ends here, also
on Ctrl-C; with `--keep` the cluster stays up until then.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from e2e import fleet
from support import kubelet
from testbed import cluster as clusters
from testbed import console, processes, waiting

NODES: Final = (("dgx", "8xA100-SXM4-80GB"), ("workbench", "4xV100-SXM2-32GB"), ("edge", "2xT4"))
QUICK_POLICY: Final = """
apiVersion: berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: default}
spec: {strategy: binpack, agents: {graceSeconds: 5}}
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
PLACED: Final = 9  # The last three cannot be.


class Story:
    """Prints what happens, with the time since the start."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._step = 0

    def step(self, text: str) -> None:
        """Begin a new part."""
        self._step += 1
        print(f"\n[{time.monotonic() - self._start:5.1f} s] {self._step}. {text}", flush=True)

    def say(self, text: str) -> None:
        """Add a line."""
        print(f"          {text}", flush=True)

    def show(self, command: str, output: str) -> None:
        """Show a command and what it printed."""
        print(f"\n  $ {command}")
        print("\n".join(f"  {line}" for line in output.splitlines()), flush=True)


class Demo:
    """One run."""

    def __init__(self, cluster: clusters.Cluster, kubelets: kubelet.Kubelets) -> None:
        self._cluster = cluster
        self._kubelets = kubelets
        self._fleet = fleet.Fleet(cluster)
        self._story = Story()
        self._programs: dict[str, processes.Program] = {}
        self._namespace = ""

    async def play(self) -> None:
        """Play the whole story."""
        await self._install()
        await self._start()
        await self._ask()
        await self._lose_an_agent()
        await self._find_it_again()

    def end(self) -> None:
        """End what was started, agents first."""
        for program in reversed(self._programs.values()):
            program.stop(grace=5)

    # ------------------------------------------------------------ the parts

    async def _install(self) -> None:
        self._story.step("Install: kubectl apply -f crds/ -f manifests/")
        await asyncio.to_thread(self._fleet.install)
        await asyncio.to_thread(self._cluster.apply, QUICK_POLICY)
        self._namespace = await asyncio.to_thread(self._cluster.namespace, "demo")
        self._story.say(
            "The kinds, the roles and the default policy are there; an agent may be silent for 5 s."
        )

    async def _start(self) -> None:
        self._story.step("Start: three nodes, an operator, and agents, each under its own service account")
        await self._kubelets.add(*(kubelet.FakeNode(name) for name, _ in NODES))
        self._programs["operator"] = self._fleet.operator()
        self._start_agents("agents", NODES[:2])
        self._start_agents("edge", NODES[2:])
        for name, shape in NODES:
            self._story.say(f"{name}: {shape.replace('x', ' x ', 1)}")
        await self._until("all Devices to be ready", lambda: all(self._ready(name) for name, _ in NODES))
        self._show("get", "devices")

    async def _ask(self) -> None:
        self._story.step(f"Ask: {len(PODS)} pods, each with schedulerName: berth-scheduler")
        for why, thing in PODS:
            self._story.say(f"{thing['metadata']['name']:<12} {why}")
        listing = {"apiVersion": "v1", "kind": "List", "items": [thing for _, thing in PODS]}
        await asyncio.to_thread(self._kubectl, "apply", "-f", "-", stdin=json.dumps(listing))
        await self._until("the pods that fit to run and the others to be told why", self._settled)
        self._show("get", "devices")
        self._show("get", "gpupods", "-A")
        self._show("get", "pods", "-o", PLACES)
        self._story.say("")
        self._story.say("Why the others wait:")
        self._show("get", "pods", "--field-selector=spec.nodeName=", "-o", REASONS)

    async def _lose_an_agent(self) -> None:
        self._story.step("An agent dies: the one that speaks for the node edge")
        self._programs.pop("edge").kill()
        await self._until("the operator to find it silent", lambda: self._ready("edge") is False)
        self._show("get", "devices", "-o", "wide")
        self._story.say("Pods on edge go on; its cards get no new pod, the other nodes work as before:")
        _, late = pod("late", "nvidia.com/gpu=1", why="")
        await asyncio.to_thread(self._kubectl, "apply", "-f", "-", stdin=json.dumps(late))
        await self._until("the pod `late` to run elsewhere", lambda: self._running() == PLACED + 1)
        self._show("get", "pod", "late", "-o", PLACES)

    async def _find_it_again(self) -> None:
        self._story.step("The agent comes back")
        self._start_agents("edge", NODES[2:])
        await self._until("its Device to be ready", lambda: self._ready("edge"))
        self._show("get", "devices")

    # ------------------------------------------------------------ what is seen

    def _kubectl(self, *words: str, stdin: str | None = None) -> str:
        return self._cluster.kubectl("-n", self._namespace, *words, stdin=stdin)

    def _show(self, *words: str) -> None:
        self._story.show(
            f"kubectl {' '.join(TITLES.get(word, word) for word in words)}", self._kubectl(*words)
        )

    def _json(self, *words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._kubectl(*words, "-o", "json"))["items"]
        return found

    def _ready(self, name: str) -> bool | None:
        devices = {one["metadata"]["name"]: one for one in self._json("get", "devices")}
        conditions = devices.get(name, {}).get("status", {}).get("conditions", [])
        return {"True": True, "False": False}.get(
            next((one["status"] for one in conditions if one["type"] == "Ready"), "")
        )

    def _running(self) -> int:
        return sum(one["status"].get("phase") == "Running" for one in self._json("get", "pods"))

    def _settled(self) -> bool:
        waiting_pods = [one for one in self._json("get", "pods") if not one["spec"].get("nodeName")]
        told = all(one["status"].get("conditions") for one in waiting_pods)
        gpupods = [one for one in self._json("get", "gpupods") if one.get("status", {}).get("granted")]
        given = sum(len(held["devices"]) for one in gpupods for held in one["spec"]["containers"])
        shown = sum(one["status"]["summary"]["used"] for one in self._json("get", "devices"))
        # The init container of `prepared` holds the card that its main container holds.
        return told and self._running() == PLACED and len(gpupods) == PLACED - 1 and shown == given - 1

    def _start_agents(self, name: str, nodes: tuple[tuple[str, str], ...]) -> None:
        self._programs[name] = self._fleet.agent(*nodes, flags=("--interval", "1"), name=name)

    async def _until(self, what: str, condition: Callable[[], Any]) -> None:
        """Wait, with a sign of life every few seconds and an end when a program has died."""
        started = time.monotonic()

        async def holds() -> bool:
            for program in self._programs.values():
                if not program.alive():
                    raise processes.CannotStart(f"{program.name} ended:\n{processes.tail(program.log)}")
            if time.monotonic() - started > holds.told:  # type: ignore[attr-defined]
                holds.told += 5.0  # type: ignore[attr-defined]
                self._story.say(f"... waiting for {what} ({time.monotonic() - started:.0f} s)")
            return bool(await asyncio.to_thread(condition))

        holds.told = 3.0  # type: ignore[attr-defined]
        await waiting.eventually(holds, what=what, seconds=60)


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
TITLES: Final = {PLACES: "custom-columns=…", REASONS: "custom-columns=…"}


async def run(*, keep: bool) -> None:
    """Start everything, tell the story, and stay if asked to."""
    with clusters.Cluster() as cluster:
        async with kubelet.Kubelets(cluster) as kubelets:
            demo = Demo(cluster, kubelets)
            with contextlib.closing(_Closing(demo)):
                await demo.play()
                if keep:
                    print(STAYS.format(exports=console.exports(cluster)), flush=True)
                    await asyncio.Event().wait()
    print("\nThat was Berth; everything is stopped and removed.")


class _Closing:
    def __init__(self, demo: Demo) -> None:
        self._demo = demo

    def close(self) -> None:
        self._demo.end()


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
