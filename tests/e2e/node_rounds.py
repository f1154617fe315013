"""`make e2e-node`: pods come and go on one real node, by each way of delivery, and each is looked into.

    make e2e-node N=200
    make e2e-node N=20 WAY=plugin

For each way N pods are made and deleted in random order, with whole cards and shares; each must see the
cards of its annotation and no others. By way of the device plugin there are rounds of equal pods at once,
and rounds of stock pods beside Berth's shares. What was given otherwise than promised is counted, and
nothing may be left.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any, Final

from berth_agent import simulated
from berth_crds import card_part, names
from berth_crds.client import errors, resources
from e2e import fleet, inside
from e2e import stage as stages
from e2e.conditions import condition
from e2e.inside import LIBRARY, LOADED, MAJOR, MOST_CARDS, OF_DRIVER, Inside, container, pod, records
from e2e.stage import Stage
from support import pod_invariants
from testbed import cluster as clusters
from testbed import console, nvidia_runtime, processes, waiting, workers

Limits = dict[str, str]

SHAPE: Final = f"{MOST_CARDS}xT4"
STOCK: Final = "somebody-else"
TOGETHER: Final = 4  # Pods that are on the node at a time.
MOST_REJECTIONS: Final = 3  # Of one pod in a row.
LEAVING: Final = 0.3  # How likely one of them goes before the next one comes.


class Wrong(AssertionError):
    """A container sees other cards than it should, or something is left."""


@dataclasses.dataclass(frozen=True, slots=True)
class Way:
    """A way of delivery: the flags of its agent, and whether NVIDIA's runtime is played on the node."""

    flags: Callable[[workers.Worker, Path], Iterable[str]]
    nvidia: bool = False


def _nri(worker: workers.Worker, driver: Path) -> Iterable[str]:
    return ("--nri", f"{worker.nri}", "--nvidia-driver-root", f"{driver}")


WAYS: Final = {
    "env": Way(lambda _worker, _driver: (), nvidia=True),
    "nri": Way(_nri),
    "cdi": Way(
        lambda worker, driver: (
            *_nri(worker, driver),
            "--cdi",
            f"{worker.cdi}",
            "--nri-cdi-kind",
            "berth.dev/gpu",
        )
    ),
    "plugin": Way(
        lambda worker, _driver: (
            *("--kubelet-socket", f"{worker.plugins / 'kubelet.sock'}"),
            *("--pod-resources", f"{worker.pod_resources}"),
        ),
        nvidia=True,
    ),
}


@dataclasses.dataclass(slots=True)
class Node:
    """A real node with four cards and an agent that delivers one way."""

    stage: Stage
    worker: workers.Worker
    way: str
    counts: Counter[str] = dataclasses.field(default_factory=Counter)

    def minors(self) -> dict[str, int]:
        """Return the minor of each card."""
        cards = simulated.machine(self.worker.name, SHAPE).answering_cards()
        return {card.uuid: card.minor for card in cards}


@contextlib.asynccontextmanager
async def furnished(stage: Stage, way: str) -> AsyncIterator[Node]:
    """Yield a node that delivers one way, with an operator."""
    chosen = WAYS[way]
    with contextlib.ExitStack() as stack:
        driver = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="berth-driver-")))
        inside.make_driver(driver)
        name = f"worker-{secrets.token_hex(3)}"
        worker = stack.enter_context(workers.Worker(stage.cluster, name, nvidia=chosen.nvidia))
        stack.callback(stage.cluster.delete, f"/api/v1/nodes/{name}")
        node = Node(stage, worker, way)
        if chosen.nvidia:
            files = {str(driver / LIBRARY): LOADED}
            nvidia_runtime.give(worker.directory, node.minors(), OF_DRIVER, files, major=MAJOR)
        stage.operator()
        await stage.agent(*chosen.flags(worker, driver), **{name: SHAPE})
        await stage.until_ready(name)
        if way == "plugin":
            await inside.until_allocatable(stage, name, MOST_CARDS)
        yield node


# ---------------------------------------------------------------- pods that come and go


async def come_and_go(node: Node, count: int, chance: random.Random) -> None:
    """Make so many pods, look into each, and delete them in random order; nothing may be left of them."""
    stage = node.stage
    cards = pod_invariants.cards_of({node.worker.name: (await stage.devices())[node.worker.name]})
    async with pod_invariants.WatchedInvariants(stage.cluster, stage.namespace, cards) as invariants:
        alive: list[str] = []
        for number in range(count):
            while len(alive) >= TOGETHER or (alive and chance.random() < LEAVING):
                await stage.delete(alive.pop(chance.randrange(len(alive))))
            name = f"p{number}"
            await stage.create(pod(name, _container(chance)))
            while not await _finds_room(stage, name):
                if alive:
                    await stage.delete(alive.pop(chance.randrange(len(alive))))
            alive.append(name)
            await _look_into(node, name)
        for name in alive:
            await _look_into(node, name)
        await _delete(stage, *alive)
    if invariants.violations:
        raise Wrong("\n".join(invariants.violations))
    await _nothing_is_left(node)


def _container(chance: random.Random) -> dict[str, Any]:
    """Return a container that asks for one or two cards, or for a part of one."""
    core = str(chance.choice((30, 50)))
    limits = chance.choice(
        (
            {names.NVIDIA_GPU: "1"},
            {names.NVIDIA_GPU: "2"},
            {names.GPU_CORE: core, names.GPU_MEMORY_RATIO: core},
            {names.GPU: core},
        )
    )
    return container("main", **limits)


async def _finds_room(stage: Stage, name: str) -> bool:
    """Whether a pod runs; one that is told that it fits nowhere waits until others have gone."""

    async def said() -> str:
        told = condition((await stage.pods())[name], "PodScheduled").get("reason", "")
        return "waits" if told == "Unschedulable" else "runs" if await _runs(stage, name) else ""

    return await waiting.eventually(said, what=f"{name} to run or to be told why not", seconds=40) == "runs"


async def _until_running(stage: Stage, name: str) -> None:
    await waiting.eventually(lambda: _runs(stage, name), what=f"{name} to run", seconds=40)


async def _runs(stage: Stage, name: str) -> bool:
    now = (await stage.pods())[name]
    if now["status"].get("phase") == "Failed":
        raise Wrong(f"{name} failed: {now['status'].get('reason')}: {now['status'].get('message')}")
    return condition(now, "Ready").get("status") == "True"


async def _look_into(node: Node, name: str) -> None:
    """Raise unless a container sees the cards of its annotation and no others."""
    given = (await node.stage.pods())[name]["metadata"]["annotations"][names.container_key("main", "uuids")]
    seen = Inside(node.stage, node.worker, (name, "main"))
    expected = sorted(node.minors()[uuid] for uuid in given.split(","))
    found = seen.uuids(), seen.minors()
    if found != (given, expected):
        raise Wrong(f"{name} was given {given}, minors {expected}, and sees {found}")
    node.counts["as promised"] += 1


async def _delete(stage: Stage, *titles: str) -> None:
    for name in titles:
        await stage.delete(name)
    for name in titles:
        await stage.until_gone(name)


async def _nothing_is_left(node: Node) -> None:
    """Raise unless no record is left, and all cards can be had at once."""
    stage = node.stage

    await waiting.eventually(lambda: not records(stage), what="all GpuPods to go", seconds=30)
    await stage.create(pod("all", container("main", **{names.NVIDIA_GPU: f"{MOST_CARDS}"})))
    await _until_running(stage, "all")
    await _look_into(node, "all")
    await _delete(stage, "all")


# ---------------------------------------------------------------- rounds of the device plugin


async def equal_pods(node: Node, rounds: int) -> None:
    """Make equal pods at once, again and again: count who was given what was promised, and who was not.

    In the second half of the rounds they are halves of cards.
    """
    stage = node.stage
    for number in range(rounds):
        equal = container("main", **{names.GPU: "50"}) if number >= rounds // 2 else inside.whole("main")
        made = [pod(f"e{number}-{each}", equal) for each in range(MOST_CARDS)]
        titles = [each["metadata"]["name"] for each in made]
        await stage.create(*made)
        for name in titles:
            await _until_running(stage, name)
            node.counts[await _verified(stage, name)] += 1
        await _delete(stage, *titles)


async def _verified(stage: Stage, name: str) -> str:
    """Return what the record of a pod says of what the kubelet gave, once it says so."""

    async def said() -> str:
        with contextlib.suppress(errors.NotFound):
            found = await stage.admin.get(resources.GPU_PODS, name, into=dict, namespace=stage.namespace)
            reason = condition(found, "Verified").get("reason", "")
            return reason if reason in {"Agreed", "Mismatch"} else ""
        return ""

    return await waiting.eventually(said, what=f"what {name} was given to be verified", seconds=40)


async def mixed_pods(node: Node, rounds: int, chance: random.Random) -> None:
    """Make stock pods and shares of Berth's at once; pods that see one card may ask for no more than it.

    One of Berth's that its kubelet rejects, since a stock pod got the card just before the promise was known,
    is made again, as its controller would do.
    """
    stage = node.stage
    unasked = {names.GPU_CORE: "50", names.GPU_MEMORY_RATIO: "50"}
    for number in range(rounds):
        asked: dict[str, Limits] = {
            f"s{number}-{each}": chance.choice(({names.NVIDIA_GPU: "1"}, {names.GPU: "30"}))
            for each in range(chance.choice((1, 2)))
        }
        made = [
            pod(name, container("main", **limits), schedulerName=STOCK, nodeName=node.worker.name)
            for name, limits in asked.items()
        ]
        ours = f"h{number}"
        asked[ours] = chance.choice((unasked, {names.GPU: "50"}))
        made.append(pod(ours, container("main", **asked[ours])))
        chance.shuffle(made)
        titles = [each["metadata"]["name"] for each in made]
        await stage.create(*made)
        for _ in range(MOST_REJECTIONS):
            if await _settled(stage, ours) != "Failed" or not await _is_rejected(stage, ours):
                break
            node.counts["mixed, ours: made again"] += 1
            await _delete(stage, ours)
            await stage.create(pod(ours, container("main", **asked[ours])))
        ended = [await _settled(stage, name) for name in titles]
        running = [name for name, phase in zip(titles, ended, strict=True) if phase == "Running"]
        cards = {name: Inside(stage, node.worker, (name, "main")).minors() for name in running}
        held = Counter[int]()
        for name, minors in cards.items():
            held.update(dict.fromkeys(minors, _percent(asked[name])))
        if any(percent > card_part.WHOLE for percent in held.values()):
            raise Wrong(f"more of a card is given than it has: {cards} for {asked}")
        for name, phase in zip(titles, ended, strict=True):
            node.counts[f"mixed, {'ours' if name.startswith('h') else 'stock'}: {phase}"] += 1
        await _delete(stage, *titles)


async def _is_rejected(stage: Stage, name: str) -> bool:
    """Whether the kubelet did not let a pod start with the card of its promise."""
    return bool((await stage.pods())[name]["status"].get("reason") == "UnexpectedAdmissionError")


def _percent(limits: Limits) -> int:
    """Return how many percent of a card a container asks for."""
    return int(limits.get(names.GPU) or limits.get(names.GPU_CORE) or card_part.WHOLE)


async def _settled(stage: Stage, name: str) -> str:
    """Return the phase of a pod that runs or has failed."""

    async def phase() -> str:
        now = (await stage.pods())[name]
        if now["status"].get("phase") == "Failed":
            return "Failed"
        return "Running" if condition(now, "Ready").get("status") == "True" else ""

    return await waiting.eventually(phase, what=f"{name} to run or to fail", seconds=40)


# ---------------------------------------------------------------- on the command line


async def play(
    base: fleet.Fleet, way: str, count: int, *, rounds: int, seed: int, say: Callable[[str], None]
) -> Counter[str]:
    """Play one way, and the rounds of the device plugin if it is that one; return what was counted."""
    chance, began = random.Random(seed), time.monotonic()
    async with stages.lent(base) as stage, furnished(stage, way) as node:
        await come_and_go(node, count, chance)
        say(f"{way}: {count} pods came and went, {time.monotonic() - began:.0f} s")
        if way == "plugin":
            await equal_pods(node, rounds)
            await mixed_pods(node, rounds, chance)
        counted = ", ".join(f"{what} {number}" for what, number in sorted(node.counts.items()))
        say(f"{way}: kept: {counted}; {time.monotonic() - began:.0f} s")
        return node.counts


def main() -> int:
    """Start a cluster, play all ways or one, and leave nothing behind."""
    arguments = _parser().parse_args()
    return console.exit_code("e2e-node", lambda: run(arguments))


def run(arguments: argparse.Namespace) -> int:
    """Play on a cluster of its own."""
    if why := workers.obstacle():
        raise processes.CannotStart(f"there can be no real node: {why}")
    with clusters.Cluster() as cluster:
        base = fleet.Fleet(cluster)
        base.install()
        cluster.kubectl("get", "devices,gpupods,placementpolicies", "--all-namespaces")
        return asyncio.run(_play_all(base, arguments))


async def _play_all(base: fleet.Fleet, arguments: argparse.Namespace) -> int:
    for way in [arguments.way] if arguments.way else WAYS:
        try:
            rounds = max(1, arguments.pods // 2)
            await play(base, way, arguments.pods, rounds=rounds, seed=arguments.seed, say=_say)
        except Exception as error:  # noqa: BLE001  Whatever went wrong, its seed is wanted.
            _say(f"{way}: FAILED: {error or type(error).__name__}")
            _say(f"Play it again: make e2e-node N={arguments.pods} WAY={way} SEED={arguments.seed}")
            return 1
    return 0


def _say(line: str) -> None:
    print(line, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make e2e-node", description="Pods that come and go on a real node."
    )
    parser.add_argument("--pods", type=int, default=20, metavar="N", help="for each way (default: 20)")
    parser.add_argument("--way", choices=sorted(WAYS), help="only this one")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of what is random")
    return parser


if __name__ == "__main__":
    sys.exit(main())
