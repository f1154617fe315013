"""`make bench SCENARIO=fill`: filling a cluster, Berth against the stock scheduler.

All pods wait before a scheduler is started; an independent watcher times from the first
to the last bind. The systems take turns on one cluster of each size, run after run, with the pods
deleted in between and a short warm-up before. Processor time, the server's too, counts from the first bind
until the program is quiet again, so that events posted behind the binds are included.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench import (
    bench_cluster,
    claimed_cards,
    given_twice,
    operator_runs,
    plots,
    process_costs,
    results,
    scenario,
    systems,
)
from testbed import audit, processes

RESULT: Final = "fill.json"
LOG_SECONDS: Final = 1.0  # The server writes a line of the audit log just after its answer.
BERTH, STOCK, FENCED = "berth", "kube-scheduler", "bare-fenced"
CONTESTANTS: Final = (STOCK, FENCED, BERTH)  # The others are slow, or say little; `--systems` names them.
TABLE: Final = results.Table(
    44,
    ("pods/s", "pods_per_s", "{:8.0f}"),
    ("CPU ms/pod", "cpu_ms_per_pod", "{:10.2f}"),
    ("server ms/pod", "server_cpu_ms_per_pod", "{:13.2f}"),
    ("RSS MiB", "rss_mib", "{:8.0f}"),
    ("writes/pod", "api_writes_per_pod", "{:10.2f}"),
    ("events/pod", "events_per_pod", "{:10.2f}"),
    ("others/pod", "other_writes_per_pod", "{:10.2f}"),
)


class Bounds(NamedTuple):
    """What is promised of a cluster of one size, and how many pods fill it."""

    pods: int
    of_stock: float  # How many times its pods a second.
    of_fenced: float


SIZES: Final = {1_000: Bounds(4_000, 3.0, 0.85), 5_000: Bounds(10_000, 2.5, 0.8)}
PODS_PER_NODE: Final = 4  # Of any other size.
SMALL, LARGE = SIZES
COST_RATIO: Final = 1.2  # How many times the processor time of a pod in the small one it takes in the large.
PLOTS: Final = (
    ("pods_per_s", "Pods bound", "a second"),
    ("cpu_ms_per_pod", "Processor time for each pod", "ms"),
    ("rss_mib", "Most memory", "MiB"),
)


class Bench:
    """Runs systems on one bench_cluster."""

    def __init__(self, place: bench_cluster.BenchCluster, pods: int, profile: Path | None) -> None:
        self._place = place
        self._pods = pods
        self._profile = profile
        self._server = place.cluster.pid("kube-apiserver")

    async def run(
        self, system: systems.System, number: int, *, pods: int = 0, percent: int = bench_cluster.WHOLE
    ) -> results.Row:
        """Let one system fill the cluster once, with pods of one card each or of a part of one."""
        count = pods or self._pods
        await self._place.police(wanted=system.policed)
        namespace = await self._waiting(system, count, percent)
        sighting, log = bench_cluster.Sighting(), self._place.log.stat().st_size
        watching = asyncio.create_task(self._place.watch(namespace, count, sighting))
        await asyncio.sleep(1)  # The server is done with what making the pods left behind.
        program = await system.start(self._place, namespace, self._profile if number else None)
        try:
            row = await self._measure(program, watching, sighting, count)
            await asyncio.sleep(LOG_SECONDS)
            written = audit.read(self._place.log, start=log)
            writes, events, others = process_costs.writes(written, user=system.user, namespace=namespace)
            await given_twice.require_none(self._place)
            await self._clear(system, namespace)
            # Berth takes note in its Devices; the next run shall not have to.
            await process_costs.quiet(program.process.pid, self._place.log)
        finally:
            watching.cancel()
            program.stop(grace=10.0)
        assert sighting.count == count, f"{sighting.count} of {count} pods were bound"
        return {
            "scenario": "fill",
            "nodes": len(self._place.nodes),
            "pods": count,
            "system": system.name,
            "run": number,
            **row,
            "api_writes_per_pod": writes / count,
            "events_per_pod": events / count,
            "other_writes_per_pod": others / count,
        }

    async def _waiting(self, system: systems.System, count: int, percent: int) -> str:
        """Make the pods, and what they claim; return their namespace."""
        place = self._place
        if not system.by_claims:
            return await place.fill(count, scheduler=system.scheduler, percent=percent)
        namespace = place.cluster.namespace("fill")
        await claimed_cards.publish(place)
        await claimed_cards.claim(place, namespace, count)
        await place.make(namespace, (claimed_cards.pod(at, system.scheduler) for at in range(count)))
        return namespace

    async def _clear(self, system: systems.System, namespace: str) -> None:
        """Remove what `_waiting` has made."""
        await self._place.clear(namespace)
        if system.by_claims:
            await claimed_cards.release(self._place, namespace)
            await claimed_cards.withdraw(self._place)

    async def _measure(
        self,
        program: processes.Program,
        watching: asyncio.Task[None],
        sighting: bench_cluster.Sighting,
        count: int,
    ) -> results.Row:
        pid = program.process.pid
        before, server_before = await operator_runs.until_first(
            program, watching, sighting, server=self._server
        )
        await operator_runs.until_last(program, watching, sighting, count=count)
        cost = await process_costs.quiet(pid, self._place.log) - before
        server = process_costs.processor_seconds(self._server) - server_before
        return {
            "pods_per_s": count / sighting.seconds,
            "cpu_ms_per_pod": cost / count * 1000,
            "rss_mib": process_costs.peak_mib(pid),
            "server_cpu_ms_per_pod": server / count * 1000,
            "start_cpu_s": before,
        }


async def compare(chosen: argparse.Namespace) -> list[results.Row]:
    """Run everything, on a cluster of each size, the order of the systems reversed from run to run."""
    contestants = [systems.ALL[name] for name in chosen.systems]
    rows: list[results.Row] = []
    for nodes in chosen.nodes:
        pods = chosen.pods or pods_for(nodes)
        async with scenario.furnished(nodes, env_delivered=chosen.env_delivery) as place:
            bench = Bench(place, pods, chosen.profile)
            for system in contestants:
                scenario.tell(f"warming up: {system.title}")
                await bench.run(system, 0, pods=min(pods, chosen.warm_up))
            for number in range(1, chosen.runs + 1):
                for system in systems.in_turns(contestants, number):
                    rows.append(await bench.run(system, number))
                    scenario.tell(f"run {number}: {TABLE.line(system.title, rows[-1])}")
    return rows


def pods_for(nodes: int) -> int:
    """Return how many pods fill a cluster of this size, where nobody says so."""
    return SIZES[nodes].pods if nodes in SIZES else nodes * PODS_PER_NODE


# ---------------------------------------------------------------- what is printed


class Kind(NamedTuple):
    """A size of cluster, with how many pods it was filled, and the system that did so."""

    nodes: int
    pods: int
    system: str


Medians = Mapping[Kind, results.Row]


def medians(rows: Sequence[results.Row]) -> Medians:
    """Return the medians of each system at each size."""
    return TABLE.medians_by(lambda row: Kind(row["nodes"], row["pods"], row["system"]), rows)


def title(kind: Kind) -> str:
    """Name the rows of one kind."""
    return f"{kind.nodes:,} nodes: {systems.ALL[kind.system].title}"


def promises(found: Medians) -> Iterator[results.Promise]:
    """Judge what is promised, as far as it was measured."""
    for nodes, bounds in SIZES.items():
        for rival, least in ((STOCK, bounds.of_stock), (FENCED, bounds.of_fenced)):
            if ratio := beside(found, Kind(nodes, bounds.pods, rival), "pods_per_s"):
                sentence = f"{nodes:,} nodes: at least {least:g} times the pods/s of {rival} ({ratio:.3f})"
                yield results.Promise(sentence, ratio >= least)
        if ratio := beside(found, Kind(nodes, bounds.pods, STOCK), "rss_mib"):
            sentence = f"{nodes:,} nodes: at most the memory of {STOCK} ({ratio:.3f} of it)"
            yield results.Promise(sentence, ratio <= 1)
    few, many = (found.get(Kind(nodes, SIZES[nodes].pods, BERTH)) for nodes in (SMALL, LARGE))
    if few and many:
        ratio = many["cpu_ms_per_pod"] / few["cpu_ms_per_pod"]
        sentence = f"a pod takes at most {COST_RATIO:g} times as much CPU at {LARGE:,} nodes as at {SMALL:,}"
        yield results.Promise(f"{sentence} ({ratio:.3f})", ratio <= COST_RATIO)


def beside(found: Medians, rival: Kind, figure: str) -> float | None:
    """Return one figure of Berth as a part of a rival's; None if one of them took no part."""
    ours, theirs = found.get(rival._replace(system=BERTH)), found.get(rival)
    return ours[figure] / theirs[figure] if ours and theirs else None


def report(rows: Sequence[results.Row]) -> str:
    """Write the table of medians, how Berth compares, and which promises were kept."""
    found = medians(rows)
    lines = ["", TABLE.heads("median of the runs")]
    lines += [TABLE.line(title(kind), figures) for kind, figures in found.items()]
    return "\n".join([*lines, "", *comparisons(found), "", *map(str, promises(found))])


def comparisons(found: Medians) -> Iterator[str]:
    """Yield a sentence for each rival at each size."""
    for kind in found:
        speed, cost = (beside(found, kind, figure) for figure in ("pods_per_s", "cpu_ms_per_pod"))
        if speed and cost and kind.system != BERTH:
            text = f"{speed:.2f} of its pods/s, {cost:.2f} of its CPU for each pod"
            yield f"{kind.nodes:,} nodes, Berth beside {kind.system}: {text}"


def draw(found: Medians) -> None:
    """Draw a chart of each figure at each size."""
    for nodes in dict.fromkeys(kind.nodes for kind in found):
        rows = {systems.ALL[kind.system].title: row for kind, row in found.items() if kind.nodes == nodes}
        for key, name, unit in PLOTS:
            figures = {system: row[key] for system, row in rows.items()}
            plots.write(
                f"fill-{nodes}-{key.replace('_', '-')}.svg", f"{name}, {nodes:,} nodes", unit, figures
            )


def main() -> int:
    """Run, print and write the results; 1 where a promise was not kept."""
    parser = argparse.ArgumentParser(prog="make bench SCENARIO=fill", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs of each system at each size")
    parser.add_argument(
        "--nodes", type=int, nargs="+", default=[SMALL], help="sizes of cluster, of eight cards each node"
    )
    default = ", ".join(f"{bounds.pods:,} for {nodes:,} nodes" for nodes, bounds in SIZES.items())
    parser.add_argument(
        "--pods", type=int, help=f"waiting pods; by default {default}, {PODS_PER_NODE} a node for others"
    )
    add_warm_up(parser)
    parser.add_argument("--systems", nargs="+", choices=systems.ALL, default=CONTESTANTS)
    scenario.add_env_delivery(parser)
    parser.add_argument("--profile", type=Path, help="write a cProfile of our operator's last run there")
    chosen = parser.parse_args()
    rows = scenario.finish(compare(chosen))
    print(report(rows))
    results.write(RESULT, rows)
    draw(medians(rows))
    return results.exit_code(promises(medians(rows)))


def add_warm_up(parser: argparse.ArgumentParser) -> None:
    """Let a command line say how large the run is that comes before those that are measured."""
    parser.add_argument(
        "--warm-up", type=int, default=200, help="pods of the run before, which is not counted"
    )


if __name__ == "__main__":
    sys.exit(main())
