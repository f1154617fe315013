"""`make bench SCENARIO=churn`: short jobs on a full cluster, Berth against the stock scheduler.

All cards are taken and a crowd waits. Each job has one card and ends from 5 to 60 seconds after a
watcher saw its bind: half of them are deleted, half succeed; for each that ends a new one joins the
crowd. Containers are not started, so a card is idle only from a job's end, as the server answers it,
until the watcher sees the next bind: what is found is the scheduler's own part. The systems take
turns on one cluster.
"""

import argparse
import asyncio
import itertools
import random
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from bench import bench_cluster, given_twice, plots, pod_watch, process_costs, results, scenario, systems
from testbed import processes

RESULT: Final = "churn.json"
BOUND_PERCENT: Final = 2.0  # Of all card time, idle.
SHORTEST, LONGEST = 5.0, 60.0  # Seconds of a job.
CROWD: Final = 100
PATIENCE: Final = 300.0
CONTESTANTS: Final = ("kube-scheduler", "berth")
TABLE: Final = results.Table(
    32,
    ("jobs/s", "jobs_per_s", "{:8.1f}"),
    ("idle %", "idle_percent", "{:8.2f}"),
    ("ms a job", "idle_ms_per_job", "{:9.0f}"),
    ("CPU ms/job", "cpu_ms_per_job", "{:10.2f}"),
    ("server ms/job", "server_cpu_ms_per_job", "{:13.2f}"),
    ("RSS MiB", "rss_mib", "{:8.0f}"),
)

Thing = dict[str, Any]


class BusyCards:
    """How many cards are busy, and for how many card-seconds some were since the count began."""

    def __init__(self) -> None:
        self.busy = 0
        self._seconds = self._since = 0.0

    def begin(self, moment: float) -> None:
        """Count from here."""
        self._seconds, self._since = 0.0, moment

    def change(self, moment: float, by: int) -> None:
        """Note that so many more are busy."""
        self._seconds += self.busy * max(0.0, moment - self._since)
        self._since = max(self._since, moment)
        self.busy += by

    def seconds(self, moment: float) -> float:
        """Return the card-seconds up to a moment."""
        self.change(moment, 0)
        return self._seconds


class Jobs:
    """The jobs of one run: a task of a group for each that runs."""

    def __init__(
        self,
        place: bench_cluster.BenchCluster,
        namespace: str,
        scheduler: str,
        group: asyncio.TaskGroup,
        seed: int,
    ) -> None:
        self._place = place
        self._running = group
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._scheduler = scheduler
        self._chance = random.Random(seed)
        self._numbers = itertools.count()
        self._bound: set[str] = set()
        self.cards = BusyCards()
        self.seen = pod_watch.PodWatch()
        self.ended = 0

    async def begin(self, count: int) -> None:
        """Make so many jobs, and let each end in its time."""
        await asyncio.gather(*(self._make() for _ in range(count)))
        self._running.create_task(self._watch())

    async def _make(self) -> None:
        pod = bench_cluster.pod(next(self._numbers), self._scheduler)
        await self._place.send("POST", self._path, pod)

    async def _watch(self) -> None:
        """See which jobs get a node, for as long as it is let."""
        listed = await self._place.read(self._path, **bench_cluster.HAS_NODE)
        for pod in listed["items"]:
            self._saw(time.monotonic(), "ADDED", pod)
        version = listed["metadata"]["resourceVersion"]
        while True:  # A watch that the server ends is taken up where it ended.
            async for moment, change in self._place.news(self._path, version, **bench_cluster.HAS_NODE):
                version = change["object"]["metadata"]["resourceVersion"]
                self._saw(moment, change["type"], change["object"])

    def _saw(self, moment: float, change: str, pod: Thing) -> None:
        self.seen.saw(moment, change, pod)
        name: str = pod["metadata"]["name"]
        if name not in self._bound:
            self._bound.add(name)
            self.cards.change(moment, 1)
            self._running.create_task(self._end(name, self._chance.uniform(SHORTEST, LONGEST)))

    async def _end(self, name: str, seconds: float) -> None:
        """End a job when its time has come; it is deleted in any case, so that the cluster does not grow."""
        await asyncio.sleep(seconds)
        succeeds = self._chance.random() < 1 / 2
        if succeeds:
            body = {"status": {"phase": "Succeeded"}}
            await self._place.send("PATCH", f"{self._path}/{name}/status", body, headers=bench_cluster.MERGE)
            self._is_over()
        await self._place.send("DELETE", f"{self._path}/{name}", {"gracePeriodSeconds": 0})
        if not succeeds:
            self._is_over()
        await self._make()

    def _is_over(self) -> None:
        self.cards.change(time.monotonic(), -1)
        self.ended += 1


class Bench:
    """Runs systems on one cluster."""

    def __init__(self, place: bench_cluster.BenchCluster, seconds: float) -> None:
        self._place = place
        self._seconds = seconds
        self._server = place.cluster.pid("kube-apiserver")

    async def run(self, system: systems.System, number: int) -> results.Row:
        """Let jobs come and go, and one system bind them."""
        await self._place.police(wanted=system.policed)
        namespace = self._place.cluster.namespace("churn")
        cards = len(self._place.nodes) * bench_cluster.CARDS
        program = await system.start(self._place, namespace, None)
        try:
            async with asyncio.TaskGroup() as group:
                jobs = Jobs(self._place, namespace, system.scheduler, group, seed=number)
                await jobs.begin(cards + CROWD)
                await _until_full(program, jobs, cards)
                row = await self._measured(program, jobs, cards)
                await given_twice.require_none(self._place, seen=jobs.seen.twice)
                group.create_task(_stop())
        except* _Over:
            pass
        finally:
            program.stop(grace=10.0)
        await self._place.clear(namespace)
        return {"scenario": "churn", "system": system.name, "run": number, "cards": cards, **row}

    async def _measured(self, program: processes.Program, jobs: Jobs, cards: int) -> results.Row:
        pid = program.process.pid
        cost, server = (process_costs.processor_seconds(one) for one in (pid, self._server))
        start, before = time.monotonic(), jobs.ended
        jobs.cards.begin(start)
        await asyncio.sleep(self._seconds)
        if not program.alive():
            raise SystemExit(f"{program.name} ended:\n{processes.tail(program.log, lines=40)}")
        end = time.monotonic()
        idle = cards * (end - start) - jobs.cards.seconds(end)
        ended = max(1, jobs.ended - before)
        return {
            "jobs_per_s": ended / (end - start),
            "idle_percent": 100 * idle / (cards * (end - start)),
            "idle_ms_per_job": 1000 * idle / ended,
            "cpu_ms_per_job": 1000 * (process_costs.processor_seconds(pid) - cost) / ended,
            "server_cpu_ms_per_job": 1000 * (process_costs.processor_seconds(self._server) - server) / ended,
            "rss_mib": process_costs.peak_mib(pid),
        }


class _Over(Exception):
    """A run is over: what is left of it is cancelled."""


async def _stop() -> None:
    raise _Over


async def _until_full(program: processes.Program, jobs: Jobs, cards: int) -> None:
    """Wait until every card was busy once; those whose jobs have ended since are on their way again."""
    deadline = time.monotonic() + PATIENCE
    while jobs.cards.busy + jobs.ended < cards:
        if not program.alive() or time.monotonic() > deadline:
            said = processes.tail(program.log, lines=40)
            raise SystemExit(f"{jobs.cards.busy} of {cards} cards were taken:\n{said}")
        await asyncio.sleep(0.1)


async def compare(chosen: argparse.Namespace) -> list[results.Row]:
    """Run everything, the order of the systems reversed from run to run."""
    contestants = [systems.ALL[name] for name in chosen.systems]
    rows: list[results.Row] = []
    async with scenario.furnished(chosen.nodes) as place:
        bench = Bench(place, chosen.seconds)
        for number in range(1, chosen.runs + 1):
            for system in systems.in_turns(contestants, number):
                rows.append(await bench.run(system, number))
                scenario.tell(f"run {number}: {TABLE.line(system.title, rows[-1])}")
    return rows


# ---------------------------------------------------------------- what is printed


def medians(rows: Sequence[results.Row]) -> dict[str, results.Row]:
    """Take the medians of each system."""
    return TABLE.medians_by(lambda row: str(row["system"]), rows)


def promises(found: dict[str, results.Row]) -> Iterator[results.Promise]:
    """Judge how long our cards were idle, if we took part."""
    if "berth" in found:
        idle = found["berth"]["idle_percent"]
        sentence = f"cards idle at most {BOUND_PERCENT:g} % of the time ({idle:.2f} %)"
        yield results.Promise(sentence, idle <= BOUND_PERCENT)


def report(rows: Sequence[results.Row]) -> str:
    """Write the table of medians, and whether the bound was kept."""
    found = medians(rows)
    lines = ["", TABLE.heads("median of the runs")]
    lines += [TABLE.line(systems.ALL[name].title, figures) for name, figures in found.items()]
    lines += ["", *map(str, promises(found))]
    return "\n".join(lines)


def main() -> int:
    """Run, print and write the results; 1 where the bound was not kept."""
    parser = argparse.ArgumentParser(prog="make bench SCENARIO=churn", description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="runs of each system")
    parser.add_argument("--nodes", type=int, default=100, help="nodes with eight cards each, all taken")
    parser.add_argument("--seconds", type=float, default=300.0, help="for which jobs come and go")
    parser.add_argument("--systems", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    chosen = parser.parse_args()
    rows = scenario.finish(compare(chosen))
    print(report(rows))
    results.write(RESULT, rows)
    idle = {systems.ALL[name].title: figures["idle_percent"] for name, figures in medians(rows).items()}
    plots.write("churn-idle.svg", "Cards idle between short jobs", "% of the time", idle)
    return results.exit_code(promises(medians(rows)))


if __name__ == "__main__":
    sys.exit(main())
