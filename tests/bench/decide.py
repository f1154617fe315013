"""`make bench-decide`: how long one decision takes, from the question to the folded result.

For clusters of several sizes and fills, and three kinds of request, one decision at a
time is made and its placement charged to the inventory; then a pod of the same kind is
released, so that the fill stays as it is. The decision and the charge belong to the time that
is measured. At last pods of one application come to an empty cluster,
which are to be spread over zones and to be apart by host, until each node has one.
"""

import argparse
import dataclasses
import itertools
import random
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from bench import results
from berth_operator.scheduling import cycle, decisions, holds, queued_pods
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from support import topologies as layouts

SIZES: Final = (100, 1000, 5000, 15000)
LARGE, LARGEST = SIZES[-2:]
PROMISED: Final = ("whole", "fraction")
BOUND_MICROSECONDS: Final = 100.0  # Of half the decisions at the large size, at each fill.
BOUND_RATIO: Final = 2.0  # How many times as long they take at the largest size.
FILLS: Final = {"empty": 0.0, "half": 0.5, "nearly full": 0.95}
MODEL: Final = "NVIDIA H100 80GB HBM3"
DECISIONS: Final = 1000
WARM: Final = 20
REQUESTS: Final = {
    "whole": requests.Gpus(1, core=100, ratio=100),
    "fraction": requests.Gpus(1, core=25, ratio=25),
    "nvlink 8": requests.Gpus(8, core=100, ratio=100),
}


APART: Final = "spread apart"
ZONES: Final = 10
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
LABELS: Final = (("app", "web"),)
WEB: Final = facts.PodSelector(("bench",), (facts.LabelExpression("app", "In", ("web",)),))
SPREAD_APART: Final = facts.InterPodRules(
    spread=(facts.SpreadConstraint(ZONE, 1, WEB),), anti_affinity=(facts.PodTerm(WEB, HOST),)
)


def cluster(count: int) -> Inventory:
    """Make a cluster of equal nodes with eight cards each, from the catalog's own topology."""
    inventory = Inventory()
    for at in range(count):
        name = f"node-{at:05}"
        given = ((facts.CPU, 192_000), (facts.MEMORY, 2 << 40), (facts.PODS, 256))
        labels = {HOST: name, ZONE: f"zone-{at % ZONES}"}
        inventory.put_node(facts.Node(name, labels, allocatable=given))
        inventory.put_device(layouts.device(name, f"8x{MODEL}"))
        inventory.set_agent_not_ready(name, False)
    return inventory


def pods(kind: str) -> Iterator[queued_pods.PodInfo]:
    """Return pods of one kind of request, without end."""
    request = requests.DeviceRequest((requests.ContainerRequest("main", (REQUESTS[kind],)),))
    demand = facts.NodeDemand(((facts.CPU, 4_000), (facts.MEMORY, 16 << 30), (facts.PODS, 1)))
    for at in itertools.count(1):
        yield queued_pods.PodInfo(f"{kind}-{at}", "bench", f"{kind}-{at}", request, demand)


def fill(inventory: Inventory, part: float) -> None:
    """Hold a part of all cards: whole nodes first, then shares scattered over the rest, as clusters are."""
    chance = random.Random(1)
    names = sorted(inventory.index)
    chance.shuffle(names)
    for at, name in enumerate(names[: int(len(names) * part)]):
        info = inventory.node(name)
        assert info and info.device
        spare = chance.choice((0, 0, 0, 1, 2))
        for card in info.device.cards[: len(info.device.cards) - spare]:
            core = chance.choice((100, 100, 50, 75))
            share = decisions.Share(card.uuid, card.minor, core, card.memory * core // 100)
            inventory.charge(
                holds.Hold(f"old-{at}-{card.minor}", "bench/old", name, ((facts.PODS, 1),), (share,))
            )


def measure(inventory: Inventory, kind: str) -> list[float]:
    """Time single decisions, each folded into the picture; every other pod leaves again, unmeasured."""
    search, policy = Search(inventory), Policy()
    backlog, seconds = Backlog(), []
    supply = pods(kind)
    for at in range(DECISIONS + WARM):
        pod = next(supply)
        backlog.push(pod)
        started = time.perf_counter()
        (answer,) = cycle.simulate(search, backlog, 0.0, policy)
        if isinstance(answer, decisions.Bind):
            inventory.charge(cycle.hold_for(pod, answer.placement))
        if at >= WARM:
            seconds.append(time.perf_counter() - started)
        backlog.remove(pod.uid)
        if inventory.hold(pod.uid) and at % 2:
            inventory.release(pod.uid)
    return seconds


def measure_apart(inventory: Inventory) -> list[float]:
    """Time single decisions for pods that are spread over zones and apart by host; all of them stay."""
    search, policy, backlog, seconds = Search(inventory), Policy(), Backlog(), []
    for pod in itertools.islice(pods("whole"), min(DECISIONS, len(inventory.index))):
        demand = dataclasses.replace(pod.demand, inter_pod_rules=SPREAD_APART)
        asking = dataclasses.replace(pod, demand=demand, labels=LABELS)
        backlog.push(asking)
        started = time.perf_counter()
        (answer,) = cycle.simulate(search, backlog, 0.0, policy)
        assert isinstance(answer, decisions.Bind)
        inventory.charge(cycle.hold_for(asking, answer.placement))
        seconds.append(time.perf_counter() - started)
        backlog.remove(asking.uid)
    return seconds


def promises(rows: Sequence[results.Row]) -> Iterator[results.Promise]:
    """Judge what is promised of large clusters, as far as they were measured."""
    medians = {(row["nodes"], row["fill"], row["request"]): row["p50_us"] for row in rows}
    for fill, kind in itertools.product(FILLS, PROMISED):
        large, largest = (medians.get((count, fill, kind)) for count in (LARGE, LARGEST))
        if large:
            sentence = f"{kind}, {fill}, {LARGE:,} nodes: p50 at most {BOUND_MICROSECONDS:g} us ({large:.1f})"
            yield results.Promise(sentence, large <= BOUND_MICROSECONDS)
        if large and largest:
            ratio = largest / large
            sentence = f"{kind}, {fill}: at most {BOUND_RATIO:g} times as long at {LARGEST:,} ({ratio:.2f})"
            yield results.Promise(sentence, ratio <= BOUND_RATIO)


def main() -> int:
    """Run, print and write the results; 1 where a promise was not kept."""
    parser = argparse.ArgumentParser(prog="make bench-decide", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=SIZES, help="sizes of cluster")
    chosen = parser.parse_args()
    rows = [row for count in chosen.nodes for row in bench(count)]
    print("", *promises(rows), sep="\n")
    results.write("decide.json", rows)
    return results.exit_code(promises(rows))


def bench(count: int) -> list[results.Row]:
    """Measure one size of cluster at each fill with each request."""
    rows: list[results.Row] = []
    for name, part in FILLS.items():
        inventory = cluster(count)
        fill(inventory, part)
        rows += [row(count, name, kind, measure(inventory, kind)) for kind in REQUESTS]
    return [*rows, row(count, "empty", APART, measure_apart(cluster(count)))]


def row(count: int, fill: str, kind: str, seconds: list[float]) -> results.Row:
    """Print and return what was measured."""
    p50, p99 = (round(float(np.percentile(seconds, at)) * 1e6, 1) for at in (50, 99))
    print(f"{count:>6} nodes, {fill:<12} {kind:<12} p50 {p50:7.1f} us   p99 {p99:8.1f} us", flush=True)
    return {"nodes": count, "fill": fill, "request": kind, "p50_us": p50, "p99_us": p99}


if __name__ == "__main__":
    sys.exit(main())
