"""Image locality: of equally good nodes the one that has the pod's images already."""

import pytest

from berth_operator.scheduling import cycle, decisions, node_offers, preference_index
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.nodes.facts import Image
from berth_operator.scheduling.search import Search
from scheduling.placements import RULES
from scheduling.preferring import chosen, pod
from support import builders

MIB = 1 << 20
GIB = 1 << 30
HALF_GIB = Image(("app:1", "registry.example.com/app@sha256:1"), 512 * MIB)
SMALL = Image(("tool:latest",), 40 * MIB)
TINY = Image(("pause:3",), MIB)


@pytest.mark.parametrize(
    ("images", "node"),
    [
        pytest.param((), "n1", id="no image"),
        pytest.param(("app:1",), "n3", id="the node that has it"),
        pytest.param(("registry.example.com/app@sha256:1",), "n3", id="by another of its names"),
        pytest.param(("app:2",), "n1", id="no node has it"),
        pytest.param(("pause:3",), "n1", id="one too small to matter"),
        pytest.param(("tool:latest",), "n1", id="too small for how few nodes have it"),
        pytest.param(("tool:latest", "app:1"), "n3", id="of several the bytes count"),
        pytest.param(("wide:1",), "n2", id="where nearly all nodes have it"),
    ],
)
def test_image_locality(images: tuple[str, ...], node: str) -> None:
    """Of equally good nodes the one comes first that has most of the pod's images."""
    wide = Image(("wide:1",), 60 * MIB)
    inventory = builders.inventory(
        builders.node("n1"),
        builders.node("n2", images=(TINY, SMALL, wide)),
        builders.node("n3", images=(HALF_GIB, wide)),
    )

    assert chosen(inventory, pod(images=images)) == node


def parts(index: preference_index.PreferenceIndex, *names: str, volumes: tuple[str, ...] = ()) -> list[float]:
    """Return how much of the images of containers and volumes each row has."""
    return list(index.images.parts((names, volumes), 3, index.nodes))


def test_images_count_by_size_and_spread() -> None:
    """The bytes times the part of all nodes that have the image, from 23 MiB to 1000 MiB a container."""
    index = preference_index.PreferenceIndex()
    big, other = Image(("big:1",), 3000 * MIB), Image(("other:1",), 300 * MIB)
    for row, images in enumerate(((big, other), (big,), ())):
        index.update(row, builders.node(f"n{row}", images=images))

    assert parts(index, "big:1") == [1, 1, 0]
    assert parts(index, "other:1") == pytest.approx([(100 - 23) / (1000 - 23), 0, 0])
    assert parts(index, "big:1", "unknown:1") == pytest.approx([1, 1, 0])
    assert parts(index, "other:1", "other:1") == pytest.approx([(200 - 23) / (2000 - 23), 0, 0])
    # As in kube-scheduler the bytes of volumes are added, and the most is that of the containers.
    assert parts(index, "other:1", volumes=("other:1",)) == pytest.approx([(200 - 23) / (1000 - 23), 0, 0])


def test_images_that_go_are_forgotten() -> None:
    """With their node, or because its kubelet removed them; nothing is kept of one that no node has."""
    index = preference_index.PreferenceIndex()
    for row in range(3):
        index.update(row, builders.node(f"n{row}", images=(Image(("a:1", "a@1"), 3000 * MIB),)))
    assert parts(index, "a:1") == [1, 1, 1]

    index.update(0, builders.node("n0", images=()))
    assert parts(index, "a:1") == [0, 1, 1]
    index.update(1, None)
    assert parts(index, "a:1") == [0, 0, 1]
    index.update(2, builders.node("n2"))

    assert (len(index.images), bool(index.images), index.images.knows(["a:1", "a@1"])) == (0, False, False)


def test_another_image_of_a_pod_that_waits_counts() -> None:
    """The pod stays where it is in the queue, and is placed by the image that it has now."""
    inventory = builders.inventory(builders.node("n1"), builders.node("n2", images=(HALF_GIB,)))
    backlog = Backlog()
    backlog.push(pod(images=("app:2",)))
    backlog.push(pod(images=("app:1",)))

    (decision,) = cycle.simulate(Search(inventory), backlog, 0.0, RULES)

    assert isinstance(decision, decisions.Bind)
    assert decision.placement.node == "n2"


def test_images_of_a_node_wake_no_pod() -> None:
    """A node with another image takes no pod that it did not take before."""
    before, after = builders.node(), builders.node(images=(HALF_GIB,))

    assert not node_offers.better_node(before, after)
    assert node_offers.better_node(before, builders.node(labels={"a": "b"}, images=(HALF_GIB,)))


def test_pods_with_other_images_share_their_answer() -> None:
    """Their signature is one, and each gets the node that has its own image."""
    inventory = builders.inventory(
        builders.node("n1"),
        builders.node("n2", images=(HALF_GIB,)),
        builders.node("n3", images=(Image(("web:1",), GIB),)),
    )
    search = Search(inventory)

    nodes = [chosen(inventory, pod(images=(name,)), search=search) for name in ("app:1", "web:1", "db:1")]

    assert nodes == ["n2", "n3", "n1"]
    assert len(search._cached) == 1
