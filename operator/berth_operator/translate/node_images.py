"""The images of nodes as the core knows them, and those of pods by the same names.

Images only say which of the nodes that fit comes first, so what is beyond the limits is left out, and nothing
else of the node is lost. Kubelets report the largest fifty by default, each by its tag and its digest. Many
nodes have the same ones, and share them here: then an image of a node takes one reference. How many different
ones all nodes have together is limited, too, because each node may report images of its own.
"""

import itertools
import weakref
from collections.abc import Iterable, Iterator
from typing import Final

from berth_operator.scheduling.nodes import facts
from berth_operator.translate import raw

MOST_IMAGES: Final = 256  # Of a node.
MOST_NAMES: Final = 8  # Of an image; one with more of them is left out.
MOST_TEXT: Final = 64 << 10  # Characters of all names of a node's images.
LONGEST_NAME: Final = 1024
MOST_DIFFERENT: Final = 1 << 13  # Images of all nodes together.
MOST_CONTAINERS: Final = 64  # Of a pod, whose images are looked for; and as many volumes.
NEWEST: Final = ":latest"

Key = tuple[tuple[str, ...], int]


class SharedImages:
    """One object for each image that any node has; each goes with the last node that has it."""

    def __init__(self) -> None:
        self._known: dict[Key, weakref.ref[facts.Image]] = {}

    def __len__(self) -> int:
        """Count the images."""
        return len(self._known)

    def get(self, names: tuple[str, ...], size: int) -> facts.Image | None:
        """Return an image; None if it is beyond the limits, or new and there are too many."""
        reference = self._known.get((names, size))
        if reference is not None and (image := reference()) is not None:
            return image
        within = 0 < len(names) <= MOST_NAMES and max(map(len, names)) <= LONGEST_NAME and size > 0
        if not within or len(self._known) >= MOST_DIFFERENT:
            return None
        image = facts.Image(names, size)
        self._known[names, size] = weakref.ref(image, lambda _: self._known.pop((names, size), None))
        return image


SHARED: Final = SharedImages()


def read(images: Iterable[raw.Image]) -> tuple[facts.Image, ...]:
    """Return the images of a node as far as they are within the limits."""
    return tuple(_within_text(itertools.islice(images, MOST_IMAGES)))


def _within_text(images: Iterable[raw.Image]) -> Iterator[facts.Image]:
    left = MOST_TEXT
    for one in images:
        image = SHARED.get(one.names or (), min(one.size_bytes, facts.LARGEST))
        if image is None:
            continue
        left -= sum(map(len, image.names))
        if left < 0:
            return
        yield image


def of_pod(spec: raw.PodSpec) -> tuple[str, ...]:
    """Return the image of each container and init container of a pod, as nodes name it."""
    containers = itertools.chain(spec.init_containers or (), spec.containers)
    return tuple(_name(one.image) for one in itertools.islice(containers, MOST_CONTAINERS) if one.image)


def of_volumes(volumes: Iterable[raw.Volume]) -> tuple[str, ...]:
    """Return the images that are volumes of a pod, as nodes name them."""
    found = (one.image.reference for one in volumes if one.image is not None and one.image.reference)
    return tuple(map(_name, itertools.islice(found, MOST_CONTAINERS)))


def _name(image: str) -> str:
    """Return the name of an image with its tag; one that no node has if it is too long."""
    if len(image) > LONGEST_NAME:
        return ""
    tagged = image.rfind(":") > image.rfind("/")
    return image if tagged else image + NEWEST
