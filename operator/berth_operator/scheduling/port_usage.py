"""Which host ports of which nodes pods have.

A port without an address is that port of all addresses of its node, so it conflicts with
every other of the same number and protocol.
"""

import collections
from collections.abc import Iterable

from berth_operator.scheduling.nodes.facts import HostPort

Key = tuple[int, str]


class PortUsage:
    """The ports in use, by number and protocol, then by row and address."""

    def __init__(self) -> None:
        self._used: dict[Key, dict[int, collections.Counter[str]]] = {}

    def change(self, row: int, ports: Iterable[HostPort], sign: int) -> None:
        """Count the ports of a pod as used on a row, or with sign -1 as free again."""
        for port in ports:
            rows = self._used.setdefault((port.number, port.protocol), {})
            addresses = rows.setdefault(row, collections.Counter())
            addresses[port.address] += sign
            if not addresses[port.address]:
                del addresses[port.address]
            if not addresses:
                del rows[row]
            if not rows:
                del self._used[port.number, port.protocol]

    def rows_with(self, port: HostPort) -> list[int]:
        """Return the rows on which a pod has this port."""
        rows = self._used.get((port.number, port.protocol), {})
        return [row for row, addresses in rows.items() if conflicts(port, addresses)]


def conflicts(port: HostPort, addresses: Iterable[str]) -> bool:
    """Whether a port cannot be had beside the same port of these addresses."""
    taken = set(addresses)
    return bool(taken) and (not port.address or not taken.isdisjoint({"", port.address}))
