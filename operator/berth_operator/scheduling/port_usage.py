"""Which host ports of which nodes pods have.

A port without an address is that port of all addresses of its node, so it conflicts with
every other of the same number and protocol.
"""

import collections
from collections.abc import Iterable
from typing import Final

import numpy as np

from berth_operator.scheduling import node_table
from berth_operator.scheduling.nodes.facts import HostPort

MOST_MASKS: Final = 256

Key = tuple[int, str]


class PortUsage:
    """The ports in use, by number and protocol, then by address and row."""

    def __init__(self) -> None:
        self._used: dict[Key, dict[str, collections.Counter[int]]] = {}
        self._masks: dict[HostPort, node_table.Mask] = {}  # Since the last change.

    def change(self, row: int, ports: Iterable[HostPort], sign: int) -> None:
        """Count the ports of a pod as used on a row, or with sign -1 as free again."""
        self._masks.clear()
        for port in ports:
            addresses = self._used.setdefault((port.number, port.protocol), {})
            rows = addresses.setdefault(port.address, collections.Counter())
            rows[row] += sign
            if not rows[row]:
                del rows[row]
            if not rows:
                del addresses[port.address]
            if not addresses:
                del self._used[port.number, port.protocol]

    def taken(self, port: HostPort, size: int) -> node_table.Mask:
        """Return on which of so many rows a pod has this port."""
        if (mask := self._masks.get(port)) is None or len(mask) != size:
            if len(self._masks) >= MOST_MASKS:
                self._masks.clear()
            mask = self._masks[port] = self._taken(port, size)
        return mask

    def _taken(self, port: HostPort, size: int) -> node_table.Mask:
        mask = np.zeros(size, dtype=np.bool_)
        for address, rows in self._used.get((port.number, port.protocol), {}).items():
            if conflict(port.address, address):
                mask[np.fromiter(rows, dtype=np.int64, count=len(rows))] = True
        return mask


def conflict(one: str, other: str) -> bool:
    """Whether the same port cannot be had of both addresses; an empty one is all addresses."""
    return not one or not other or one == other
