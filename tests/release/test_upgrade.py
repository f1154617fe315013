"""Berth upgraded from the version before, in both orders, and back again, under pods that run."""

import contextlib
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from bench import results
from berth_agent import flag_table
from berth_crds import names
from release import bed as beds
from release import cached, former, kept_logs
from support import thorough
from testbed import binaries, lending, waiting
from testbed.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.cluster]

RUNNING: Final = tuple(f"runs-{number}" for number in range(50 if thorough.FULL else 10))
PERCENT: Final = 12  # Eight pods to a card.
BOTH: Final = 1  # The step after which both programs are new,
LAST: Final = 3  # and that after which both are old again.
ROLLED_SECONDS: Final = 240.0
# A lead that is not given back expires after 6 s; the API server writes whole seconds. From the return of an
# agent on: where it takes longer to start than its Lease lasts, its cards are given to nobody meanwhile.
MOST_SECONDS: Final = 6.0 + 2.0 + 1.0
SECONDS_SHOWN: Final = 30.0  # Before and after a pod that waited for too long.
MOST_NEW: Final = 10  # In each step; a kubelet has 110 pods at most.


class Order(NamedTuple):
    """The program that stays at first, and the workloads in the order of their upgrade."""

    stays: str
    first: str
    second: str


@pytest.fixture(scope="module")
def bed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[beds.Bed]:
    """Lend a node on which the former version runs, with its pods."""
    beds.skip_without_tools()
    if binaries.release():
        pytest.skip(f"on this bed no other Kubernetes reaches the webhook of version {former.VERSION}")
    if not former.is_here():
        pytest.skip(f"the history here does not reach back to version {former.VERSION}")
    version = former.made()
    for cluster in lending.lend(Cluster(), request.config):
        with beds.made(cluster, tmp_path_factory.mktemp("bed")) as made:
            made.load(version)
            made.load(cached.made())
            made.install(version)
            made.until_ready(*beds.PROGRAMS)
            made.create(*RUNNING, percent=PERCENT)
            made.until_ready(*RUNNING, namespace="default", seconds=300.0)
            yield made


def states(bed: beds.Bed) -> dict[str, tuple[str, str, list[int]]]:
    """Return which pods run: each one's uid, its allocation, and how often its containers were restarted."""
    found = bed.pods("default")
    return {
        name: (
            found[name]["metadata"]["uid"],
            found[name]["metadata"]["annotations"]["berth.dev/allocation"],
            [one["restartCount"] for one in found[name]["status"]["containerStatuses"]],
        )
        for name in RUNNING
    }


@pytest.fixture
def logs(bed: beds.Bed, tmp_path: Path) -> Iterator[kept_logs.KeptLogs]:
    """Keep what operators say while one follows another."""
    with contextlib.closing(kept_logs.KeptLogs(bed, tmp_path)) as kept:
        yield kept


@pytest.fixture
def new(bed: beds.Bed) -> Iterator[list[str]]:
    """Return a list of pods that are deleted afterwards: a kubelet has 110 at most."""
    pods: list[str] = []
    yield pods
    if pods:
        bed.cluster.kubectl("delete", "pods", *pods, "--grace-period=0", "--force")


def create_until_rolled(bed: beds.Bed, stem: str, roll: str, logs: kept_logs.KeptLogs) -> list[str]:
    """Create some pods, one a second, until a workload has rolled; return their names."""
    names: list[str] = []
    deadline = time.monotonic() + ROLLED_SECONDS
    while not names or not is_rolled(bed, roll):
        logs.look()
        assert time.monotonic() < deadline, bed.cluster.kubectl(
            "get", roll, "-n", beds.NAMESPACE, "-o", "yaml"
        )
        if len(names) < MOST_NEW:
            names.append(f"{stem}-{len(names)}")
            bed.create(names[-1], percent=1)
        time.sleep(1.0)
    return names


def agent_lease(bed: beds.Bed) -> dict[str, Any]:
    """Read the Lease of the node's agent."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{names.NODES_NAMESPACE}/leases/{bed.worker.name}"
    lease: dict[str, Any] = bed.cluster.read(path)
    return lease


def until_agent_reports(bed: beds.Bed) -> None:
    """Wait until the agent that runs now has renewed its Lease: next it may be its turn to start again."""

    def reports() -> bool:
        holder = agent_lease(bed)["spec"]["holderIdentity"].split("_")[0]
        return holder in bed.pods() and "deletionTimestamp" not in bed.pods()[holder]["metadata"]

    waiting.until(reports, what="the agent to report", seconds=120)


def until_load_is_published(bed: beds.Bed) -> None:
    """Wait until the new agent has written what the former one does not know and must leave alone."""
    waiting.until(
        lambda: names.LOAD in agent_lease(bed)["metadata"].get("annotations", {}),
        what="the load of the cards",
        seconds=60,
    )


def is_rolled(bed: beds.Bed, workload: str) -> bool:
    """Return whether all pods of a workload are of its last version, and ready."""
    kind, _, name = workload.partition("/")
    found = bed.cluster.read(f"/apis/apps/v1/namespaces/{beds.NAMESPACE}/{kind}s/{name}")
    status = found["status"]
    if status.get("observedGeneration") != found["metadata"]["generation"]:
        return False
    if found["kind"] == "DaemonSet":
        return bool(status.get("updatedNumberScheduled") == status.get("numberReady") == 1)
    wanted = (status.get(key) for key in ("replicas", "updatedReplicas", "readyReplicas"))
    return set(wanted) == {beds.OPERATORS}


def versions(bed: beds.Bed) -> dict[str, str]:
    """Return which version of its image each workload has."""
    return {
        workload: bed.cluster.kubectl(
            *("get", workload, "-n", beds.NAMESPACE),
            "--output=jsonpath={.spec.template.spec.containers[0].image}",
        ).rpartition(":")[2]
        for workload in ("deployment/berth-operator", "daemonset/berth-agent")
    }


def silences(bed: beds.Bed) -> list[tuple[datetime, datetime]]:
    """Return the renewals between which the Lease of the node's agent lapsed, in pairs."""
    heard = [
        one.time
        for one in bed.cluster.audit()
        if (one.resource, one.namespace, one.name) == ("leases", names.NODES_NAMESPACE, bed.worker.name)
        and one.code < 300
    ]
    assert heard, "agents renew Leases"
    lasting = timedelta(seconds=flag_table.LEASE_SECONDS)
    return [(last, next_) for last, next_ in itertools.pairwise(heard) if next_ - last > lasting]


def waited(pod: dict[str, Any], silent: Iterable[tuple[datetime, datetime]]) -> float:
    """Return for how many seconds a pod had no node; one that came in a silence, from its end on."""
    (scheduled,) = (one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled")
    assert scheduled["status"] == "True"
    ends = (scheduled["lastTransitionTime"], pod["metadata"]["creationTimestamp"])
    bound, created = (datetime.fromisoformat(end) for end in ends)
    start = max([created, *(end for begin, end in silent if begin < created and end < bound)])
    return (bound - start).total_seconds()


def promised(bed: beds.Bed) -> Counter[str]:
    """Return how many percent of each card are promised to pods."""
    total: Counter[str] = Counter()
    for pod in bed.pods("default").values():
        allocation = json.loads(pod["metadata"]["annotations"]["berth.dev/allocation"])
        for cards in allocation["containers"].values():
            for card in cards["gpu"]:
                total[card["uuid"]] += card["core"]
    return total


def refused_binds(bed: beds.Bed) -> list[int]:
    """Return with which codes binds were refused."""
    events = bed.cluster.audit()
    return [one.code for one in events if one.subresource == "binding" and one.code >= 400]


def writes_meanwhile(bed: beds.Bed, pod: dict[str, Any]) -> list[str]:
    """Return which writes of the Leases and the pod there were while it waited, and the server's answers."""
    created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    shown = {names.LEADER_LEASE, bed.worker.name, pod["metadata"]["name"]}
    return [
        f"{one.time.time()} {one.verb} {one.resource}/{one.subresource} {one.name} {one.code}"
        for one in bed.cluster.audit()
        if one.name in shown and abs((one.time - created).total_seconds()) <= SECONDS_SHOWN
    ]


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(
            Order("agent", "deployment/berth-operator", "daemonset/berth-agent"), id="operators first"
        ),
        pytest.param(
            Order("operator", "daemonset/berth-agent", "deployment/berth-operator"),
            id="agents first",
            marks=pytest.mark.skipif(not thorough.FULL, reason="`make e2e-install` has the other order, too"),
        ),
    ],
)
def test_no_pod_notices_an_upgrade(
    bed: beds.Bed,
    logs: kept_logs.KeptLogs,
    new: list[str],
    capsys: pytest.CaptureFixture[str],
    order: Order,
) -> None:
    """Nor a rollback: none is started again, no card is given twice, and new pods are bound soon."""
    stays, first, second = order
    before = states(bed)
    chart = bed.chart(cached.made())
    bed.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", f"{beds.KINDS}")
    steps = (
        (("upgrade", *chart, "--set", f"{stays}.tag={former.VERSION}"), first),
        (("upgrade", *chart), second),
        (("rollback",), second),
        (("rollback", "1"), first),
    )
    for number, (words, roll) in enumerate(steps):
        bed.helm(*words)
        new += create_until_rolled(bed, f"{stays}-{number}", roll, logs)
        until_agent_reports(bed)
        if number == BOTH:
            until_load_is_published(bed)
        assert versions(bed) == {
            first: former.VERSION if number == LAST else cached.TESTED,
            second: cached.TESTED if number == BOTH else former.VERSION,
        }

    bed.until_ready(*new, namespace="default")
    assert states(bed) == before
    assert max(promised(bed).values()) <= 100
    assert refused_binds(bed) == []
    pods = bed.pods("default")
    silent = silences(bed)
    seconds, slowest = max((waited(pods[name], silent), name) for name in new)
    results.write(f"upgrade-{stays}-last", {"pods_meanwhile": len(new), "longest_wait_seconds": seconds})
    with capsys.disabled():
        print(f"\n{len(new)} pods were made meanwhile, and waited for {seconds:g} s at most")
    assert seconds <= MOST_SECONDS, "\n".join(
        [slowest, *writes_meanwhile(bed, pods[slowest]), bed.said(), logs.tails()]
    )
