"""The images of nodes and of pods, by the same names and within limits."""

import dataclasses
from typing import Any

import msgspec
import pytest

from berth_operator.scheduling.nodes import facts
from berth_operator.translate import demands, node_images, nodes, pods, raw
from support import builders


def images(*found: dict[str, Any]) -> tuple[facts.Image, ...]:
    """Read the images of a node."""
    body = {"metadata": {"name": "n1"}, "status": {"images": list(found)}}
    return nodes.read(msgspec.convert(body, raw.Node)).images


def test_images_of_a_node() -> None:
    """Names and bytes; equal ones of two nodes are one object, which is what keeps them small."""
    app = {"names": ["app@sha256:1", "app:1"], "sizeBytes": 5}

    found, again = images(app, {"names": ["web:1"], "sizeBytes": 7}), images(app)

    assert found == (facts.Image(("app@sha256:1", "app:1"), 5), facts.Image(("web:1",), 7))
    assert again[0] is found[0]


@pytest.mark.parametrize(
    ("image", "count"),
    [
        pytest.param({"names": ["a"], "sizeBytes": 1}, 256, id="images"),
        pytest.param({"names": ["a" * 1000], "sizeBytes": 1}, 65, id="characters of their names"),
        pytest.param({"names": ["a" * 1025], "sizeBytes": 1}, 0, id="a name too long"),
        pytest.param({"names": list("abcdefghi"), "sizeBytes": 1}, 0, id="more names than any image needs"),
        pytest.param({"names": None, "sizeBytes": 1}, 0, id="no name"),
        pytest.param({"names": ["a"]}, 0, id="no size"),
        pytest.param({"names": ["a"], "sizeBytes": -1}, 0, id="a size that can be none"),
    ],
)
def test_images_beyond_the_limits_are_left_out(image: dict[str, Any], count: int) -> None:
    """Nothing else of the node is lost with them."""
    assert len(images(*[image] * 999)) == count


def test_different_images_of_all_nodes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node whose images are all its own leaves room for itself again when it is gone."""
    monkeypatch.setattr(node_images, "SHARED", shared := node_images.SharedImages())
    monkeypatch.setattr(node_images, "MOST_DIFFERENT", 3)
    own = [{"names": [f"own:{number}"], "sizeBytes": 1} for number in range(5)]
    common = {"names": ["common:1"], "sizeBytes": 1}

    first = images(*own)
    assert (len(first), images(common), len(shared)) == (3, (), 3)
    del first

    assert (len(images(common)), len(shared)) == (1, 0)


@pytest.mark.parametrize(
    ("image", "name"),
    [
        pytest.param("app", "app:latest", id="without a tag"),
        pytest.param("app:1", "app:1", id="with a tag"),
        pytest.param("host:5000/app", "host:5000/app:latest", id="the port of a registry is no tag"),
        pytest.param("app@sha256:ab", "app@sha256:ab", id="by its digest"),
        pytest.param("a" * 1025, "", id="too long to be looked for"),
    ],
)
def test_images_have_the_names_that_nodes_report(image: str, name: str) -> None:
    """Of each container and init container; those of pods with other images are one signature."""
    init = [builders.container("init", image="init:2")]
    pod = builders.pod(initContainers=init, containers=[builders.container(image=image)])

    found = demands.demand(pod.spec)

    assert found.images == ("init:2", name)
    assert found == dataclasses.replace(found, images=())


def test_images_that_are_volumes_are_looked_for_too() -> None:
    """A model of some gigabytes may be one."""
    volumes = [{"name": "model", "image": {"reference": "models/llama"}}, {"name": "tmp", "emptyDir": {}}]
    pod = builders.pod(containers=[builders.container(image="app:1")], volumes=volumes)

    found = pods.pod_info(pod).demand

    assert (found.images, found.volume_images) == (("app:1",), ("models/llama:latest",))
    assert found == demands.demand(pod.spec)
