"""Which nodes have which images, and how much of a pod's images each node has.

The rule is kube-scheduler's (its plugin ImageLocality): an image counts with its bytes times the part of all
nodes that have it, so that a large image on a single node does not draw all pods there. Images are found by
each of their names. Of each image the rows that have it are kept as a sorted array: at 5,000 nodes with fifty
images each that takes a megabyte, and finding the images of a pod is a look-up for each container.
"""

import array
import bisect
import collections
import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from berth_operator.scheduling.nodes.facts import Image

MIB: Final = 1 << 20
LEAST: Final = 23 * MIB  # Less of all a pod's images counts as nothing.
MOST_OF_A_CONTAINER: Final = 1000 * MIB  # So much for each container counts as all.
MOST_REMEMBERED: Final = 64  # Answers, each of 8 bytes for a node.

Parts = npt.NDArray[np.float64]
ImagesOfPod = tuple[tuple[str, ...], tuple[str, ...]]  # Those of its containers, and those of volumes.
Remembered = tuple[int, Parts]  # The version of the index, and the answer.


class ImageIndex:
    """The images of all nodes, by row."""

    def __init__(self) -> None:
        self._rows: dict[Image, array.array[int]] = {}
        self._named: dict[str, list[Image]] = {}
        self._remembered: collections.OrderedDict[ImagesOfPod, Remembered] = collections.OrderedDict()
        self._version = 0

    def __bool__(self) -> bool:
        """Whether any node has an image."""
        return bool(self._rows)

    def __len__(self) -> int:
        """Count the different images."""
        return len(self._rows)

    def change(self, row: int, before: Collection[Image], after: Collection[Image]) -> None:
        """Record that a row has other images than before."""
        for image in set(before).difference(after):
            self._remove(row, image)
        for image in set(after).difference(before):
            self._add(row, image)
        self._version += 1

    def _add(self, row: int, image: Image) -> None:
        if (rows := self._rows.get(image)) is None:
            rows = self._rows[image] = array.array("I")
            for name in image.names:
                self._named.setdefault(name, []).append(image)
        bisect.insort(rows, row)

    def _remove(self, row: int, image: Image) -> None:
        rows = self._rows[image]
        del rows[bisect.bisect_left(rows, row)]
        if rows:
            return
        del self._rows[image]
        for name in image.names:
            self._named[name].remove(image)
            if not self._named[name]:
                del self._named[name]

    def knows(self, names: Iterable[str]) -> bool:
        """Whether any node has one of these images."""
        return any(name in self._named for name in names)

    def parts(self, names: ImagesOfPod, size: int, nodes: int) -> Parts:
        """Return how much of a pod's images each of so many rows has, from 0 to 1.

        `names` are those by container, and those of volumes; `nodes` is how many of the rows are nodes.
        """
        version, parts = self._remembered.get(names, (-1, None))
        if parts is None or version != self._version or len(parts) != size:
            self._remembered.pop(names, None)
            counts = collections.Counter(itertools.chain(*names))
            parts = self._parts(counts, len(names[0]), size, nodes)
            self._remembered[names] = self._version, parts
            if len(self._remembered) > MOST_REMEMBERED:
                self._remembered.popitem(last=False)
        return parts

    def _parts(self, counts: Mapping[str, int], containers: int, size: int, nodes: int) -> Parts:
        """Return the parts for so many containers, where so many containers and volumes have each image."""
        there = np.zeros(size)
        for name, count in counts.items():
            found = self._named.get(name, ())
            spread = sum(len(self._rows[image]) for image in found) / max(nodes, 1)
            for image in found:
                there[np.array(self._rows[image])] += count * int(image.size * spread)
        most = MOST_OF_A_CONTAINER * containers
        parts: Parts = np.clip((there - LEAST) / (most - LEAST), 0, 1)
        return parts
