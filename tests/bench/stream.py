"""`make bench SCENARIO=stream`: pods that come one after the other, Berth against the stock scheduler.

A scheduler runs and has nothing to do; then so many pods a second are made for a minute, of
one card each, and there is a card for every one. Of each is timed how long from the server's
answer to its creation until a watcher sees that it has a node. The systems take turns on one
cluster, and each has bound some pods before, which are not counted. What the machine could
not make in time is told, for then all were slower than the rate says. With `--impossible` so many pods
wait meanwhile that fit nowhere, and have been told so: what they cost the others is seen. As shipped, the
server writes the environment of our pods when they are made; `--no-env-delivery` leaves out that policy, as
the stock scheduler's pods do without.
"""

import argparse
import asyncio
import itertools
import math
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from bench import bench_cluster, given_twice, plots, process_costs, results, scenario, systems
from testbed import processes

RESULT: Final = "stream.json"
BOUND_SECONDS: Final = 0.1  # At the 99th percentile, or half of the stock scheduler's where that is more.
BOUND_RATE: Final = 200.0  # For which that is promised.
BOUND_MADE: Final = (
    0.97  # Of that rate: where the server made fewer, they came more slowly than was promised.
)
OF_THE_RIVAL: Final = 0.5
PATIENCE: Final = 120.0  # After the last pod was made.
WARM: Final = 50
TOO_MANY: Final = bench_cluster.CARDS + 1
CONTESTANTS: Final = ("kube-scheduler", "berth")
TABLE: Final = results.Table(
    54,
    ("made/s", "made_per_s", "{:8.0f}"),
    ("p50 ms", "p50_ms", "{:8.1f}"),
    ("p99 ms", "p99_ms", "{:8.1f}"),
    ("max ms", "max_ms", "{:8.0f}"),
    ("CPU ms/pod", "cpu_ms_per_pod", "{:10.2f}"),
    ("server ms/pod", "server_cpu_ms_per_pod", "{:13.2f}"),
    ("RSS MiB", "rss_mib", "{:8.0f}"),
)

Thing = dict[str, Any]


class Pods:
    """The pods of one run: when each was made, and when it was seen to have a node."""

    def __init__(self, place: bench_cluster.BenchCluster, namespace: str, scheduler: str) -> None:
        self._place = place
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._scheduler = scheduler
        self._numbers = itertools.count()
        self.made: dict[str, float] = {}
        self.bound: dict[str, float] = {}

    async def make(self, count: int, *, a_second: float) -> list[str]:
        """Make so many pods, each when its moment has come; return their names."""
        start = time.monotonic()
        due = [start + at / a_second for at in range(count)]
        return list(await asyncio.gather(*map(self._make, due)))

    async def _make(self, moment: float) -> str:
        await asyncio.sleep(moment - time.monotonic())
        pod = bench_cluster.pod(next(self._numbers), self._scheduler)
        name: str = pod["metadata"]["name"]
        await self._place.send("POST", self._path, pod)
        self.made[name] = time.monotonic()
        return name

    async def watch(self) -> None:
        """Note when pods get a node, for as long as it is let."""
        version = ""
        while True:
            listed = await self._place.read(self._path, **bench_cluster.HAS_NODE)
            for pod in listed["items"]:
                self.bound.setdefault(pod["metadata"]["name"], time.monotonic())
            version = listed["metadata"]["resourceVersion"]
            async for moment, change in self._place.news(self._path, version, **bench_cluster.HAS_NODE):
                self.bound.setdefault(change["object"]["metadata"]["name"], moment)

    async def until_bound(self, program: processes.Program) -> None:
        """Wait until all have a node, but not after the program's end."""
        deadline = time.monotonic() + PATIENCE
        while len(self.bound) < len(self.made):
            if not program.alive() or time.monotonic() > deadline:
                said = processes.tail(program.log, lines=40)
                raise SystemExit(f"{len(self.bound)} of {len(self.made)} pods were bound:\n{said}")
            await asyncio.sleep(0.05)

    def seconds(self, names: Sequence[str]) -> list[float]:
        """Return how long each of these waited; one that was seen bound before the answer came did not."""
        return [max(0.0, self.bound[name] - self.made[name]) for name in names]


class Bench:
    """Runs systems on one cluster."""

    def __init__(self, place: bench_cluster.BenchCluster, seconds: float) -> None:
        self._place = place
        self._seconds = seconds
        self._server = place.cluster.pid("kube-apiserver")

    async def run(self, system: systems.System, kind: "Kind", number: int) -> results.Row:
        """Let pods come at a rate, and one system bind them."""
        await self._place.police(wanted=system.policed)
        namespace = self._place.cluster.namespace("stream")
        pods = Pods(self._place, namespace, system.scheduler)
        watching = asyncio.create_task(pods.watch())
        program = await system.start(self._place, namespace, None)
        try:
            await pods.make(WARM, a_second=kind.rate)
            await pods.until_bound(program)
            crowd = await self._place.fill(kind.impossible, scheduler=system.scheduler, cards=TOO_MANY)
            row = await self._measured(program, pods, kind.rate)
            await given_twice.require_none(self._place)
            await self._place.clear(crowd)
            await self._place.clear(namespace)
            # Berth takes note in its Devices; the next run shall not have to.
            await process_costs.quiet(program.process.pid, self._place.log)
        finally:
            watching.cancel()
            program.stop(grace=10.0)
        return {"scenario": "stream", **kind._asdict(), "run": number, **row}

    async def _measured(self, program: processes.Program, pods: Pods, rate: float) -> results.Row:
        pid, count = program.process.pid, round(rate * self._seconds)
        before = await process_costs.quiet(pid, self._place.log)
        server_before = process_costs.processor_seconds(self._server)
        start = time.monotonic()
        names = await pods.make(count, a_second=rate)
        took = time.monotonic() - start
        await pods.until_bound(program)
        cost = await process_costs.quiet(pid, self._place.log) - before
        server = process_costs.processor_seconds(self._server) - server_before
        waited = [1000 * one for one in pods.seconds(names)]
        p50, p99 = (float(np.percentile(waited, at, method="inverted_cdf")) for at in (50, 99))
        return {
            "pods": count,
            "made_per_s": count / took,
            "p50_ms": p50,
            "p99_ms": p99,
            "max_ms": max(waited),
            "cpu_ms_per_pod": cost / count * 1000,
            "server_cpu_ms_per_pod": server / count * 1000,
            "rss_mib": process_costs.peak_mib(pid),
        }


async def compare(chosen: argparse.Namespace) -> list[results.Row]:
    """Run everything, the order of the systems reversed from run to run."""
    contestants = [systems.ALL[name] for name in chosen.systems]
    rows: list[results.Row] = []
    nodes = nodes_for(max(chosen.rates), chosen.seconds)
    async with scenario.furnished(nodes, env_delivered=chosen.env_delivery) as place:
        bench = Bench(place, chosen.seconds)
        cases = itertools.product(range(1, chosen.runs + 1), chosen.rates, chosen.impossible)
        for number, rate, impossible in cases:
            for system in systems.in_turns(contestants, number):
                rows.append(await bench.run(system, Kind(rate, system.name, impossible), number))
                scenario.tell(f"run {number}: {TABLE.line(title(kind_of(rows[-1])), rows[-1])}")
    return rows


def nodes_for(rate: float, seconds: float) -> int:
    """Return how many nodes have a card for each pod."""
    return math.ceil((rate * seconds + WARM) / bench_cluster.CARDS)


# ---------------------------------------------------------------- what is printed


class Kind(NamedTuple):
    """A rate, the system that met it, and how many pods waited in vain meanwhile."""

    rate: float
    system: str
    impossible: int = 0


def kind_of(row: results.Row) -> Kind:
    """Return of which kind a row is."""
    return Kind(row["rate"], row["system"], row["impossible"])


def title(kind: Kind) -> str:
    """Name the rows of one kind."""
    crowd = f", {kind.impossible} in vain" if kind.impossible else ""
    return f"{kind.rate:g} a second{crowd}: {systems.ALL[kind.system].title}"


def medians(rows: Sequence[results.Row]) -> dict[Kind, results.Row]:
    """Take the medians of each kind, the lower rates first."""
    return TABLE.medians_by(kind_of, sorted(rows, key=lambda row: float(row["rate"])))


def promises(found: dict[Kind, results.Row]) -> Iterator[results.Promise]:
    """Judge what is promised, where it was measured."""
    ours = found.get(Kind(BOUND_RATE, "berth"))
    if ours is None:
        return
    rival = found.get(Kind(BOUND_RATE, "kube-scheduler"))
    most = max(1000 * BOUND_SECONDS, OF_THE_RIVAL * rival["p99_ms"] if rival else 0.0)
    sentence = f"{BOUND_RATE:g} a second: p99 at most {most:.0f} ms ({ours['p99_ms']:.1f})"
    yield results.Promise(sentence, ours["p99_ms"] <= most)
    least = BOUND_MADE * BOUND_RATE
    came = f"{BOUND_RATE:g} a second: at least {least:g} pods a second came ({ours['made_per_s']:.1f})"
    yield results.Promise(came, ours["made_per_s"] >= least)


def report(rows: Sequence[results.Row]) -> str:
    """Write the table of medians, and which promises were kept."""
    found = medians(rows)
    lines = ["", TABLE.heads("median of the runs")]
    lines += [TABLE.line(title(kind), figures) for kind, figures in found.items()]
    lines += ["", *map(str, promises(found))]
    return "\n".join(lines)


def main() -> int:
    """Run, print and write the results; 1 where a promise was not kept."""
    parser = argparse.ArgumentParser(prog="make bench SCENARIO=stream", description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="runs of each system at each rate")
    parser.add_argument("--rates", type=float, nargs="+", default=[200.0, 500.0], help="pods a second")
    parser.add_argument(
        "--impossible",
        type=int,
        nargs="+",
        default=[0],
        help="pods that wait meanwhile for more cards than any node has",
    )
    scenario.add_env_delivery(parser)
    parser.add_argument("--seconds", type=float, default=60.0, help="for which pods come")
    parser.add_argument("--systems", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    chosen = parser.parse_args()
    if min(chosen.rates) <= 0 or chosen.seconds <= 0 or min(chosen.impossible) < 0:
        parser.error("a rate and the seconds must be more than 0, and pods cannot be less than none")
    rows = scenario.finish(compare(chosen))
    print(report(rows))
    results.write(RESULT, rows)
    slowest = {title(kind): figures["p99_ms"] for kind, figures in medians(rows).items()}
    plots.write("stream-p99.svg", "From creation to bind, the slowest of a hundred", "ms", slowest)
    return results.exit_code(promises(medians(rows)))


if __name__ == "__main__":
    sys.exit(main())
