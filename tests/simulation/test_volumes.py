"""Claims and storage in manifests: pods with claims are placed in a simulation as in a cluster."""

import json
from typing import Any, Final

from simulation import simulator
from support import storage

HOST: Final = "kubernetes.io/hostname"


def pod(name: str, claim: str) -> simulator.Body:
    """Return a pod of one card with a claim."""
    return simulator.pod(name, volumes=storage.using(claim))


def cluster() -> list[simulator.Body]:
    """Return two nodes with cards, by their hostnames."""
    found: list[dict[str, Any]] = [*simulator.both("n1"), *simulator.both("n2")]
    for one in found:
        if one["kind"] == "Node":
            one["metadata"].setdefault("labels", {})[HOST] = one["metadata"]["name"]
    return found


def in_ml(body: simulator.Body) -> simulator.Body:
    """Return a claim of the namespace in which the pods are."""
    return body | {"metadata": body["metadata"] | {"namespace": "ml"}}


def test_pods_go_where_their_volumes_are() -> None:
    """A local volume is given once, and a claim that is not there is named."""
    local = storage.storage_class("local", "kubernetes.io/no-provisioner")
    claims = [in_ml(storage.claim(name, "local")) for name in "ab"]
    volume = storage.volume("disk", "local", {HOST: "n2"})
    pods = pod("first", "a"), pod("second", "b"), pod("third", "none")

    found = simulator.place(*cluster(), local, *claims, volume, *pods)

    assert simulator.nodes(found) == {"ml/first": "n2", "ml/second": None, "ml/third": None}
    said = {one["pod"]: json.dumps(one) for one in found}
    assert "has no available persistent volume for claim b" in said["ml/second"]
    assert r"persistentvolumeclaim \"none\" not found" in said["ml/third"]


def test_storage_that_changes_in_a_trace_counts_from_then_on() -> None:
    """A claim that comes later lets its pod in; one that goes does not."""
    late = storage.storage_class("late")
    claim = in_ml(storage.claim("data", "late"))
    trace = [
        *({"at": 0, "apply": one} for one in (*cluster(), late)),
        {"at": 0, "add": pod("p", "data")},
        {"at": 5, "apply": claim},
    ]
    lines = simulator.run("replay", "-", "-o", "json", stdin="\n".join(map(json.dumps, trace))).objects

    assert [(line["at"], line["pod"]) for line in lines if line["event"] == "placed"] == [(5, "ml/p")]
