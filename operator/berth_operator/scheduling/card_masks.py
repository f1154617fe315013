"""Which cards pods select by uuid or by labels: masks over all nodes.

They are remembered until they are too many, and of a node whose Device has changed they are made anew.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from berth_operator.scheduling import node_info, node_table
from berth_operator.scheduling.devices import conditions, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.nodes import facts as nodes

MOST_MASKS: Final = 64
MOST_CHANGES: Final = 4096  # Of Devices, until all masks are forgotten.

Infos = Sequence[node_info.NodeInfo | None]


class Remembered(NamedTuple):
    """A mask, and how many of the changes that were recorded it includes."""

    mask: node_table.Mask
    changes: int


class CardMasks:
    """The masks that were asked for."""

    def __init__(self) -> None:
        self._masks: dict[Hashable, Remembered] = {}
        self._changed: list[int] = []  # The rows of the Devices that have changed, one after another.

    def device_changed(self, row: int) -> None:
        """Record that a row has other cards now."""
        if len(self._changed) >= MOST_CHANGES:
            self.forget()
        if self._masks:
            self._changed.append(row)

    def forget(self) -> None:
        """Forget all masks, for example because nodes have other rows."""
        self._masks.clear()
        self._changed.clear()

    def named(self, uuids: frozenset[str], infos: Infos, table: node_table.NodeTable) -> node_table.Mask:
        """Return which cards have one of these uuids, by row and slot."""
        return self._get(uuids, infos, table, lambda card: card.uuid in uuids)

    def labelled(
        self, selectors: tuple[requests.LabelSelector, ...], infos: Infos, table: node_table.NodeTable
    ) -> node_table.Mask:
        """Return which cards all selectors select, by row and slot."""
        known: dict[nodes.Labels, bool] = {}  # Most cards have the same labels, or none.

        def selects(card: PhysicalDevice) -> bool:
            if card.labels not in known:
                known[card.labels] = conditions.selected(card.labels, selectors)
            return known[card.labels]

        return self._get(selectors, infos, table, selects)

    def _get(
        self,
        selection: Hashable,
        infos: Infos,
        table: node_table.NodeTable,
        selects: Callable[[PhysicalDevice], bool],
    ) -> node_table.Mask:
        known = self._masks.get(selection)
        if known is not None and known.mask.shape == table.model.shape:
            if known.changes == len(self._changed):
                return known.mask
            changed: Iterable[int] = set(self._changed[known.changes :])
            mask = known.mask.copy(order="F")
            mask[list(changed)] = False
        else:
            if len(self._masks) >= MOST_MASKS:
                self.forget()
            changed, mask = range(len(infos)), np.zeros(table.model.shape, dtype=np.bool_, order="F")
        for row in changed:
            info = infos[row]
            for slot, card in enumerate(info.device.cards if info and info.device else ()):
                if selects(card):
                    mask[row, slot] = True
        self._masks[selection] = Remembered(mask, len(self._changed))
        return mask
