"""Which cards pods select by uuid or by labels: masks over all nodes.

They are kept until a Device changes, or until they are too many.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Final

import numpy as np

from berth_operator.scheduling import node_info, node_table
from berth_operator.scheduling.devices import conditions, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.nodes import facts as nodes

MOST_MASKS: Final = 64

Infos = Sequence[node_info.NodeInfo | None]


class CardMasks:
    """The masks that were asked for since a Device changed."""

    def __init__(self) -> None:
        self._masks: dict[Hashable, node_table.Mask] = {}

    def forget(self) -> None:
        """Forget all masks: the cards have changed."""
        self._masks.clear()

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
        if (found := self._masks.get(selection)) is None:
            if len(self._masks) >= MOST_MASKS:
                self._masks.clear()
            found = self._masks[selection] = np.zeros(table.model.shape, dtype=np.bool_, order="F")
            for at, info in enumerate(infos):
                for slot, card in enumerate(info.device.cards if info and info.device else ()):
                    if selects(card):
                        found[at, slot] = True
        return found
