"""`make bench SCENARIO=fill`: filling a cluster, Berth against the stock scheduler.

All pods wait before a scheduler is started; an independent watcher times from the first
to the last bind. The systems take turns on one cluster, run after run, with the pods
deleted in between and a short warm-up before. Processor time counts from the first bind
until the program is quiet again, so that events posted behind the binds are included.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench import bench_cluster, operator_runs, plots, process_costs, results, scenario, systems
from testbed import audit, processes

RESULT: Final = "head-to-head.json"
LOG_SECONDS: Final = 1.0  # The server writes a line of the audit log just after its answer.
TABLE: Final = results.Table(
    32,
    ("pods/s", "pods_per_s", "{:8.0f}"),
    ("CPU ms/pod", "cpu_ms_per_pod", "{:10.2f}"),
    ("server ms/pod", "server_cpu_ms_per_pod", "{:13.2f}"),
    ("RSS MiB", "rss_mib", "{:8.0f}"),
    ("writes/pod", "api_writes_per_pod", "{:10.2f}"),
    ("events/pod", "events_per_pod", "{:10.2f}"),
    ("others/pod", "other_writes_per_pod", "{:10.2f}"),
)


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
        namespace = await self._place.fill(count, scheduler=system.scheduler, percent=percent)
        sighting, start = bench_cluster.Sighting(), self._place.log.stat().st_size
        watching = asyncio.create_task(self._place.watch(namespace, count, sighting))
        await asyncio.sleep(1)  # The server is done with what making the pods left behind.
        program = await system.start(self._place, namespace, self._profile if number else None)
        try:
            row = await self._measure(program, watching, sighting, count)
            await asyncio.sleep(LOG_SECONDS)
            written = audit.read(self._place.log, start=start)
            writes, events, others = process_costs.writes(written, user=system.user, namespace=namespace)
            await self._place.clear(namespace)
            # Berth takes note in its Devices; the next run shall not have to.
            await process_costs.quiet(program.process.pid, self._place.log)
        finally:
            watching.cancel()
            program.stop(grace=10.0)
        assert sighting.count == count, f"{sighting.count} of {count} pods were bound"
        return {
            "scenario": "fill",
            "system": system.name,
            "run": number,
            **row,
            "api_writes_per_pod": writes / count,
            "events_per_pod": events / count,
            "other_writes_per_pod": others / count,
        }

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
        server = process_costs.processor_seconds(self._server) - server_before
        cost = await process_costs.quiet(pid, self._place.log) - before
        return {
            "pods_per_s": count / sighting.seconds,
            "cpu_ms_per_pod": cost / count * 1000,
            "rss_mib": process_costs.peak_mib(pid),
            "server_cpu_ms_per_pod": server / count * 1000,
            "start_cpu_s": before,
        }


async def compare(chosen: argparse.Namespace) -> list[results.Row]:
    """Run everything, the order of the systems reversed from run to run."""
    contestants = [systems.ALL[name] for name in chosen.systems]
    rows: list[results.Row] = []
    async with scenario.furnished(chosen.nodes) as place:
        bench = Bench(place, chosen.pods, chosen.profile)
        for system in contestants:
            scenario.tell(f"warming up: {system.title}")
            await bench.run(system, 0, pods=min(chosen.pods, chosen.warm_up))
        for number in range(1, chosen.runs + 1):
            for system in systems.in_turns(contestants, number):
                rows.append(await bench.run(system, number))
                scenario.tell(f"run {number}: {TABLE.line(system.title, rows[-1])}")
    return rows


# ---------------------------------------------------------------- what is printed


def medians(rows: Sequence[results.Row]) -> dict[str, results.Row]:
    """Take the medians of each system."""
    return TABLE.medians_by(lambda row: str(row["system"]), rows)


def report(rows: Sequence[results.Row]) -> str:
    """Write the table of medians, and how Berth compares."""
    found = medians(rows)
    lines = ["", TABLE.heads("median of the runs")]
    lines += [TABLE.line(systems.ALL[name].title, figures) for name, figures in found.items()]
    lines += [""]
    for other in ("kube-scheduler", "bare-fenced", "bare"):
        if other in found and "berth" in found:
            speed, cost = (
                found["berth"][key] / found[other][key] for key in ("pods_per_s", "cpu_ms_per_pod")
            )
            lines.append(
                f"Berth against {other}: {speed:.2f} of its pods/s, {cost:.2f} of its CPU for each pod"
            )
    return "\n".join(lines)


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """Let a command line say how large the cluster and the crowd are."""
    parser.add_argument("--nodes", type=int, default=1000, help="nodes with eight cards each")
    parser.add_argument("--pods", type=int, default=4000, help="waiting pods")
    parser.add_argument(
        "--warm-up", type=int, default=200, help="pods of the run before, which is not counted"
    )


def main() -> int:
    """Run, print and write the results."""
    parser = argparse.ArgumentParser(prog="make bench SCENARIO=fill", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs of each system")
    add_sizes(parser)
    parser.add_argument("--systems", nargs="+", choices=systems.ALL, default=list(systems.ALL))
    parser.add_argument("--profile", type=Path, help="write a cProfile of our operator's last run there")
    chosen = parser.parse_args()
    rows = scenario.finish(compare(chosen))
    print(report(rows))
    results.write(RESULT, rows)
    found = {systems.ALL[name].title: figures for name, figures in medians(rows).items()}
    for key, title, unit in PLOTS:
        figures = {name: row[key] for name, row in found.items()}
        plots.write(f"fill-{key.replace('_', '-')}.svg", title, unit, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
