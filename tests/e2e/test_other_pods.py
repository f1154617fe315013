"""Pods that look at other pods, on the real server: spread over zones, apart by host, near another."""

import secrets
from typing import Any, Final

import pytest

from berth_crds.client import resources
from e2e.stage import Stage, Thing
from support import manifests

pytestmark = pytest.mark.usefixtures("leader")

ZONE: Final = "example.com/zone"
HOST: Final = "example.com/host"
WEB: Final = {"app": "web"}
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def asking(name: str, labels: dict[str, str] = WEB, **spec: Any) -> Thing:
    """Return a pod with labels that asks for a card."""
    return manifests.pod(name, meta={"labels": labels}, **spec)


def affinity(kind: str, key: str, app: str, **term: Any) -> Thing:
    """Write a required term about an application."""
    selector = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"affinity": {kind: {REQUIRED: [selector | term]}}}


async def labelled_nodes(stage: Stage, cards: int, **zones: str) -> list[str]:
    """Add nodes with so many cards each, in these zones; return their names in this test."""
    names = {f"{short}-{secrets.token_hex(3)}": zone for short, zone in zones.items()}
    await stage.ready_nodes(**dict.fromkeys(names, f"{cards}xT4"))
    for name, zone in names.items():
        labels = {ZONE: zone, HOST: name}
        stage.cluster.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
    return list(names)


async def test_pods_are_spread_over_zones(stage: Stage) -> None:
    """As evenly as they ask; one for whom the emptier zone has no card waits until the other is emptier."""
    first, second, other = await labelled_nodes(stage, 2, a1="a", a2="a", b1="b")
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": WEB},
        "matchLabelKeys": ["rev"],
        "minDomains": 2,
        "nodeTaintsPolicy": "Honor",
        "nodeAffinityPolicy": "Honor",
    }
    pods = [
        asking(f"w{number}", WEB | {"rev": "1"}, topologySpreadConstraints=[constraint])
        for number in range(6)
    ]

    nodes = await stage.placed(*pods[:5])
    await stage.waiting_pod(pods[5], "didn't match pod topology spread constraints")

    assert sorted(node == other for node in nodes.values()) == [False, False, False, True, True]
    await stage.delete(next(name for name, node in nodes.items() if node in {first, second}))
    assert (await stage.until_bound("w5"))["w5"] in {first, second}


async def test_pods_keep_apart_by_host(stage: Stage) -> None:
    """Those that ask for it, and one that asks for nothing and is meant by those that are there."""
    await labelled_nodes(stage, 4, one="a", two="b")
    apart = affinity("podAntiAffinity", HOST, "web")

    nodes = await stage.placed(*(asking(name, **apart) for name in ("a", "b")))
    await stage.waiting_pod(asking("c", **apart), "didn't match pod anti-affinity rules")
    await stage.waiting_pod(asking("plain"), "didn't satisfy existing pods anti-affinity rules")
    await stage.placed(asking("stranger", {"app": "db"}))

    assert nodes["a"] != nodes["b"]
    await stage.delete("a", "c")
    assert (await stage.until_bound("plain"))["plain"] == nodes["a"]


async def test_a_pod_goes_where_a_pod_of_a_labelled_namespace_is(stage: Stage) -> None:
    """It waits until that namespace gets the label, and in its own until a running pod gets one."""
    await labelled_nodes(stage, 4, one="a", two="b")
    elsewhere = stage.cluster.namespace("e2e")
    await stage.admin.create(resources.PODS, asking("db", {"app": "db"}), namespace=elsewhere)
    await stage.placed(asking("here", {"app": "none"}))
    teams = {"namespaceSelector": {"matchLabels": {"team": elsewhere}}}

    await stage.waiting_pod(
        asking("far", **affinity("podAffinity", ZONE, "db", **teams)), "didn't match pod affinity rules"
    )
    stage.cluster.kubectl("label", "namespace", elsewhere, f"team={elsewhere}")
    nodes = await stage.until_bound("far")

    found = stage.cluster.read(f"/api/v1/namespaces/{elsewhere}/pods/db")
    assert nodes["far"] == found["spec"]["nodeName"]
    await stage.waiting_pod(
        asking("near", **affinity("podAffinity", HOST, "db")), "didn't match pod affinity"
    )
    stage.cluster.kubectl("label", "--overwrite", "pod", "here", "app=db", "--namespace", stage.namespace)
    assert (await stage.until_bound("near"))["near"] == nodes["here"]
