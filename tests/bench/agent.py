"""`make bench-agent`: what an agent costs that has nothing to do.

One agent as a user starts it, at the default intervals, on a node of eight cards: the driver's
library is the mock, the kubelet is played, all else is real. It is left alone until it has
said what there is to say; then its memory and processor time are read from /proc, and what it
writes is counted in the API server's audit log.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from bench import gauges, scenario
from berth_agent import settings
from berth_crds import names
from berth_crds.client import api, connection, errors, lease, resources
from e2e import fleet
from support import podresources
from support.nvml import build, machine, presets
from testbed import audit, processes, waiting
from testbed import cluster as clusters

RESULT: Final = "agent.json"
NODE: Final = "bench-agent"
USER: Final = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.AGENT_ACCOUNT}"
SETTLING_SECONDS: Final = 2 * settings.INTERVAL_SECONDS
STEP_SECONDS: Final = 30.0
SHORTEST_SECONDS: Final = settings.INTERVAL_SECONDS

MOST_MIB: Final = 60.0
MOST_PERCENT: Final = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """What was measured; writes to anything but Devices and Leases are `other_writes`."""

    rss_mib: float
    peak_mib: float
    cpu_percent: float
    device_writes: int
    lease_writes: int
    other_writes: int
    seconds: float


async def measure(seconds: float) -> Row:
    """Start the agent, let it settle, and measure it."""
    with clusters.Cluster(controller_manager=False, tell=scenario.tell) as testbed:
        scenario.tell("installing Berth's kinds, roles and policies")
        await asyncio.to_thread(fleet.Fleet(testbed).install)
        async with _agent(testbed) as program:
            scenario.tell(f"the agent is up; letting it settle for {SETTLING_SECONDS:g} s")
            await asyncio.sleep(SETTLING_SECONDS)
            return await _watched(testbed, program, seconds)


@contextlib.asynccontextmanager
async def _agent(testbed: clusters.Cluster) -> AsyncIterator[processes.Program]:
    """Start an agent on a machine of eight cards, and wait until it vouches for them."""
    made = machine.Machine.make(testbed.directory / "machine", presets.DGX_A100)
    async with contextlib.AsyncExitStack() as stack:
        admin = await stack.enter_async_context(
            api.Api(connection.load(testbed.admin_kubeconfig), agent="bench")
        )
        await admin.create(resources.NODES, {"metadata": {"name": NODE}})
        socket = testbed.directory / "kubelet.sock"
        await stack.enter_async_context(podresources.Kubelet(socket))
        environment = _environment(made, testbed.directory / "bytecode")
        # A program that is installed is compiled already, and this checkout may not be.
        await asyncio.to_thread(_compile, environment)
        program = processes.start(
            "agent",
            _command(testbed, made, socket),
            log=testbed.directory / "agent.log",
            env=environment,
        )
        stack.callback(program.kill)

        async def vouched() -> bool:
            if not program.alive():
                raise SystemExit(f"the agent ended:\n{processes.tail(program.log)}")
            try:
                await admin.get(resources.LEASES, NODE, into=lease.Lease, namespace=names.NODES_NAMESPACE)
            except errors.NotFound:
                return False
            return True

        await waiting.eventually(vouched, what="the agent's Lease", seconds=60)
        yield program


def _command(testbed: clusters.Cluster, made: machine.Machine, socket: Path) -> list[str]:
    account = testbed.kubeconfig_by_node(names.SYSTEM_NAMESPACE, names.AGENT_ACCOUNT, [NODE])
    return [
        *(sys.executable, "-m", "berth_agent", "--node", NODE, "--kubeconfig", str(account)),
        *("--sysfs", str(made.sys), "--procfs", str(made.proc), "--pod-resources", str(socket)),
    ]


def _environment(made: machine.Machine, bytecode: Path) -> dict[str, str]:
    mock = {"LD_LIBRARY_PATH": str(build.library().parent), machine.VARIABLE: str(made.state)}
    compiled = {"PYTHONPYCACHEPREFIX": str(bytecode), "PYTHONDONTWRITEBYTECODE": ""}
    return {**os.environ, **mock, **compiled, "PYTHONUNBUFFERED": "1"}


def _compile(environment: dict[str, str]) -> None:
    subprocess.run(
        [sys.executable, "-m", "berth_agent", "--help"],
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )


async def _watched(testbed: clusters.Cluster, program: processes.Program, seconds: float) -> Row:
    """Leave the agent alone, and tell now and then how long it takes."""
    pid, written = program.process.pid, len(testbed.audit())
    started, computed = time.monotonic(), gauges.processor_seconds(pid)
    while (left := seconds - (time.monotonic() - started)) > 0:
        scenario.tell(f"watching, {left:.0f} s to go: {gauges.resident_mib(pid):.1f} MiB")
        await asyncio.sleep(min(STEP_SECONDS, left))
    took, used = time.monotonic() - started, gauges.processor_seconds(pid) - computed
    await asyncio.sleep(1)  # The log has a line for each write just after its answer.
    mine = audit.writes_by(testbed.audit()[written:], USER)
    devices, leases = (len(audit.writes_to(mine, kind)) for kind in (names.DEVICES, "leases"))
    return Row(
        rss_mib=round(gauges.resident_mib(pid), 1),
        peak_mib=round(gauges.peak_mib(pid), 1),
        cpu_percent=round(100 * used / took, 2),
        device_writes=devices,
        lease_writes=leases,
        other_writes=len(mine) - devices - leases,
        seconds=round(took, 1),
    )


def bounds(row: Row) -> dict[str, bool]:
    """Tell of each bound whether it was kept; an agent that vouches for nothing keeps none for nothing."""
    silent = not row.device_writes and not row.other_writes and bool(row.lease_writes)
    return {
        f"at most {MOST_MIB:g} MiB": row.rss_mib <= MOST_MIB,
        f"at most {MOST_PERCENT:g} % of a core": row.cpu_percent <= MOST_PERCENT,
        "no write but renewals of the Lease": silent,
    }


def report(row: Row) -> str:
    """Write what was measured, and whether the bounds were kept."""
    written = f"{row.device_writes} to Devices, {row.lease_writes} to Leases, {row.other_writes} to others"
    lines = [
        f"memory      {row.rss_mib:.1f} MiB resident, {row.peak_mib:.1f} at most",
        f"processor   {row.cpu_percent:.2f} % of a core",
        f"writes      {written} in {row.seconds:.0f} s",
        "",
        *(f"{bound}: {'held' if kept else 'NOT HELD'}" for bound, kept in bounds(row).items()),
    ]
    return "\n".join(lines)


def main() -> int:
    """Run, print and write the results; 1 where a bound was not kept."""
    parser = argparse.ArgumentParser(prog="make bench-agent", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="how long to watch")
    chosen = parser.parse_args()
    if chosen.seconds <= SHORTEST_SECONDS:
        parser.error(f"the Lease is renewed every {SHORTEST_SECONDS:g} s: please watch for longer")
    row = scenario.finish(measure(chosen.seconds))
    print(report(row))
    scenario.write(RESULT, dataclasses.asdict(row))
    return 0 if all(bounds(row).values()) else 1


if __name__ == "__main__":
    sys.exit(main())
