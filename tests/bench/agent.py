"""`make bench-agent`: what an agent costs that has nothing to do.

One agent as a user starts it, at the default intervals, on a node of eight cards: the driver's library is
the mock, the kubelet is played, all else is real. It is left alone until it has said what there is to say;
then its memory and processor time are read from /proc, and what it writes is counted in the API server's
audit log.

`WAYS=nri,cdi,plugin` measures each of these ways of delivery besides, as root, on a node with a real
kubelet and a real containerd, against an agent that leaves delivery to the environment.
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from bench import process_costs, results, scenario, systems
from berth_agent import flag_table
from berth_crds import names
from e2e import fleet, inside, node_rounds
from support import podresources
from support.nvml import build, machine, presets
from testbed import audit, processes, workers
from testbed import cluster as clusters

RESULT: Final = "agent.json"
NODE: Final = "bench-agent"
USER: Final = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.AGENT_ACCOUNT}"
SETTLING_SECONDS: Final = 2 * flag_table.INTERVAL_SECONDS
SHORTEST_SECONDS: Final = flag_table.INTERVAL_SECONDS

MOST_MIB: Final = 60.0
MOST_MIB_FOR_A_WAY: Final = 6.0
MOST_PERCENT: Final = 1.0


Agent = tuple[str, processes.Program]  # The name of its node, and the process.


async def measure(seconds: float, ways: Sequence[str]) -> list[results.Row]:
    """Start the agent, let it settle, and measure it: alone, or for each way of delivery in turn."""
    with clusters.Cluster(controller_manager=False, tell=scenario.tell) as testbed:
        scenario.tell("installing Berth's kinds, roles and policies")
        await asyncio.to_thread(fleet.Fleet(testbed).install)
        if not ways:
            return [await _measured(testbed, _bare(testbed), seconds)]
        return [
            {"way": way, **await _measured(testbed, _on_worker(testbed, way), seconds)}
            for way in dict.fromkeys(("env", *ways))
        ]


async def _measured(
    testbed: clusters.Cluster, agent: contextlib.AbstractAsyncContextManager[Agent], seconds: float
) -> results.Row:
    async with agent as (node, program):
        scenario.tell(f"the agent of {node} is up; letting it settle for {SETTLING_SECONDS:g} s")
        await asyncio.sleep(SETTLING_SECONDS)
        return await _watched(testbed, program, seconds)


@contextlib.asynccontextmanager
async def _bare(testbed: clusters.Cluster) -> AsyncIterator[Agent]:
    """Start an agent beside a kubelet that is played."""
    thing = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
    testbed.kubectl("create", "--filename=-", stdin=json.dumps(thing))
    socket = testbed.directory / "kubelet.sock"
    async with (
        podresources.Kubelet(socket),
        _started(testbed, NODE, "--pod-resources", str(socket)) as program,
    ):
        yield NODE, program


@contextlib.asynccontextmanager
async def _on_worker(testbed: clusters.Cluster, way: str) -> AsyncIterator[Agent]:
    """Start an agent that delivers one way, beside a real kubelet and a real containerd."""
    name = f"{NODE}-{way}"
    with contextlib.ExitStack() as stack:
        driver = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="berth-driver-")))
        inside.make_driver(driver)
        worker = await asyncio.to_thread(stack.enter_context, workers.Worker(testbed, name))
        usual = ("--pod-resources", f"{worker.pod_resources}")
        flags = node_rounds.WAYS[way].flags(worker, driver)
        async with _started(testbed, name, *usual, *flags) as program:
            yield name, program


@contextlib.asynccontextmanager
async def _started(testbed: clusters.Cluster, node: str, *flags: str) -> AsyncIterator[processes.Program]:
    """Start an agent on a machine of eight cards, and wait until it vouches for them."""
    made = machine.Machine.make(testbed.directory / f"machine-{node}", presets.DGX_A100)
    environment = systems.environment(testbed) | {
        "LD_LIBRARY_PATH": str(build.library().parent),
        machine.VARIABLE: str(made.state),
    }
    # A program that is installed is compiled already, and this checkout may not be.
    help_ = [sys.executable, "-m", "berth_agent", "--help"]
    await asyncio.to_thread(subprocess.run, help_, env=environment, stdout=subprocess.DEVNULL, check=True)
    account = testbed.kubeconfig_by_node(names.SYSTEM_NAMESPACE, names.AGENT_ACCOUNT, [node])
    command = [
        *(sys.executable, "-m", "berth_agent", "--node", node, "--kubeconfig", str(account)),
        *("--sysfs", str(made.sys), "--procfs", str(made.proc), *flags),
    ]
    program = processes.start(node, command, log=testbed.directory / f"{node}.log", env=environment)
    try:
        lease = ("wait", "--for=create", "-n", names.NODES_NAMESPACE, f"lease/{node}", "--timeout=60s")
        await asyncio.to_thread(testbed.kubectl, *lease)
        yield program
    finally:
        program.kill()


async def _watched(testbed: clusters.Cluster, program: processes.Program, seconds: float) -> results.Row:
    """Leave the agent alone, and tell now and then how long it takes."""
    pid, written = program.process.pid, len(testbed.audit())
    started, computed = time.monotonic(), process_costs.processor_seconds(pid)
    while (left := seconds - (time.monotonic() - started)) > 0:
        scenario.tell(f"watching, {left:.0f} s to go: {process_costs.resident_mib(pid):.1f} MiB")
        await asyncio.sleep(min(30.0, left))
    took, used = time.monotonic() - started, process_costs.processor_seconds(pid) - computed
    await asyncio.sleep(1)  # The log has a line for each write just after its answer.
    mine = audit.writes_by(testbed.audit()[written:], USER)
    devices, leases = (len(audit.writes_to(mine, kind)) for kind in (names.DEVICES, "leases"))
    return {
        "rss_mib": round(process_costs.resident_mib(pid), 1),
        "peak_mib": round(process_costs.peak_mib(pid), 1),
        "cpu_percent": round(100 * used / took, 2),
        "device_writes": devices,
        "lease_writes": leases,
        "other_writes": len(mine) - devices - leases,
        "seconds": round(took, 1),
    }


def bounds_of_ways(rows: Sequence[results.Row]) -> dict[str, bool]:
    """Tell of each way whether it takes little more than delivery by the environment, which is the first."""
    usual, *others = rows
    return {
        f"{row['way']} adds at most {MOST_MIB_FOR_A_WAY:g} MiB": row["rss_mib"] - usual["rss_mib"]
        <= MOST_MIB_FOR_A_WAY
        for row in others
    }


def bounds(row: results.Row) -> dict[str, bool]:
    """Tell of each bound whether it was kept; an agent that vouches for nothing keeps none for nothing."""
    silent = not row["device_writes"] and not row["other_writes"] and bool(row["lease_writes"])
    return {
        f"at most {MOST_MIB:g} MiB": row["rss_mib"] <= MOST_MIB,
        f"at most {MOST_PERCENT:g} % of a core": row["cpu_percent"] <= MOST_PERCENT,
        "no write but renewals of the Lease": silent,
    }


REPORT: Final = """\
memory      {rss_mib:.1f} MiB resident, {peak_mib:.1f} at most
processor   {cpu_percent:.2f} % of a core
writes      {device_writes} to Devices, {lease_writes} to Leases, {other_writes} to others in {seconds:.0f} s
"""


def main() -> int:
    """Run, print and write the results; 1 where a bound was not kept."""
    parser = argparse.ArgumentParser(prog="make bench-agent", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="how long to watch")
    parser.add_argument("--ways", type=_ways, default=[], help="ways of delivery, by commas: nri,cdi,plugin")
    chosen = parser.parse_args()
    if chosen.seconds <= SHORTEST_SECONDS:
        parser.error(f"the Lease is renewed every {SHORTEST_SECONDS:g} s: please watch for longer")
    if chosen.ways and (why := workers.obstacle()):
        parser.error(f"--ways needs a real node: {why}")
    rows = scenario.finish(measure(chosen.seconds, chosen.ways))
    judged = bounds(rows[0]) | (bounds_of_ways(rows) if chosen.ways else {})
    for row in rows:
        print(f"way         {row['way']}" if "way" in row else "", REPORT.format_map(row), sep="\n")
    for bound, kept in judged.items():
        print(f"{bound}: {'held' if kept else 'NOT HELD'}")
    results.write(RESULT, rows if chosen.ways else rows[0])
    return 0 if all(judged.values()) else 1


def _ways(text: str) -> list[str]:
    ways = [word.strip() for word in text.split(",") if word.strip()]
    if unknown := [word for word in ways if word not in node_rounds.WAYS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(node_rounds.WAYS)}")
    return ways


if __name__ == "__main__":
    sys.exit(main())
