"""Whether the devices are well: healthy, not cordoned, not used by others, published once."""

from collections.abc import Iterator
from typing import Final

from berth_operator.scheduling import node_table
from berth_operator.scheduling.constraints import cards, pools
from berth_operator.scheduling.constraints.constraint import Constraint, Objection
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.wording import of_devices

TROUBLES: Final = tuple(reason for reason in node_table.TROUBLES if reason is not None)


def passing(query: Query) -> Iterator[Objection]:
    """Yield the nodes that have too few devices that are well, by what is wrong with the others."""
    for pool in pools.pools(query):
        few = pool.well < pool.wanted
        for reason in TROUBLES if few.any() else ():
            yield Objection(few & (pool.trouble == node_table.TROUBLES.index(reason)), reason, pool.name)
    trouble = query.table.trouble[query.rows]
    if cards.asks(query.need) and trouble.any():
        right = cards.right(query)
        for ask in cards.asks(query.need):
            yield from _troubled_cards(trouble, ask.count, right & cards.large(query, ask))


def _troubled_cards(trouble: node_table.Numbers, count: int, right: node_table.Mask) -> Iterator[Objection]:
    few = node_table.count(right & (trouble == 0)) < count
    for reason in TROUBLES if few.any() else ():
        there = (right & (trouble == node_table.TROUBLES.index(reason))).any(axis=1)
        yield Objection(few & there, reason)


CONSTRAINT = Constraint(
    name="device state",
    asked=lambda question: question.need.asked,
    passing=passing,
    words={
        Reason.UNHEALTHY: of_devices("too few healthy {}"),
        Reason.CORDONED: of_devices("cordoned {}"),
        Reason.OCCUPIED: of_devices("{} used by processes that Berth did not place"),
        Reason.DUPLICATE_UUID: of_devices("{} whose uuid is published twice"),
        Reason.WRONG_RECORD: of_devices("{} kept for a pod whose record is wrong"),
    },
    brief={
        Reason.UNHEALTHY: "unhealthy",
        Reason.CORDONED: "cordoned",
        Reason.OCCUPIED: "used by other processes",
        Reason.DUPLICATE_UUID: "published twice",
        Reason.WRONG_RECORD: "kept for a pod whose record is wrong",
    },
)
