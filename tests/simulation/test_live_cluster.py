"""The dump of a real cluster, in which every field of a pod's spec is used, goes through the simulation.

What it says of each pod is compared with what the operator then decides on that cluster.
The server has all features on: else it would drop the fields of those that are off.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from berth_crds import names
from berth_operator.scheduling.explain import sentences
from e2e import fleet
from e2e import stage as stages
from e2e.conditions import scheduled
from e2e.stage import Pod, Stage, Thing
from simulation import every_container, every_field, simulator
from support import manifests
from testbed import cluster as clusters

pytestmark = [pytest.mark.cluster, pytest.mark.thorough]

FEATURES: Final = ("--feature-gates=AllAlpha=true,AllBeta=true", "--runtime-config=api/all=true")
KINDS: Final = "pods,nodes,devices,gpupods,placementpolicies,priorityclasses"
POD_SPEC: Final = "io.k8s.api.core.v1.PodSpec"
HOST: Final = "kubernetes.io/hostname"
FURNITURE: Final = (
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "every"}},
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "every"},
        "value": 7,
        "preemptionPolicy": "Never",
    },
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "every"},
        "handler": "every",
        "overhead": {"podFixed": {"cpu": "100m"}},
    },
)


@pytest.fixture(scope="module")
def furnished() -> Iterator[fleet.Fleet]:
    """Yield a cluster with every feature on, and what the pods name."""
    with clusters.Cluster(apiserver_args=FEATURES) as cluster:
        base = fleet.Fleet(cluster)
        base.install()
        yield base


@pytest.fixture
async def live(furnished: fleet.Fleet) -> AsyncIterator[Stage]:
    """Yield a stage on it."""
    async with stages.lent(furnished) as stage:
        yield stage


def add(cluster: clusters.Cluster, namespace: str, pods: list[Pod]) -> None:
    """Create what the pods name, and the pods; one is given a container for debugging."""
    cluster.kubectl("-n", namespace, "apply", "--filename=-", stdin=simulator.written(*FURNITURE))
    cluster.kubectl("-n", namespace, "create", "--filename=-", stdin=simulator.written(*pods))
    one = json.loads(cluster.kubectl("-n", namespace, "get", "pod", "every-0", "--output=json"))
    one["spec"]["ephemeralContainers"] = [every_container.debugging()]
    path = f"/api/v1/namespaces/{namespace}/pods/every-0/ephemeralcontainers"
    cluster.kubectl("replace", "--raw", path, "--filename=-", stdin=json.dumps(one))


def absurd() -> list[Pod]:
    """Return the pods that use every field."""
    specs = [every_field.everything(), *every_field.exclusive()]
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"every-{at}"}, "spec": spec}
        for at, spec in enumerate(specs)
    ]


def usual() -> list[Pod]:
    """Return pods that fit, pods that do not, and one that asks for nothing that cannot be had."""
    return [
        manifests.pod("fit-0", 2, nodeSelector={HOST: "n1"}),
        manifests.pod("fit-1", {"berth.dev/gpu": "50"}, nodeSelector={HOST: "n1"}),
        manifests.pod("fit-2", 0, nodeSelector={HOST: "n2"}),
        manifests.pod("late", 4, nodeSelector={HOST: "n1"}),
        manifests.pod("never", 16),
        manifests.pod("odd", {"berth.dev/gpu": "150"}),
    ]


def foretold(answer: simulator.Answer, told: simulator.Answer) -> dict[str, tuple[object, str]]:
    """Return of each pod what it is to get, and what it is to be told where it gets nothing."""
    said = dict(re.findall(r"^\S+?/(\S+) .*(?:waits|refused): (.*)$", told.out, re.MULTILINE))
    found = {str(one["pod"]).rpartition("/")[2]: one for one in answer.objects if "pod" in one}
    return {
        name: (one["allocation"] or one["node"], "" if one["node"] else said.get(name, ""))
        for name, one in found.items()
    }


def decided(pods: dict[str, Pod]) -> dict[str, tuple[object, str]]:
    """Return the same as it came to be; what comes nearest and what would help is told beside it."""
    return {name: (_got(one), _told(scheduled(one))) for name, one in pods.items()}


def _got(one: Pod) -> object:
    record = one["metadata"].get("annotations", {}).get(names.ALLOCATION)
    return json.loads(record) if record else one["spec"].get("nodeName")


def _told(condition: Thing) -> str:
    if condition.get("status") != "False" or condition["reason"] == "SchedulingGated":
        return ""
    return re.sub(r" \(nearest: .*?\)|\. (Would|It would) .*", "", condition["message"])


async def whole(live: Stage) -> dict[str, Pod]:
    """Return the pods once all explanations are complete; before that, none."""
    pods = await live.pods()
    incomplete = (sentences.BUDGET_EXHAUSTED in _told(scheduled(pod)) for pod in pods.values())
    return {} if any(incomplete) else pods


async def test_a_dump_of_a_cluster_where_every_field_is_used(live: Stage, tmp_path: Path) -> None:
    """`place` and `replay` read it, and say of each pod what the operator then decides."""
    cluster = live.cluster
    await live.nodes(n1="4xT4", n2="2xT4")
    add(cluster, live.namespace, [*absurd(), *usual()])

    schemas = json.loads(cluster.kubectl("get", "--raw", "/openapi/v3/api/v1"))["components"]["schemas"]
    listed = {name for name in every_field.fields(schemas, POD_SPEC) if every_field.said(name)}
    used = {name for one in (await live.pods()).values() for name in every_field.used(one["spec"])}
    assert listed - used == set()

    dump = tmp_path / "cluster.yaml"
    dump.write_text(cluster.kubectl("get", KINDS, "--all-namespaces", "--output=yaml"))
    placed, told = simulator.run("place", dump, "-o", "json"), simulator.run("place", dump)
    assert placed.code == told.code == 0, placed.notes
    trace = tmp_path / "trace.jsonl"
    trace.write_text("")
    replayed = simulator.run("replay", trace, dump, "-o", "json")
    assert replayed.code == 0, replayed.notes

    await live.deciding_operator()
    await live.until_told("never", "Would fit")  # It is the last one that anything is said of.
    pods = await live.until("looks that were cut short to be made up for", lambda: whole(live))
    there = {name: one for name, one in decided(pods).items() if name != "every-7"}  # It had its node.
    assert foretold(placed, told) == there
    assert foretold(replayed, told) | {"every-5": (None, "")} == there

    # Once they are bound, the same is read of it, and nobody moves.
    dump.write_text(cluster.kubectl("get", KINDS, "--all-namespaces", "--output=yaml"))
    again = simulator.run("place", dump, "-o", "json")
    waiting = {name for name, one in pods.items() if not one["spec"].get("nodeName")}
    assert (again.code, again.notes) == (0, "")
    assert {str(one["pod"]).rpartition("/")[2] for one in again.objects if one["node"] is None} == waiting
    assert len(again.objects) == len(waiting)
