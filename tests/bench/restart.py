"""`make bench SCENARIO=restart`: how soon a new operator binds, and what starting costs.

A first operator binds all but one pod, and their GpuPods are made. Then operators
follow one another, and each finds one pod that waits and fits. The one before was asked
to end and released the Lease; or it was killed, and then the Lease has to lapse; or it
was killed while the next one stood by as a replica, whose time counts from then. Each is
done once more with busy loops beside it, and then it is also watched for a minute whether
the lead is kept. A watcher sees the bind, /proc tells what it cost, and the log tells how
far the operator had come when.
"""

import argparse
import asyncio
import datetime as dt
import itertools
import re
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

from bench import bench_cluster, given_twice, operator_runs, plots, process_costs, results, scenario, systems
from berth_crds import names
from berth_operator import settings
from testbed import processes, waiting

RESULT: Final = "restart.json"
BOUND_SECONDS: Final = 5.0  # From the start of the process to the first bind, after a release.
BOUND_NODES: Final = 1000  # Of a cluster for which that is promised; for a larger one these two are.
BOUND_RATIO: Final = 1.2  # Of that time to the time until everything is read once.
BOUND_MIB: Final = 600.0
RELEASED: Final = "the Lease was released"
LAPSED: Final = "the Lease had to lapse"
STOOD_BY: Final = "a replica stood by"
LIVES: Final = (RELEASED, LAPSED, STOOD_BY)
BOUND_FAILOVER: Final = (
    settings.Settings().lease_duration + 2.0
)  # From the kill to the next one's first bind.
STAND_BY_SECONDS: Final = 600.0
MOMENT: Final = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) \w+ +[\w.]+: (.*)$")
STAGES: Final = {
    "connected_s": "talking to ",
    "complete_s": "the picture is complete",
    "leading_s": "leading, term ",
    "deciding_s": "deciding: ",
}
LEGEND: Final = """
Seconds since the process began; for a replica since the leader was killed, and negative for what was
before. Memory at the first bind and once it only waits.
"""
TABLE: Final = results.Table(
    38,
    ("connected", "connected_s", "{:8.2f}"),
    ("complete", "complete_s", "{:8.2f}"),
    ("leading", "leading_s", "{:7.2f}"),
    ("deciding", "deciding_s", "{:8.2f}"),
    ("first bind", "first_bind_s", "{:10.2f}"),
    ("CPU s", "cpu_s", "{:5.2f}"),
    ("peak MiB", "peak_mib", "{:8.0f}"),
    ("steady MiB", "steady_mib", "{:10.0f}"),
    ("peak later", "later_peak_mib", "{:10.0f}"),
)


def stages(log: str, *, since: float) -> dict[str, float]:
    """Read from an operator's log how many seconds after a moment it reached each stage."""
    found: dict[str, float] = {}
    for match in filter(None, map(MOMENT.match, log.splitlines())):
        stamp, said = match.groups()
        for stage, words in STAGES.items():
            if said.startswith(words):
                moment = dt.datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()
                found.setdefault(stage, moment - since)
    return found


class Bench:
    """One cluster, and the operators that follow one another there."""

    def __init__(self, place: bench_cluster.BenchCluster, first: processes.Program) -> None:
        self._place = place
        self._program = first
        self._server = place.cluster.pid("kube-apiserver")

    async def run(self, life: str, number: int, *, loops: int) -> results.Row:
        """End the operator that leads, have another one beside so many busy loops, and measure that."""
        replica: processes.Program | None = None
        with operator_runs.busy(self._place, loops):
            if life == STOOD_BY:
                replica = await self._replica()
            if life == RELEASED:
                self.close()
            else:
                self._program.kill()
            row, namespace = await self._measured(replica, life, number, loops)
        await self._place.clear(namespace)
        if row["lead_kept"]:
            await process_costs.quiet(self._program.process.pid, self._place.log)
        return row

    async def _replica(self) -> processes.Program:
        """Start an operator beside the one that leads, and wait until it could take over."""
        replica = systems.operator(self._place)
        try:
            await waiting.eventually(
                lambda: "the picture is complete" in replica.log.read_text(),
                what="a replica to stand by",
                seconds=STAND_BY_SECONDS,
            )
            await process_costs.quiet(replica.process.pid, self._place.log)
        except BaseException:
            replica.kill()
            raise
        return replica

    async def _measured(
        self, replica: processes.Program | None, life: str, number: int, loops: int
    ) -> tuple[results.Row, str]:
        wall, start = time.time(), time.monotonic()
        program = self._program = replica or systems.operator(self._place)
        namespace = await self._place.fill(1, scheduler=names.SCHEDULER_NAME)
        sighting = bench_cluster.Sighting()
        watching = asyncio.create_task(self._place.watch(namespace, 1, sighting))
        try:
            cost, _ = await operator_runs.until_first(program, watching, sighting, server=self._server)
        finally:
            watching.cancel()
        peak = process_costs.peak_mib(program.process.pid)
        await asyncio.sleep(60.0 if loops else 10.0)
        pid, alive = program.process.pid, program.alive()
        if alive:  # Kopf reads all Devices and GpuPods after the first binds.
            await process_costs.quiet(pid, self._place.log)
        row = {
            "scenario": "restart",
            "life": life,
            "busy_loops": loops,
            "run": number,
            # Seconds since the process began or the last leader was killed, and what it had used by its
            # first bind and once it only waits.
            **stages(program.log.read_text(), since=wall),
            "first_bind_s": sighting.first - start,
            "cpu_s": cost,
            "peak_mib": peak,
            "steady_mib": process_costs.resident_mib(pid) if alive else 0.0,
            "later_peak_mib": process_costs.peak_mib(pid) if alive else 0.0,
            "lead_kept": alive and "leadership lost" not in program.log.read_text(),
        }
        return row, namespace

    def close(self) -> None:
        """End the last operator."""
        self._program.stop(grace=20.0)


async def measure(chosen: argparse.Namespace) -> list[results.Row]:
    """Bind the pods in a first life, then start operators one after another."""
    rows: list[results.Row] = []
    async with scenario.furnished(chosen.nodes) as place:
        scenario.tell(f"a first operator binds {chosen.pods} pods of one card each")
        bench = Bench(place, await operator_runs.filled(place, chosen.pods))
        try:
            scenario.tell("their GpuPods are made")
            await place.record()
            for number, loops, life in itertools.product(
                range(1, chosen.runs + 1), sorted({0, chosen.busy}), LIVES
            ):
                rows.append(await bench.run(life, number, loops=loops))
                scenario.tell(f"run {number}: {TABLE.line(title(life, loops), rows[-1])}")
            await given_twice.require_none(place)
        finally:
            bench.close()
    return rows


# ---------------------------------------------------------------- what is printed


def title(life: str, loops: int) -> str:
    """Name the rows of one kind."""
    return f"{life}, {loops} busy loops" if loops else life


def promises(rows: Sequence[results.Row], nodes: int) -> Iterator[results.Promise]:
    """Judge what is promised: of starts after a release on a quiet machine, and of the lead on any."""
    released = [row for row in rows if row["life"] == RELEASED and not row["busy_loops"]]
    if nodes <= BOUND_NODES:
        slowest = max(row["first_bind_s"] for row in released)
        text = f"{RELEASED}: first bind within {BOUND_SECONDS:g} s in every run ({slowest:.2f} s at worst)"
        yield results.Promise(text, slowest <= BOUND_SECONDS)
    else:
        ratio = statistics.median(row["first_bind_s"] / row["complete_s"] for row in released)
        text = f"{RELEASED}: first bind at most {BOUND_RATIO:g} times as late as everything is read once"
        yield results.Promise(f"{text} (median {ratio:.2f})", ratio <= BOUND_RATIO)
        peak = max(max(row["peak_mib"], row["later_peak_mib"]) for row in released)
        yield results.Promise(f"at most {BOUND_MIB:g} MiB at any time ({peak:.0f})", peak <= BOUND_MIB)
    if failovers := [
        row["first_bind_s"] for row in rows if row["life"] == STOOD_BY and not row["busy_loops"]
    ]:
        text = f"{STOOD_BY}: it binds at most {BOUND_FAILOVER:g} s after the leader was killed"
        slowest = max(failovers)
        yield results.Promise(f"{text} ({slowest:.2f} s at worst)", slowest <= BOUND_FAILOVER)
    lost = sum(not row["lead_kept"] for row in rows)
    yield results.Promise(f"the lead is never lost ({lost} times in {len(rows)} starts)", not lost)


def medians(rows: Sequence[results.Row]) -> dict[str, results.Row]:
    """Take the medians of each kind."""
    return TABLE.medians_by(lambda row: title(row["life"], row["busy_loops"]), rows)


def report(rows: Sequence[results.Row], nodes: int) -> str:
    """Write the medians of each kind, and which promises were kept."""
    lapsed = max(row["first_bind_s"] for row in rows if row["life"] == LAPSED)
    return "\n".join(
        [
            LEGEND,
            TABLE.heads("median of the runs"),
            *(TABLE.line(kind, figures) for kind, figures in medians(rows).items()),
            "",
            *map(str, promises(rows, nodes)),
            f"{LAPSED}: no bound; first bind after {lapsed:.2f} s at worst, most of it waited on purpose",
        ]
    )


def main() -> int:
    """Run, print and write the results; 1 where a promise was not kept."""
    parser = argparse.ArgumentParser(prog="make bench SCENARIO=restart", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="starts after each kind of end")
    parser.add_argument("--nodes", type=int, default=1000, help="nodes with eight cards each")
    parser.add_argument("--pods", type=int, default=5000, help="pods of one card each that are bound already")
    parser.add_argument("--busy", type=int, default=2, help="busy loops beside the second half of the starts")
    chosen = parser.parse_args()
    if not 0 < chosen.pods < bench_cluster.CARDS * chosen.nodes:
        parser.error("the pods must be fewer than the cards, so that one more fits")
    rows = scenario.finish(measure(chosen))
    print(report(rows, chosen.nodes))
    results.write(RESULT, rows)
    firsts = {kind: figures["first_bind_s"] for kind, figures in medians(rows).items()}
    plots.write("restart-first-bind.svg", "From the start of an operator to its first bind", "s", firsts)
    return results.exit_code(promises(rows, chosen.nodes))


if __name__ == "__main__":
    sys.exit(main())
