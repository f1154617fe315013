"""`make bench-openb`: how much of a real cluster's GPUs each strategy can give out.

The openb trace of a production cluster, 1,213 nodes with 6,212 GPUs, is replayed through
the scheduler's own core: pods arrive in a shuffled order until they ask for 130 % of all
GPUs, never leave, and one that does not fit is skipped. The figure is the part of all
GPU that was given out in the end. What placement learns, it learns from the pods that
arrived so far. Beside ours, Fragmentation Gradient Descent (`fgd`) is replayed by the same rules.
"""

import argparse
import csv
import dataclasses
import gc
import itertools
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from unittest import mock

from bench import fgd, results
from berth_crds.vocabulary import Strategy
from berth_operator.engine import garbage_collection
from berth_operator.scheduling import cycle, decisions, queued_pods, workload
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.devices import device_facts, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from berth_operator.scheduling.strategies import registry as strategies

PLACES: Final = (results.ROOT / "build" / "openb", results.ROOT.parent / "shared" / "data" / "openb")
TRACES: Final = ("default", "cpu100", "gpushare40", "gpuspec20", "multigpu20")
CPU_HEAVY: Final = "cpu250"  # The default trace, with its pods without GPU two and a half times as many.
ABOVE_RIVAL: Final = 0.3  # Points by which the fragmentation strategy is above it there.
OURS: Final = tuple(map(str, Strategy))
RIVALS: Final = ("default", CPU_HEAVY)  # On these the rival is replayed as well, which takes longer.
ARRIVALS: Final = 1.3  # of all GPU
WHOLE: Final = 1000  # thousandths of a GPU
CARD_BYTES: Final = 16 << 30  # The trace does not say.

# Means of ten seeds, in percent: Fragmentation Gradient Descent, and others on `default`.
PUBLISHED: Final = {
    "default": "FGD 95.39, BestFit 93.08, GpuPacking 92.00, GpuClustering 91.88, DotProd 90.85, Random 87.47",
    "cpu100": "FGD 95.35",
    "gpushare40": "FGD 94.15",
    "gpuspec20": "FGD 94.84",
    "multigpu20": "FGD 95.65",
}


class Task(NamedTuple):
    """One pod of the trace as the scheduler sees it, and the thousandths of a GPU for which it asks."""

    pod_info: queued_pods.PodInfo
    asked: int


def find(name: str) -> Path:
    """Find a file of the trace, or say where it comes from."""
    for place in (Path(os.environ.get("OPENB", "")), *PLACES):
        if (place / name).is_file():
            return place / name
    raise SystemExit(
        f"bench-openb: {name} is not there; put the files of alibaba/clusterdata, folder "
        f"cluster-trace-gpu-v2023/csv, into build/openb, or name their folder in OPENB"
    )


def read(path: Path) -> list[Task]:
    """Read a list of pods."""
    with path.open(newline="") as file:
        return [task(row) for row in csv.DictReader(file)]


def task(row: dict[str, str]) -> Task:
    """Read one pod: a share of one GPU, or whole ones, or none."""
    gpus = int(row["num_gpu"])
    share = int(row["gpu_milli"]) if gpus == 1 else WHOLE
    percent = -(-share // 10)
    ask = requests.Gpus(gpus, core=percent, ratio=percent)
    containers = (requests.ContainerRequest("main", (ask,)),) if gpus else ()
    models = frozenset(filter(None, (row.get("gpu_spec") or "").split("|")))
    memory = int(row["memory_mib"]) << 20
    demand = ((facts.CPU, int(row["cpu_milli"])), (facts.MEMORY, memory), (facts.PODS, 1))
    pod_info = queued_pods.PodInfo(
        uid=row["name"],
        namespace="openb",
        name=row["name"],
        request=requests.DeviceRequest(containers, requests.Conditions(models=models)),
        demand=facts.NodeDemand(tuple(pair for pair in demand if pair[1])),
    )
    return Task(pod_info, gpus * share)


def trace_of(name: str) -> list[Task]:
    """Read a trace by its name, or a CSV file by its path."""
    if name != CPU_HEAVY:
        return read(Path(name) if name.endswith(".csv") else find(f"openb_pod_list_{name}.csv"))
    tasks = trace_of("default")
    without = [one for one in tasks if not one.asked]
    return [*tasks, *without, *without[::2]]


def arrivals(tasks: Sequence[Task], seed: int, capacity: int) -> list[Task]:
    """Shuffle the pods; cut them at 130 % of the capacity, or draw more until there."""
    chance, order, total = random.Random(seed), list(tasks), 0
    chance.shuffle(order)
    drawn = (chance.choice(tasks) for _ in itertools.count())
    arrived: list[Task] = []
    for one in itertools.chain(order, drawn):
        if total + one.asked > capacity * ARRIVALS:
            break
        total += one.asked
        arrived.append(one)
    return arrived


def cluster(path: Path) -> tuple[Inventory, int]:
    """Make the inventory of the trace's nodes, and count their GPU in thousandths."""
    inventory, capacity = Inventory(), 0
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            name, gpus = row["sn"], int(row["gpu"])
            memory = int(row["memory_mib"]) << 20
            given = ((facts.CPU, int(row["cpu_milli"])), (facts.MEMORY, memory), (facts.PODS, 1 << 20))
            inventory.put_node(facts.Node(name, allocatable=given))
            cards = tuple(PhysicalDevice(f"{name}-{at}", at, row["model"], CARD_BYTES) for at in range(gpus))
            inventory.put_device(device_facts.Device(name, cards))
            inventory.set_agent_not_ready(name, False)
            capacity += gpus * WHOLE
    return inventory, capacity


def replay(nodes: Path, tasks: Sequence[Task], seed: int, strategy: str) -> tuple[float, float]:
    """Run one workload; return the percentage given out and the seconds it took."""
    if strategy != fgd.NAME:
        return _replay(nodes, tasks, seed, Strategy(strategy))
    rival = fgd.Fgd([one.pod_info for one in tasks], seed)
    with mock.patch.dict(strategies.STRATEGIES, {Strategy.SPREAD: rival}):
        return _replay(nodes, tasks, seed, Strategy.SPREAD)


def _replay(nodes: Path, tasks: Sequence[Task], seed: int, strategy: Strategy) -> tuple[float, float]:
    inventory, capacity = cluster(nodes)
    pods = [
        (dataclasses.replace(one.pod_info, uid=f"{one.pod_info.uid}-{at}"), one.asked)
        for at, one in enumerate(arrivals(tasks, seed, capacity))
    ]
    search, backlog, policy = Search(inventory), Backlog(), Policy(strategy)
    gc.unfreeze()
    garbage_collection.settle()  # As the operator does once it has read everything.
    given, started = 0, time.perf_counter()
    for pod, asked in pods:
        inventory.workload.see(pod.uid, workload.sample(pod.request, pod.demand))
        backlog.push(pod)
        (answer,) = cycle.simulate(search, backlog, 0.0, policy)
        if isinstance(answer, decisions.Bind):
            inventory.charge(cycle.hold_for(pod, answer.placement))
            given += asked
        backlog.remove(pod.uid)
    return 100 * given / capacity, time.perf_counter() - started


def bench(trace: str, seeds: Sequence[int], names: Sequence[str]) -> list[results.Row]:
    """Run one trace with all strategies and seeds, telling as it goes."""
    nodes, tasks = find("openb_node_list_gpu_node.csv"), trace_of(trace)
    print(f"\n{trace}: {len(tasks)} pods; published: {PUBLISHED.get(trace, 'nothing')}", flush=True)
    rows: list[results.Row] = []
    for strategy in names or (OURS if trace not in RIVALS else (*OURS, fgd.NAME)):
        found = [replay(nodes, tasks, seed, strategy) for seed in seeds]
        for seed, (percent, seconds) in zip(seeds, found, strict=True):
            figures = {"allocated_percent": round(percent, 4), "seconds": round(seconds, 3)}
            rows.append({"trace": trace, "strategy": strategy, "seed": seed, **figures})
        print(f"  {strategy:<14} {_summary(found)}", flush=True)
    return rows


def _summary(found: list[tuple[float, float]]) -> str:
    percents = [percent for percent, _ in found]
    seconds = statistics.mean(second for _, second in found)
    spread = f"{min(percents):.2f} to {max(percents):.2f}"
    return f"mean {statistics.mean(percents):.3f} %  ({spread})  {seconds:.2f} s for each run"


def seeds_of(text: str) -> list[int]:
    """Read `0-9` or `0,3,7`."""
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def main() -> int:
    """Run, print and write the results; 1 where a promise was not kept."""
    parser = argparse.ArgumentParser(prog="make bench-openb", description=__doc__)
    parser.add_argument(
        "--trace",
        help=f"one of the five, {CPU_HEAVY} (many pods without GPU), or a CSV file; default: these six",
    )
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("0-9"), help="such as 0-9 or 0,1")
    parser.add_argument(
        "--strategy", choices=(*OURS, fgd.NAME), help=f"default: all, and {fgd.NAME} on {', '.join(RIVALS)}"
    )
    chosen = parser.parse_args()
    rows = [
        row
        for trace in ([chosen.trace] if chosen.trace else (*TRACES, CPU_HEAVY))
        for row in bench(trace, chosen.seeds, [chosen.strategy] if chosen.strategy else [])
    ]
    print("", *promises(rows), sep="\n")
    results.write("openb.json", rows)
    return results.exit_code(promises(rows))


def promises(rows: Sequence[results.Row]) -> Iterator[results.Promise]:
    """Judge what is promised of that strategy, by the means of the seeds that were played."""
    given: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        given.setdefault((row["trace"], row["strategy"]), []).append(row["allocated_percent"])
    ours, rivals = (given.get((CPU_HEAVY, name)) for name in (Strategy.FRAGMENTATION, fgd.NAME))
    if ours and rivals:
        above = statistics.mean(ours) - statistics.mean(rivals)
        sentence = f"{CPU_HEAVY}: at least {ABOVE_RIVAL:g} points above {fgd.NAME} ({above:+.2f})"
        yield results.Promise(sentence, above >= ABOVE_RIVAL)


if __name__ == "__main__":
    sys.exit(main())
