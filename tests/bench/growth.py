"""`make bench SCENARIO=growth`: what objects and binds cost the operator, by part, as a cluster grows.

No server takes part (`grown_cluster`). For each size the operator reads nodes, Devices and running
pods; half of the pods, but of no more than nine tenths of the cards, have a card of their own and a
GpuPod. Then five hundred pods of one card each come and are bound, recorded and run, and a few come
that fit nowhere. What is measured is processor time of one thread, so that what else runs on the
machine counts for little; each size has a process of its own, whose memory is what is left when all
was read.
"""

import argparse
import concurrent.futures
import contextlib
import gc
import itertools
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

import uvloop

from bench import bench_cluster, grown_cluster, process_costs, results, scenario
from berth_operator.engine import garbage_collection

RESULT: Final = "growth.json"
NODES: Final = (100, 1_000, 5_000, 15_000)
PODS: Final = (0, 40_000, 100_000)
PODS_PER_NODE: Final = 100  # A kubelet takes 110, and some more come.
MOST_CARDS: Final = 0.9
BOUND: Final = 500  # Pods that are bound, and measured; so many cards are free in any case.
WARM: Final = 100  # Pods that are bound before.
ASKED: Final = 20  # How often reasons and metrics are asked for.
MICROSECONDS: Final = 1e6
READ: Final = ("decode", "translate", "ledger")
# A bind at 5,000 nodes with 40,000 pods, compared with one at 1,000 empty nodes.
LARGE: Final = (5_000, 40_000)
SMALL: Final = (1_000, 0)
BOUND_RATIO: Final = 1.2
LEGEND: Final = """
Microseconds of one core for each object that is read, and for each pod from its first event to
its summary; for one sentence about a pod that fits nowhere; milliseconds for a full collection of
garbage, before the objects of the start are left out of it, and to count what the metrics show.
"""
PARTS: Final = ("decode", "translate", "ledger", "decide", "round", "encode", "follow", "events", "summaries")
TABLE: Final = results.Table(
    24,
    ("Node", "node_us", "{:6.0f}"),
    ("Device", "device_us", "{:6.0f}"),
    ("pod", "pod_us", "{:5.0f}"),
    ("with card", "pod_with_card_us", "{:9.0f}"),
    ("GpuPod", "gpupod_us", "{:6.0f}"),
    ("bind", "bind_us", "{:6.0f}"),
    *((part, f"{part}_us", "{:" + f"{max(6, len(part))}" + ".0f}") for part in PARTS),
    ("explain", "explain_us", "{:7.0f}"),
    ("collect ms", "collect_ms", "{:10.0f}"),
    ("metrics ms", "metrics_ms", "{:10.1f}"),
    ("MiB", "rss_mib", "{:5.0f}"),
)

Size = tuple[int, int]


class Growth:
    """One size of a cluster, from its first node on."""

    def __init__(self, nodes: int, pods: int) -> None:
        self._names = [f"node-{at:05}" for at in range(nodes)]
        cards = nodes * bench_cluster.CARDS
        self._with_card = max(0, min(pods // 2, round(cards * MOST_CARDS), cards - BOUND - WARM))
        self._pods = pods
        self._cluster = grown_cluster.GrownCluster()
        self._seconds = self._cluster.stopwatch.seconds
        self._row: dict[str, float] = {"nodes": nodes, "pods": pods}

    async def measure(self) -> results.Row:
        """Read everything, bind, and ask; return the figures."""
        before = process_costs.resident_mib(os.getpid())
        with self._cluster.measured():
            self._read()
            self._cluster.ledger.all_devices_read()
            self._collect()
            self._row["rss_mib"] = process_costs.resident_mib(os.getpid()) - before
            await self._bind()
            self._ask()
        return self._row

    def _read(self) -> None:
        cluster, names = self._cluster, self._names
        with self._per_object("node_us", READ, len(names)):
            for name in names:
                cluster.put_node(name)
        with self._per_object("device_us", READ, len(names)):
            for name in names:
                cluster.put_device(name)
        with self._per_object("pod_with_card_us", READ, self._with_card):
            for number, (minor, name) in self._held():
                cluster.put_bound_pod(number, name, minor)
        with self._per_object("gpupod_us", READ, self._with_card):
            for number, (minor, name) in self._held():
                cluster.put_gpupod(cluster.bound_pod(number, name, minor))
        with self._per_object("pod_us", READ, self._pods - self._with_card):
            for number in range(self._with_card, self._pods):
                cluster.put_bound_pod(number, names[number % len(names)], None)

    def _held(self) -> Iterator[tuple[int, tuple[int, str]]]:
        """Yield the pods with cards by number, each with minor and node: first all cards 0, then all 1."""
        cards = itertools.product(range(bench_cluster.CARDS), self._names)
        return enumerate(itertools.islice(cards, self._with_card))

    def _collect(self) -> None:
        """Collect garbage as the operator does once it leads."""
        started = time.thread_time()
        gc.collect()
        self._row["collect_ms"] = (time.thread_time() - started) * 1e3
        garbage_collection.settle()

    async def _bind(self) -> None:
        """Bind some pods, and then those that are measured."""
        await self._cluster.bind(self._pods, WARM)
        before = dict(self._seconds)
        await self._cluster.bind(self._pods + WARM, BOUND)
        for part in PARTS:
            self._row[f"{part}_us"] = (self._seconds[part] - before.get(part, 0.0)) / BOUND * MICROSECONDS
        self._row["bind_us"] = sum(self._row[f"{part}_us"] for part in PARTS)

    def _ask(self) -> None:
        """Ask why pods wait, and for the metrics."""
        with self._per_object("explain_us", ("explain",), ASKED):
            for number in range(ASKED):
                self._cluster.explain(self._pods + WARM + BOUND + number)
        with self._per_object("metrics_ms", ("metrics",), ASKED, unit=1e3):
            for _ in range(ASKED):
                self._cluster.collect_metrics()

    @contextlib.contextmanager
    def _per_object(
        self, figure: str, parts: Sequence[str], count: int, *, unit: float = MICROSECONDS
    ) -> Iterator[None]:
        """Write down what these parts take for each of so many objects, which the block handles."""
        before = sum(self._seconds[part] for part in parts)
        yield
        took = sum(self._seconds[part] for part in parts) - before
        self._row[figure] = took / count * unit if count else 0.0


def grow(size: Size) -> results.Row:
    """Measure one size, in a process of its own."""
    return uvloop.run(Growth(*size).measure())


def measure(sizes: Sequence[Size]) -> list[results.Row]:
    """Measure each size, in a process of its own."""
    rows = []
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        1, mp_context=spawn, initializer=logging.disable, initargs=(logging.WARNING,), max_tasks_per_child=1
    ) as pool:
        for nodes, pods in sizes:
            scenario.tell(f"{nodes} nodes, {pods} pods")
            rows.append(pool.submit(grow, (nodes, pods)).result())
    return rows


# ---------------------------------------------------------------- what is printed


def sizes(nodes: Sequence[int], pods: Sequence[int]) -> list[Size]:
    """Return the sizes; a small cluster has fewer pods, for a kubelet takes only so many."""
    return sorted({(many, min(count, many * PODS_PER_NODE)) for many in nodes for count in pods})


def report(rows: Sequence[results.Row]) -> str:
    """Write the figures of each size."""
    lines = (TABLE.line(f"{row['nodes']:,} nodes, {row['pods']:,} pods", row) for row in rows)
    return "\n".join([LEGEND, TABLE.heads("size"), *lines, ""])


def promises(rows: Sequence[results.Row]) -> Iterator[results.Promise]:
    """Judge how much more a bind costs in a large cluster than in a small one, where both were measured."""
    costs = {(row["nodes"], row["pods"]): row["bind_us"] for row in rows}
    if {LARGE, SMALL} <= costs.keys():
        ratio = costs[LARGE] / costs[SMALL]
        (many, running), (few, _) = LARGE, SMALL
        text = (
            f"a bind at {many:,} nodes with {running:,} pods costs at most {BOUND_RATIO:g} times as much as"
        )
        yield results.Promise(f"{text} at {few:,} without pods ({ratio:.2f})", ratio <= BOUND_RATIO)


def main() -> int:
    """Run, print and write the results; 1 where the bound was not kept."""
    parser = argparse.ArgumentParser(prog="make bench SCENARIO=growth", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES, help="sizes of cluster")
    parser.add_argument("--pods", type=int, nargs="+", default=PODS, help="how many pods run there")
    chosen = parser.parse_args()
    if min(chosen.nodes) * bench_cluster.CARDS < BOUND + WARM:
        parser.error(
            f"a cluster must have {BOUND + WARM} cards at least, {bench_cluster.CARDS} for each node"
        )
    rows = measure(sizes(chosen.nodes, chosen.pods))
    print(report(rows))
    results.write(RESULT, rows)
    print(*promises(rows), sep="\n")
    return results.exit_code(promises(rows))


if __name__ == "__main__":
    sys.exit(main())
