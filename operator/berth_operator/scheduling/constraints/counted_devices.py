"""Devices counted in pieces: replicas of shared cards, MIG instances, other devices of each type."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from berth_operator.scheduling import node_table, queued_pods
from berth_operator.scheduling.changes import ProposedChange
from berth_operator.scheduling.constraints import asks
from berth_operator.scheduling.constraints.constraint import Constraint, FailedPlacement, Rejection
from berth_operator.scheduling.constraints.gaps import gap
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.deficits import REPLICAS
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.wording import fewer, have, noun


@dataclasses.dataclass(frozen=True, slots=True)
class PieceCounts:
    """Pieces of one kind by node, in the order of `node_table.PIECE_COUNTS`, and how many are wanted."""

    wanted: int
    name: str
    lacking: Reason  # Where a node has too few of them, used or not.
    detail: str
    left: node_table.Numbers
    well: node_table.Numbers
    in_all: node_table.Numbers
    trouble: node_table.Numbers


def piece_counts(query: Query) -> Iterator[PieceCounts]:
    """Yield the counts of each kind of piece that is asked for."""
    table, rows, need = query.table, query.rows, query.need
    if need.replicas:
        counts = [getattr(table, name)[rows] for name in node_table.REPLICA_TABLES]
        yield PieceCounts(need.replicas, REPLICAS, Reason.TOO_FEW_CARDS, REPLICAS, *counts)
    for ask in need.instances:
        counts = _columns(query, node_table.INSTANCE_TABLES, table.profiles.get(ask.profile))
        yield PieceCounts(ask.count, f"MIG {ask.profile}", Reason.PROFILE_MISMATCH, ask.profile, *counts)
    for name in need.other_types:
        counts = _columns(query, node_table.OTHER_COUNTS, table.types.get(name))
        yield PieceCounts(1, name, Reason.NO_DEVICE, name, *counts)


def _columns(query: Query, tables: tuple[str, ...], column: int | None) -> list[node_table.Numbers]:
    if column is None:
        return [np.zeros(query.node_count, dtype=np.int64) for _ in tables]
    return [getattr(query.table, name)[query.rows, column] for name in tables]


def asked(need: requests.Need) -> bool:
    """Whether anything is asked for in pieces."""
    return bool(need.replicas or need.instances or need.other_types)


def feasible(query: Query) -> node_table.Mask:
    """Return the nodes that have enough of each kind left."""
    table, rows, need = query.table, query.rows, query.need
    mask: node_table.Mask = table.replicas[rows] >= need.replicas
    for ask in need.instances:
        mask &= node_table.known_of(table.profiles, ask.profile, table.instances, rows) >= ask.count
    for name in need.other_types:
        mask &= node_table.known_of(table.types, name, table.others, rows) > 0
    return mask


def unresolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes that have too few pieces, used or not."""
    for one in piece_counts(query):
        yield Rejection(one.in_all < one.wanted, one.lacking, one.detail, never_fits=True)


def resolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes that have too few pieces left."""
    for one in piece_counts(query):
        yield Rejection(one.left < one.wanted, Reason.FULL, one.name)


def gaps(query: Query) -> Iterator[node_table.Scores]:
    """Yield what part of each kind is missing."""
    for one in piece_counts(query):
        yield gap(one.left, one.wanted)


def _no_such_instance(nodes: int, pod: queued_pods.PodInfo, detail: str) -> str:
    counts = (one.count for one in pod.request.need.instances if one.profile == detail)
    return f"{have(nodes)} {fewer(next(counts, 0), noun(f'MIG {detail}'.strip(), 1))}"


def relaxations(failed: FailedPlacement) -> Iterator[ProposedChange]:
    """Yield that the pod asks for fewer replicas, instances or other devices."""
    table, rows = failed.query.table, failed.query.rows
    for position, ask in asks.each(failed.request):
        most = asks.COUNTS_TRIED
        if isinstance(ask, requests.Instances):
            counts = node_table.known_of(table.profiles, ask.profile, table.instances, rows)
            most = int(np.max(counts, initial=0))
        elif isinstance(ask, requests.Replicas):
            most = int(table.replicas[rows].max(initial=0))
        if not isinstance(ask, requests.Gpus):
            yield from asks.fewer(failed.request, position, most)


CONSTRAINT = Constraint(
    only_device_pods_lift_it=True,
    applies_to=lambda signature: asked(signature.need),
    feasible=feasible,
    unresolvable=unresolvable,
    resolvable=resolvable,
    gaps=gaps,
    relaxations=relaxations,
    words={
        Reason.PROFILE_MISMATCH: _no_such_instance,
        Reason.NO_INSTANCE: lambda nodes, _, detail: (
            f"{have(nodes)} too few free {noun(f'MIG {detail}'.strip(), 2)}"
        ),
        Reason.NO_FUNCTION: lambda nodes, _, detail: (
            f"{have(nodes)} too few free virtual functions of {noun(detail, 2)}"
        ),
    },
    brief={
        Reason.PROFILE_MISMATCH: "no such instance",
        Reason.NO_INSTANCE: "no free instance",
        Reason.NO_FUNCTION: "no free virtual function",
    },
)
