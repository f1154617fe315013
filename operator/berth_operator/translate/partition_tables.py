"""Which cards of a node form partitions, and whether it gives whole cards in partitions only.

Three tables are known, the most explicit first: the annotation that people write on a Device, in the form
of Koordinator, with minors; the groups that the agent found; and those that boards of the model have. A minor
that the node does not have makes its partition unusable, and no fault: the card may be lost for now.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from berth_crds import aliases, catalog, schema_limits, text, wire
from berth_crds.vocabulary import PartitionPolicy
from berth_operator.scheduling.devices import node_topology
from berth_operator.translate import quantities

MAX_TEXT: Final = 16_384
MAX_SCORE: Final = 1_000_000
POLICIES: Final = {str(one): one is PartitionPolicy.HONOR for one in PartitionPolicy}

Slots = Mapping[str, int]


class Table(NamedTuple):
    """The partitions of a node, whether its model stands for them, and what is wrong with a written table."""

    partitions: tuple[node_topology.Partition, ...] = ()
    by_model: bool = False
    fault: str = ""


def honored(labels: Mapping[str, str]) -> bool | None:
    """Return whether labels say that whole cards are given in partitions only; None if nothing."""
    for key in aliases.PARTITION_POLICIES:
        if (policy := POLICIES.get(labels.get(key, "").lower())) is not None:
            return policy
    return None


def read(device: wire.Device, spec: wire.DeviceSpec, gpus: Sequence[wire.Card]) -> Table:
    """Return the table of a Device whose cards are in the order of their slots."""
    written = device.metadata.annotations.get(aliases.PARTITION_TABLE)
    if written is None:
        return published(spec, gpus)
    slot_of_minor = {card.minor: slot for slot, card in enumerate(gpus)}
    try:
        return Table(tuple(_written(written, slot_of_minor)))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        fault = f"annotation {aliases.PARTITION_TABLE} is not read: {_words(error)}"
        return published(spec, gpus)._replace(fault=fault)


def _words(error: Exception) -> str:
    return str(error) if type(error) is ValueError else "it is not a table of partitions in JSON"


def published(spec: wire.DeviceSpec, gpus: Sequence[wire.Card]) -> Table:
    """Return the table that the agent published, or that of the model of the cards."""
    if spec.partitions:
        slot = {card.uuid: at for at, card in enumerate(gpus)}
        known = (one for one in spec.partitions if all(uuid in slot for uuid in one.members))
        return Table(tuple(_partition((slot[uuid] for uuid in one.members), one) for one in known))
    slot_of_minor = {card.minor: at for at, card in enumerate(gpus)}
    models = {card.model for card in gpus}
    groups = catalog.partitions(models.pop()) if len(models) == 1 else ()
    there = (
        [slot_of_minor[minor] for minor in group] for group in groups if slot_of_minor.keys() >= set(group)
    )
    found = tuple(node_topology.Partition(node_topology.mask_of(slots), 1) for slots in there)
    return Table(found, by_model=bool(found))


def _partition(slots: Iterable[int], one: wire.Partition) -> node_topology.Partition:
    return node_topology.Partition(node_topology.mask_of(slots), one.score, one.bandwidth)


# ---------------------------------------------------------------- what people wrote


def _written(written: str, slot_of_minor: Mapping[int, int]) -> Iterable[node_topology.Partition]:
    """Yield the partitions of an annotation whose cards are all there; raise ValueError if it is wrong."""
    if len(written) > MAX_TEXT:
        raise ValueError(f"it is longer than {MAX_TEXT} characters")
    entries = [(count, one) for count, those in json.loads(written).items() for one in those]
    if len(entries) > schema_limits.MOST_PARTITIONS:
        raise ValueError(f"it has more than {schema_limits.MOST_PARTITIONS} partitions")
    for count, one in entries:
        minors = _minors(count, one)
        partition = _attributes(one)
        if slot_of_minor.keys() >= minors:
            mask = node_topology.mask_of(slot_of_minor[minor] for minor in sorted(minors))
            yield node_topology.Partition(mask, *partition)


def _minors(count: str, one: Mapping[str, Any]) -> set[int]:
    minors = one.get("minors")
    if not isinstance(minors, list) or not all(type(minor) is int for minor in minors):
        raise ValueError("a partition has no list of minors")
    if str(len(set(minors))) != count.strip() or len(set(minors)) != len(minors):
        raise ValueError(f"a partition under {text.line(count[:8])} has not so many different minors")
    return set(minors)


def _attributes(one: Mapping[str, Any]) -> tuple[int, int]:
    """Return score and bandwidth."""
    score, bandwidth = one.get("allocationScore", 0), one.get("ringBusBandwidth")
    if type(score) is not int or not 0 <= score <= MAX_SCORE:
        raise ValueError(f"an allocationScore is no whole number from 0 to {MAX_SCORE}")
    found = 0 if bandwidth is None else quantities.supply(str(bandwidth)[:64], unreadable=-1)
    if found < 0:
        raise ValueError("a ringBusBandwidth is no quantity, such as 400Gi")
    return score, found
