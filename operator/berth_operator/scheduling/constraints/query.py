"""A signature and some nodes, with the masks that several constraints need of both.

A mask is worked out when the first constraint asks for it, and once.
"""

import copy
import functools
from collections.abc import Hashable, Iterable
from typing import Any, Final

import numpy as np

from berth_operator.scheduling import node_table, signatures
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import conditions, requests
from berth_operator.scheduling.inventory import Inventory

NOT_COMPUTED: Final = object()
# Pairs of a reason and the cards left: all cards first, then those left after each condition.
CardsAfterConditions = tuple[tuple[Reason, node_table.Mask], ...]


class Query:
    """A signature and the nodes that are filtered for it, as rows of the inventory's table."""

    __slots__ = (
        "_any_trouble",
        "_cards_with_room",
        "_matching",
        "cards_after_each_condition",
        "countable_rows",
        "inventory",
        "need",
        "refused_for_other_pods",
        "rows",
        "signature",
        "skews",
        "table",
    )

    def __init__(self, inventory: Inventory, rows: node_table.Rows, signature: signatures.Signature) -> None:
        self.inventory = inventory
        self.table = inventory.table
        self.rows = rows
        self.signature = signature
        self.need = signature.need
        self.cards_after_each_condition: CardsAfterConditions = ()  # `constraints.cards` sets it.
        # `constraints.topology_spread` sets both: by what its constraints have in common, and by constraint.
        self.countable_rows: dict[Hashable, node_table.Mask] = {}
        self.skews: dict[Hashable, Any] = {}
        # `constraints.pod_affinity` sets it: the nodes that refuse, for each term or key.
        self.refused_for_other_pods: list[node_table.Mask] | None = None
        self._any_trouble: bool | None = None
        self._matching: object = NOT_COMPUTED
        self._cards_with_room: object = NOT_COMPUTED

    @classmethod
    def for_all_nodes(cls, inventory: Inventory, signature: signatures.Signature) -> "Query":
        """Return the query of a signature for all nodes."""
        return cls(inventory, inventory.all_rows, signature)

    @property
    def node_count(self) -> int:
        """The number of nodes in the query."""
        return self.table.row_count(self.rows)

    def nodes_named(self, names: Iterable[str]) -> node_table.Mask:
        """Return the nodes that have one of these names."""
        index = self.inventory.index
        mask = np.zeros(self.inventory.size, dtype=np.bool_)
        mask[[index[name] for name in names if name in index]] = True
        found: node_table.Mask = mask[self.rows]
        return found

    @property
    def matching(self) -> node_table.Mask | None:
        """The cards in service that meet the conditions; None where the pod has none: any will do."""
        if self._matching is NOT_COMPUTED:
            wanted = self.signature.conditions if self.need.cards else requests.ANY_CARD
            matching = matching_cards(self.inventory, self.rows, wanted)
            if matching is not None and wanted.free_memory_at_least:
                matching = matching & self.enough_memory_free
            self._matching = matching
        return self._matching  # type: ignore[return-value]  # set just now

    @property
    def any_trouble(self) -> bool:
        """Whether anything is wrong with any card of these nodes."""
        if self._any_trouble is None:
            self._any_trouble = bool(np.count_nonzero(self.table.trouble[self.rows]))
        return self._any_trouble

    @property
    def enough_memory_free(self) -> node_table.Mask:
        """The cards with as much memory free as is required of each."""
        least = self.signature.conditions.free_memory_at_least
        mask: node_table.Mask = self.table.free_memory(self.rows) >= least
        return mask

    @property
    def cards_with_room(self) -> node_table.Mask | None:
        """The cards that could take the only share of a simple request; None where none is asked."""
        if self._cards_with_room is NOT_COMPUTED:
            single = self.need.filters_suffice and self.need.shares
            self._cards_with_room = self.room_for(self.need.shares[0], self.matching) if single else None
        return self._cards_with_room  # type: ignore[return-value]  # set just now

    def room_for(self, ask: requests.Gpus, matching: node_table.Mask | None) -> node_table.Mask:
        """Return which cards have room for a share now."""
        return cards_that_fit(self.table, self.rows, ask, matching, core_limit=self.need.core_limit)

    @property
    def core(self) -> node_table.Numbers:
        """What is left of the core of each card for the pod, in percent of the card.

        It may be more than is free: where a policy oversells core, a pod may be content with more than 100 %
        of it promised in all, up to its `core_limit`.
        """
        return self.table.core_up_to(self.need.core_limit, self.rows)

    def ignoring_withheld(self) -> "Query":
        """Return the same query as if no card were withheld."""
        query = Query(self.inventory, self.rows, self.signature)
        query.table = copy.copy(self.table)  # The same columns, but for the one that is replaced.
        query.table.withheld = np.zeros_like(self.table.withheld)
        return query


def matching_cards(
    inventory: Inventory,
    rows: node_table.Rows,
    asked: requests.Conditions,
    *,
    among: node_table.Mask | None = None,
) -> node_table.Mask | None:
    """Return which of the cards in service (or `among` others) meet the conditions; None if any will do."""
    if asked == requests.ANY_CARD:
        return None
    table = inventory.table
    matching: node_table.Mask = table.in_service[rows] if among is None else among
    kinds = asked.of_models
    if kinds != requests.ANY_MODEL:
        good = _good_models(table.models.listed, kinds)
        matching = matching & node_table.gather(good, table.model[rows])
    if asked.least_memory:
        matching = matching & (table.total[rows] >= asked.least_memory)
    if asked.card_labels:
        matching = matching & inventory.labelled(asked.card_labels)[rows]
    if asked.uuids or asked.avoid_uuids:
        matching = matching & _listed_cards(inventory, rows, asked)
    return matching


@functools.lru_cache(maxsize=256)
def _good_models(names: tuple[str, ...], asked: requests.OfModels) -> node_table.Mask:
    """Return which models will do; the last entry is for what is no card."""
    return np.array([*(conditions.model_meets(name, asked) for name in names), False], dtype=np.bool_)


def _listed_cards(inventory: Inventory, rows: node_table.Rows, asked: requests.Conditions) -> node_table.Mask:
    there: node_table.Mask = inventory.table.model[rows] != node_table.ABSENT
    if asked.uuids:
        there &= inventory.named(asked.uuids)[rows]
    return there & ~inventory.named(asked.avoid_uuids)[rows] if asked.avoid_uuids else there


def cards_that_fit(
    table: node_table.NodeTable,
    rows: node_table.Rows,
    ask: requests.Gpus,
    matching: node_table.Mask | None,
    *,
    core_limit: int,
) -> node_table.Mask:
    """Return which cards have room for a share now."""
    fit = table.in_service[rows]
    if ask.core:
        fit = fit & (table.core_up_to(core_limit, rows) >= ask.core)
    if ask.ratio:
        fit = fit & (table.ratio[rows] >= ask.ratio)
    elif ask.memory:
        fit = fit & (table.memory[rows] >= ask.memory)
    if matching is not None:
        fit = fit & matching
    withheld = table.withheld[rows]
    if np.count_nonzero(withheld):
        # Where every unused card is withheld, a share may only come from a card that is partly used already.
        unused = table.unused[rows]
        fit = fit & (~unused | (node_table.count(unused) > withheld)[:, None])
    return fit
