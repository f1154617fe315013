"""How many volumes of each CSI driver the pods of a node have, and how many more the node can attach.

A volume that several pods of a node use counts once. Only nodes whose drivers tell a limit are counted.
"""

import collections
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

NOTHING: Mapping[str, int] = {}


class Identity(NamedTuple):
    """What a volume is to its driver; a volume that is yet to be made goes by its claim."""

    driver: str
    handle: str


class AttachedVolumes:
    """The volumes of the pods, by driver and node, and the limits of the nodes."""

    def __init__(self) -> None:
        self._limits: dict[str, dict[str, int]] = {}  # By driver, then by node; so are those below.
        self._left: dict[str, dict[str, int]] = {}  # Of nodes with a limit.
        self._uses: dict[str, dict[str, collections.Counter[str]]] = {}  # How many pods use a volume.

    def limits_of(self, node: str) -> Mapping[str, int]:
        """Return the limits of a node by driver."""
        return {driver: limits[node] for driver, limits in self._limits.items() if node in limits}

    def put_limits(self, node: str, limits: Mapping[str, int]) -> None:
        """Record how many volumes a node can attach; a driver that is not named has no limit."""
        for driver in {*self.limits_of(node), *limits}:
            self._limits.setdefault(driver, {}).pop(node, None)
            self._left.setdefault(driver, {}).pop(node, None)
            if driver in limits:
                self._limits[driver][node] = limits[driver]
                self._left[driver][node] = limits[driver] - len(self._of(driver, node))
            if not self._limits[driver]:
                del self._limits[driver], self._left[driver]

    def _of(self, driver: str, node: str) -> Collection[str]:
        return self._uses.get(driver, {}).get(node, ())

    def use(self, volume: Identity, node: str, pods: int) -> None:
        """Count a volume as used by more pods of a node, or by fewer."""
        nodes = self._uses.setdefault(volume.driver, {})
        uses = nodes.setdefault(node, collections.Counter())
        before = len(uses)
        uses[volume.handle] += pods
        if not uses[volume.handle]:
            del uses[volume.handle]
        left = self._left.get(volume.driver, {})
        if node in left:
            left[node] -= len(uses) - before
        if not uses:
            del nodes[node]
        if not nodes:
            del self._uses[volume.driver]

    def full_nodes(self, volumes: Collection[Identity]) -> Iterator[tuple[str, str, int]]:
        """Yield the nodes that cannot attach all of these volumes, with the driver and the limit.

        A node over its limit, because that was lowered, still takes who needs none that is not there already.
        """
        wanted: dict[str, set[str]] = {}
        for volume in volumes:
            wanted.setdefault(volume.driver, set()).add(volume.handle)
        for driver, handles in wanted.items():
            for node, left in self._left.get(driver, NOTHING).items():
                if left < len(handles) and max(left, 0) < len(handles.difference(self._of(driver, node))):
                    yield node, driver, self._limits[driver][node]

    def of_empty_node(self, node: str) -> "AttachedVolumes":
        """Return the limits of one node, without any pod."""
        found = AttachedVolumes()
        found.put_limits(node, self.limits_of(node))
        return found
