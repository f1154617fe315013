"""`make bench SCENARIO=agents`: what the agents of many nodes cost the API server.

Each node has an agent of its own: its watches, its token, its Lease. Many are in one process, and their cards
are simulated; the server cannot tell. From step to step more nodes come. Once their Devices are written, all
are left alone, and it is measured what still comes: renewals of Leases, how long the server takes for one,
and what server and etcd compute meanwhile, less what they compute without any agent. Then pods are bound to
these nodes, and their agents make the GpuPods: what the server computes for one pod says whether that grows
with the nodes.
"""

import argparse
import asyncio
import datetime as dt
import sys
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from bench import bench_cluster, given_twice, plots, process_costs, results, scenario, systems
from berth_agent import flag_table
from berth_crds import names
from berth_crds.client import lease, resources
from support import kubelet
from testbed import audit, processes, waiting
from testbed import cluster as clusters

RESULT: Final = "agents.json"
USER: Final = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.AGENT_ACCOUNT}"
PER_PROCESS: Final = 250
PATIENCE_SECONDS: Final = 600.0  # Until the agents of one process have their Leases.
SETTLING_INTERVALS: Final = 2.0
WARM: Final = 40  # Pods.
TABLE: Final = results.Table(
    12,
    ("renewals/s", "renewals_per_s", "{:10.1f}"),
    ("others/s", "others_per_s", "{:8.1f}"),
    ("p50 ms", "p50_ms", "{:8.1f}"),
    ("p99 ms", "p99_ms", "{:8.1f}"),
    ("server %", "server_percent", "{:8.1f}"),
    ("etcd %", "etcd_percent", "{:8.1f}"),
    ("ms/renewal", "ms_per_renewal", "{:10.2f}"),
    ("server MiB", "server_mib", "{:10.0f}"),
    ("ms/pod", "server_ms_per_pod", "{:8.1f}"),
    ("agent %", "agent_percent", "{:8.3f}"),
)


class Computed(NamedTuple):
    """What server, etcd and agents have computed, in seconds; or how much of that in one second."""

    server: float
    etcd: float
    agents: float

    def rate_since(self, before: "Computed", seconds: float) -> "Computed":
        """Return how much of that a second was computed since then."""
        return Computed(*((now - then) / seconds for now, then in zip(self, before, strict=True)))


class Bench:
    """One cluster, to which nodes with agents are added."""

    def __init__(self, place: bench_cluster.BenchCluster, interval: float) -> None:
        self._place = place
        self._interval = interval
        self._operator: processes.Program | None = None
        self._programs: list[processes.Program] = []
        self._nodes: list[str] = []
        self._idle = Computed(0.0, 0.0, 0.0)

    async def start_operator(self) -> None:
        """Start the operator, which watches what agents write."""
        await self._place.police(wanted=True)
        self._operator = await systems.berth(self._place, "", None)

    async def warm_up(self) -> None:
        """Let some pods come before any are counted: the first ones have the server parse its own schemas."""
        await self._ms_per_pod(WARM, self._idle)

    async def rest(self, seconds: float) -> None:
        """Measure what is computed without any agent, so much a second."""
        before = self._computed()
        await asyncio.sleep(seconds)
        self._idle = self._computed().rate_since(before, seconds)

    async def grow(self, count: int) -> None:
        """Add nodes and their agents, and wait until these have written what there is to say."""
        added = [f"node-{at:05}" for at in range(len(self._nodes), count)]
        await self._place.each(map(self._make_node, added))
        for at in range(0, len(added), PER_PROCESS):
            part = added[at : at + PER_PROCESS]
            self._programs.append(await asyncio.to_thread(self._start, part))
            self._nodes += part
            await waiting.eventually(self._all_vouch, what="the agents to vouch", seconds=PATIENCE_SECONDS)
            scenario.tell(f"{len(self._nodes)} agents vouch for their nodes")
        await asyncio.sleep(SETTLING_INTERVALS * self._interval)

    async def measured(self, seconds: float, pods: int) -> results.Row:
        """Leave all agents alone for so long, let pods come, and return what both cost."""
        before, start, began = self._computed(), self._place.log.stat().st_size, time.monotonic()
        await asyncio.sleep(seconds)
        took = time.monotonic() - began
        rate = self._computed().rate_since(before, took)
        mine = audit.writes_by(audit.read(self._place.log, start=start), USER)
        renewals = audit.writes_to(mine, resources.LEASES.plural)
        waits = [(one.time - one.received) / dt.timedelta(milliseconds=1) for one in audit.accepted(renewals)]
        p50, p99 = (float(np.percentile(waits, at, method="inverted_cdf")) for at in (50, 99))
        more = rate.server + rate.etcd - self._idle.server - self._idle.etcd
        return {
            "scenario": "agents",
            "nodes": len(self._nodes),
            "interval_s": self._interval,
            "renewals_per_s": len(renewals) / took,
            "failed": len(renewals) - len(waits),
            "others_per_s": (len(mine) - len(renewals)) / took,
            "p50_ms": p50,
            "p99_ms": p99,
            "server_percent": 100 * rate.server,
            "etcd_percent": 100 * rate.etcd,
            "ms_per_renewal": 1000 * more * took / len(renewals),
            "server_mib": process_costs.resident_mib(self._place.cluster.pid("kube-apiserver")),
            "agent_percent": 100 * rate.agents / len(self._nodes),
            "server_ms_per_pod": await self._ms_per_pod(pods, rate),
        }

    async def _ms_per_pod(self, count: int, idle: Computed) -> float:
        """Let so many pods be bound and their GpuPods be made; return what one costs server and etcd."""
        before, began = self._computed(), time.monotonic()
        namespace = await self._place.fill(count, scheduler=names.SCHEDULER_NAME)
        path = resources.GPU_PODS.path(namespace=namespace)

        async def recorded() -> bool:
            return await self._count(path) >= count

        await waiting.eventually(recorded, what="the GpuPods", seconds=PATIENCE_SECONDS)
        await asyncio.sleep(self._interval)  # Some are written once more.
        rate = self._computed().rate_since(before, took := time.monotonic() - began)
        await given_twice.require_none(self._place)
        await self._place.clear(namespace)
        await asyncio.sleep(self._interval)
        return 1000 * took * (rate.server + rate.etcd - idle.server - idle.etcd) / count

    def _computed(self) -> Computed:
        server, etcd = (
            process_costs.processor_seconds(self._place.cluster.pid(name))
            for name in ("kube-apiserver", "etcd")
        )
        agents = sum(process_costs.processor_seconds(one.process.pid) for one in self._programs)
        return Computed(server, etcd, agents)

    async def _make_node(self, name: str) -> None:
        node = kubelet.FakeNode(name).manifest(lease.rfc3339(dt.datetime.now(dt.UTC)))
        await self._place.send("POST", resources.NODES.path(), node)
        # Admission taints every new node as not ready.
        untainted = {"spec": {"taints": None}}
        await self._place.send("PATCH", resources.NODES.path(name), untainted, headers=bench_cluster.MERGE)

    def _start(self, nodes: Sequence[str]) -> processes.Program:
        cluster = self._place.cluster
        account = cluster.kubeconfig_by_node(names.SYSTEM_NAMESPACE, names.AGENT_ACCOUNT, nodes)
        simulated = [word for name in nodes for word in ("--simulated-node", f"{name}={bench_cluster.SHAPE}")]
        command = [
            *(sys.executable, "-m", "berth_agent", "--kubeconfig", str(account), "--context-by-node"),
            *("--interval", f"{self._interval:g}", *simulated),
        ]
        name = f"agents-{len(self._programs)}"
        log = cluster.directory / f"{name}.log"
        return processes.start(name, command, log=log, env=systems.environment(cluster))

    async def _all_vouch(self) -> bool:
        for program in self._programs:
            if not program.alive():
                raise SystemExit(f"agents ended:\n{processes.tail(program.log, lines=40)}")
        return await self._count(resources.LEASES.path(namespace=names.NODES_NAMESPACE)) >= len(self._nodes)

    async def _count(self, path: str) -> int:
        listed = await self._place.read(path, limit="1")
        return len(listed["items"]) + int(listed["metadata"].get("remainingItemCount", 0))

    def close(self) -> None:
        """End all programs."""
        for program in (*self._programs, *filter(None, [self._operator])):
            program.kill()


async def measure(chosen: argparse.Namespace) -> list[results.Row]:
    """Measure the server by itself, and then with more and more agents."""
    rows: list[results.Row] = []
    with clusters.Cluster(
        controller_manager=False, apiserver_args=bench_cluster.LIFTED, tell=scenario.tell
    ) as testbed:
        async with bench_cluster.BenchCluster(testbed, tell=scenario.tell) as place:
            await place.furnish(0)
            bench = Bench(place, chosen.interval)
            try:
                await bench.start_operator()
                await bench.rest(chosen.seconds)
                for count in sorted(chosen.nodes):
                    await bench.grow(count)
                    if not rows:
                        await bench.warm_up()
                    rows.append(await bench.measured(chosen.seconds, chosen.pods))
                    scenario.tell(TABLE.line(title(rows[-1]), rows[-1]))
            finally:
                bench.close()
    return rows


# ---------------------------------------------------------------- what is printed


def title(row: results.Row) -> str:
    """Name the rows of one size."""
    return f"{row['nodes']} nodes"


def report(rows: Sequence[results.Row]) -> str:
    """Write the table."""
    failed = sum(row["failed"] for row in rows)
    return "\n".join(
        [
            "\nPercent are of one core, an agent's is the mean of all; ms are of server and etcd together.\n",
            TABLE.heads(""),
            *(TABLE.line(title(row), row) for row in rows),
            "",
            f"renewals that failed: {failed}",
        ]
    )


def main() -> int:
    """Run, print and write the results."""
    parser = argparse.ArgumentParser(prog="make bench SCENARIO=agents", description=__doc__)
    parser.add_argument(
        "--nodes",
        type=int,
        nargs="+",
        default=[250, 500, 1000],
        help="nodes with an agent each, step by step",
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="for which all are left alone")
    parser.add_argument(
        "--interval", type=float, default=flag_table.INTERVAL_SECONDS, help="seconds from renewal to renewal"
    )
    parser.add_argument("--pods", type=int, default=400, help="pods of one card that are bound at each step")
    chosen = parser.parse_args()
    if min(*chosen.nodes, chosen.pods) < 1 or chosen.seconds <= 0 or chosen.interval <= 0:
        parser.error("nodes, pods, seconds and the interval must be more than 0")
    if chosen.pods > bench_cluster.CARDS * min(chosen.nodes):
        parser.error("each pod has a card, so there must be fewer pods than cards")
    rows = scenario.finish(measure(chosen))
    print(report(rows))
    results.write(RESULT, rows)
    figures = {title(row): row["server_percent"] for row in rows}
    plots.write("agents-server.svg", "The API server with idle agents", "% of a core", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
