"""What the real API server makes of the examples, and what kubectl prints of them, is read alike."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from simulation import simulator

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from testbed import cluster as clusters

FOLDER = simulator.EXAMPLES / "cluster"


def examples(namespace: str) -> Iterator[simulator.Body]:
    """Return all example objects beside the cluster, in a namespace."""
    for path in sorted((simulator.EXAMPLES / "pods").glob("*.yaml")):
        yield from yaml.safe_load_all(
            path.read_text().replace("namespace: examples", f"namespace: {namespace}")
        )


def placed(*objects: Any) -> list[simulator.Body]:
    """Place pods on the example cluster."""
    return simulator.place(*objects, words=(FOLDER,))


def deleted(cluster: clusters.Cluster, file: Path) -> None:
    """Take the objects of a file away at once."""
    cluster.kubectl("delete", "--grace-period=0", "--force", "-f", str(file))


def test_as_kubectl_prints_it(
    cluster: clusters.Cluster, namespace: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The server takes all examples, and read back through kubectl they are placed as they were written."""
    objects = list(examples(namespace))
    file = simulator.save(tmp_path / "objects.yaml", *objects)
    request.addfinalizer(functools.partial(deleted, cluster, file))
    cluster.kubectl("apply", "-f", str(file))

    for output in ("yaml", "json"):
        printed = cluster.kubectl("-n", namespace, "get", "priorityclasses,pods", "-o", output)
        answer = simulator.run("place", FOLDER, "-", "-o", "json", "-q", stdin=printed)
        by_name = sorted(objects, key=lambda one: (one["kind"] == "Pod", one["metadata"]["name"]))
        assert (answer.code, answer.objects) == (0, placed(*by_name))


def test_bound_as_printed(
    cluster: clusters.Cluster, namespace: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Pods printed as bound are taken by the server, and read back they hold the same."""
    objects = list(examples(namespace))
    bound = tmp_path / "bound.yaml"
    words = ("place", FOLDER, "-", "-o", "yaml", "-q")
    bound.write_text(simulator.run(*words, stdin=simulator.written(*objects)).out)
    classes = simulator.save(tmp_path / "classes.yaml", *(one for one in objects if one["kind"] != "Pod"))
    for file in (classes, bound):
        request.addfinalizer(functools.partial(deleted, cluster, file))
        cluster.kubectl("apply", "-f", str(file))

    printed = cluster.kubectl("-n", namespace, "get", "pods", "-o", "yaml")
    answer = simulator.run("place", FOLDER, "-", "-o", "json", "-q", stdin=printed)
    usual = simulator.run("place", FOLDER, "-", "-o", "json", "-q", stdin=simulator.written(*objects))
    waiting = {one["pod"] for one in usual.objects if one["node"] is None}
    assert {one["pod"]: one["node"] for one in answer.objects} == dict.fromkeys(waiting)
