"""Which node has which row of the node table.

A node has a row while its Node or its Device is known. Pods may name others: a node whose Node was
deleted, or was not read so far, or never existed. Such a node is absent. What pods hold there is kept, but
it has no row, for a row that comes or goes voids what is remembered of all others.
"""

from typing import Final

import numpy as np

from berth_operator.scheduling import node_table
from berth_operator.scheduling.node_info import NodeInfo

NO_ROW: Final = -1


class NodeRows:
    """All nodes that anything names; `index` has the rows of those that are not absent."""

    def __init__(self) -> None:
        self.infos: list[NodeInfo | None] = []  # By row; None where a row is vacant.
        self.index: dict[str, int] = {}
        self._absent: dict[str, NodeInfo] = {}
        self._vacant: list[int] = []
        self._positions: node_table.Numbers | None = None
        self._order: node_table.Numbers | None = None

    # ------------------------------------------------------------ reading

    def named(self, name: str) -> NodeInfo | None:
        """Return a node by its name, absent or not."""
        at = self.index.get(name)
        return self.infos[at] if at is not None else self._absent.get(name)

    def at(self, row: int) -> NodeInfo:
        """Return the node of a row in use."""
        info = self.infos[row]
        assert info is not None, "a row in use"  # noqa: S101
        return info

    def each(self) -> list[NodeInfo]:
        """Return all nodes by name, absent ones too."""
        return sorted([*self.present(), *self._absent.values()], key=lambda info: info.name)

    def present(self) -> list[NodeInfo]:
        """Return the nodes that have a row, in the order of rows."""
        return [info for info in self.infos if info is not None]

    def positions(self) -> node_table.Numbers:
        """Return for each row its position in the order of names."""
        if self._positions is None:
            names = [info.name if info else "" for info in self.infos]
            self._positions = np.empty(len(names), dtype=np.int64)
            self._positions[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        return self._positions

    def at_position(self, position: int) -> NodeInfo:
        """Return the node at a position in the order of names."""
        if self._order is None:
            self._order = np.argsort(self.positions())
        return self.at(int(self._order[position]))

    # ------------------------------------------------------------ changing

    def keep_absent(self, name: str) -> NodeInfo:
        """Return an absent node, which is remembered until `forget_absent`."""
        return self._absent.setdefault(name, NodeInfo(name, NO_ROW))

    def forget_absent(self, name: str) -> None:
        """Forget an absent node."""
        self._absent.pop(name, None)

    def give_row(self, name: str) -> NodeInfo:
        """Return a node that had no row, with one that it has from now on."""
        info = self._absent.pop(name, None) or NodeInfo(name, NO_ROW)
        if not self._vacant:
            self._vacant.append(len(self.infos))
            self.infos.append(None)
        info.row = self._vacant.pop()
        self.infos[info.row] = info
        self.index[name] = info.row
        self._positions = self._order = None
        return info

    def take_row(self, info: NodeInfo) -> None:
        """Vacate a node's row; the node is absent from now on, and kept if pods hold anything there."""
        del self.index[info.name]
        self.infos[info.row] = None
        self._vacant.append(info.row)
        info.row = NO_ROW
        if info.holds:
            self._absent[info.name] = info
        self._positions = self._order = None
