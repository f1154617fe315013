"""The images of nodes as the core knows them, and those of pods by the same names.

Images only say which of the nodes that fit comes first, so what is beyond the limits is left out, and nothing
else of the node is lost. Kubelets report the largest fifty by default, each by its tag and its digest. Most
nodes have the same ones, and share them here: then an image of a node takes one reference.
"""

import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import Final

from berth_operator.scheduling.nodes import facts
from berth_operator.translate import raw

MOST_IMAGES: Final = 256  # Of a node.
MOST_NAMES: Final = 8  # Of an image.
MOST_TEXT: Final = 64 << 10  # Characters of all names of a node's images.
LONGEST_NAME: Final = 1024
MOST_SHARED: Final = 1 << 14
MOST_CONTAINERS: Final = 64  # Of a pod, whose images are looked for.
NEWEST: Final = ":latest"


def read(images: Iterable[raw.Image]) -> tuple[facts.Image, ...]:
    """Return the images of a node as far as they are within the limits."""
    return tuple(_within_text(itertools.islice(images, MOST_IMAGES)))


def _within_text(images: Iterable[raw.Image]) -> Iterator[facts.Image]:
    left = MOST_TEXT
    for image in images:
        short = (name for name in image.names or () if len(name) <= LONGEST_NAME)
        names = tuple(itertools.islice(short, MOST_NAMES))
        left -= sum(map(len, names))
        if left < 0:
            return
        if names and image.size_bytes > 0:
            yield _shared(names, min(image.size_bytes, facts.LARGEST))


@functools.lru_cache(maxsize=MOST_SHARED)
def _shared(names: tuple[str, ...], size: int) -> facts.Image:
    return facts.Image(names, size)


def of_pod(spec: raw.PodSpec) -> tuple[str, ...]:
    """Return the image of each container and init container of a pod, as nodes name it."""
    containers = itertools.chain(spec.init_containers or (), spec.containers)
    return tuple(_name(one.image) for one in itertools.islice(containers, MOST_CONTAINERS) if one.image)


def _name(image: str) -> str:
    """Return the name of an image with its tag; one that no node has if it is too long."""
    if len(image) > LONGEST_NAME:
        return ""
    tagged = image.rfind(":") > image.rfind("/")
    return image if tagged else image + NEWEST
