"""Whether the node can attach the volumes of the pod, by the limits of CSI drivers in its CSINode."""

from collections.abc import Iterator

import numpy as np

from berth_operator.scheduling import changes, node_table
from berth_operator.scheduling.constraints import claims, volume_topology
from berth_operator.scheduling.constraints.constraint import Constraint, FailedPlacement, Rejection
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.wording import with_detail


def resolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes that cannot attach so many volumes, by driver and limit."""
    volumes, index = query.inventory.volumes, query.inventory.index
    rows: dict[tuple[str, int], list[int]] = {}
    wanted = volumes.identities(one.key for one in query.signature.demand.claims)
    for node, driver, limit in volumes.attached.full_nodes(wanted):
        if node in index:
            rows.setdefault((driver, limit), []).append(index[node])
    for (driver, limit), full in rows.items():
        mask = np.zeros(query.inventory.size, dtype=np.bool_)
        mask[full] = True
        yield Rejection(mask[query.rows], Reason.VOLUME_LIMIT, f"{driver} ({limit} at most)")


def feasible(query: Query) -> node_table.Mask:
    """Return the nodes that can attach all volumes."""
    return volume_topology.without(query, resolvable(query))


def relaxations(failed: FailedPlacement) -> Iterator[changes.ProposedChange]:
    """Propose to drop the claims, where only these limits are in the way."""
    if any(True for _ in resolvable(failed.query)):
        yield from claims.dropped(failed, (one.name for one in failed.query.signature.demand.claims))


def remedies(scenario: changes.Scenario, _: object) -> Iterator[changes.ProposedChange]:
    """Propose to end pods of the node that have claims."""
    holders = tuple(hold for hold in scenario.holds if hold.claims)
    if scenario.demand.claims and holders:
        yield changes.ProposedChange([changes.RemovePods(node=scenario.node.name, holds=holders)])


CONSTRAINT = Constraint(
    applies_to=lambda signature: bool(signature.demand.claims),
    feasible=feasible,
    resolvable=resolvable,
    relaxations=relaxations,
    remedies=remedies,
    words={
        Reason.VOLUME_LIMIT: with_detail("can attach no more volumes of", "can attach no more volumes of"),
    },
    brief={Reason.VOLUME_LIMIT: "volume limit"},
)
