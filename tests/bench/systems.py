"""Who is compared: Berth, the stock scheduler with counted or claimed cards, and loops that only bind.

Each is started when all pods wait already, and is somebody of its own, so that the audit
log tells whose a write was. The stock scheduler runs without Berth's policies, for they
would cost it something too; its client's limits are lifted.
"""

import dataclasses
import os
import secrets
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from bench import bench_cluster
from berth_crds import names
from testbed import cluster as clusters
from testbed import processes, stock_scheduler

BERTH: Final = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.OPERATOR_ACCOUNT}"
RATE: Final = 5000

Start = Callable[[bench_cluster.BenchCluster, str, Path | None], Awaitable[processes.Program]]


@dataclasses.dataclass(frozen=True, slots=True)
class System:
    """One contestant."""

    name: str
    title: str
    user: str
    policed: bool
    start: Start
    scheduler: str = "nobody"
    by_claims: bool = False  # Its pods claim cards (Dynamic Resource Allocation), where others count them.


def environment(cluster: clusters.Cluster) -> dict[str, str]:
    """Return ours, but an installed program finds its bytecode: one from a checkout would compile itself."""
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(cluster.directory / "bytecode")}
    return {**os.environ, **compiled, "PYTHONUNBUFFERED": "1"}


def _launch(place: bench_cluster.BenchCluster, name: str, words: Sequence[str | Path]) -> processes.Program:
    log = place.cluster.directory / f"{name}-{secrets.token_hex(3)}.log"
    return processes.start(name, words, log=log, env=environment(place.cluster))


async def berth(
    place: bench_cluster.BenchCluster, _namespace: str, profile: Path | None
) -> processes.Program:
    """Start our operator as it is shipped."""
    await place.lead()
    return operator(place, profile)


def operator(place: bench_cluster.BenchCluster, profile: Path | None = None) -> processes.Program:
    """Start our operator, and leave the Lease as it is: somebody may hold it."""
    account = place.cluster.kubeconfig_for(names.SYSTEM_NAMESPACE, names.OPERATOR_ACCOUNT)
    under = ("-m", "cProfile", "-o", profile) if profile else ()
    words = (sys.executable, *under, "-m", "berth_operator", "--kubeconfig", account, "--name", "bench")
    return _launch(place, "berth", words)


async def stock(
    place: bench_cluster.BenchCluster, _namespace: str, _profile: Path | None
) -> processes.Program:
    """Start kube-scheduler with its default profile."""
    return _launch(place, "kube-scheduler", stock_scheduler.command(place.cluster, qps=RATE, burst=RATE))


async def bare(place: bench_cluster.BenchCluster, namespace: str, _profile: Path | None) -> processes.Program:
    """Start the loop with plain Bindings, under the stock scheduler's name and rights."""
    return _loop(place, namespace, place.cluster.component_kubeconfig("kube-scheduler"), term="")


async def fenced(
    place: bench_cluster.BenchCluster, namespace: str, _profile: Path | None
) -> processes.Program:
    """Start the loop with Bindings like Berth's, under Berth's name and rights."""
    account = place.cluster.kubeconfig_for(names.SYSTEM_NAMESPACE, names.OPERATOR_ACCOUNT)
    return _loop(place, namespace, account, term=await place.lead("bare"))


def _loop(
    place: bench_cluster.BenchCluster, namespace: str, account: Path, *, term: str
) -> processes.Program:
    words = ("--kubeconfig", account, "--namespace", namespace, "--nodes", str(len(place.nodes)))
    return _launch(
        place,
        "bare-loop",
        (sys.executable, "-m", "bench.bare", *words, "--shape", bench_cluster.SHAPE, "--term", term),
    )


def in_turns(contestants: Sequence[System], number: int) -> Iterable[System]:
    """Return the contestants in the order of one run, which is reversed from run to run."""
    return contestants if number % 2 else reversed(contestants)


STOCK_USER: Final = "system:kube-scheduler"
ALL: Final = {
    system.name: system
    for system in (
        System("bare", "only posting Bindings", STOCK_USER, policed=False, start=bare),
        System(
            "kube-scheduler",
            "kube-scheduler, cards counted",
            STOCK_USER,
            policed=False,
            start=stock,
            scheduler="default-scheduler",
        ),
        System(
            "kube-scheduler-dra",
            "kube-scheduler, cards claimed",
            STOCK_USER,
            policed=False,
            start=stock,
            scheduler="default-scheduler",
            by_claims=True,
        ),
        # Its pods are Berth's, for the server writes an environment into these.
        System(
            "bare-fenced",
            "only posting Bindings, fenced",
            BERTH,
            policed=True,
            start=fenced,
            scheduler=names.SCHEDULER_NAME,
        ),
        System(
            "berth",
            "Berth, cards chosen, fenced",
            BERTH,
            policed=True,
            start=berth,
            scheduler=names.SCHEDULER_NAME,
        ),
    )
}
