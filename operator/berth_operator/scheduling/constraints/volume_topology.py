"""Whether the node can reach the PersistentVolumes that the pod's claims are bound to.

A volume says it by its node affinity; old ones by labels of a zone or a region, which count only on nodes
that have such labels.
"""

from collections.abc import Iterator

import numpy as np

from berth_operator.scheduling import changes, node_table
from berth_operator.scheduling.constraints import claims
from berth_operator.scheduling.constraints.constraint import Constraint, FailedPlacement, Rejection
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.volumes import facts, needs
from berth_operator.scheduling.wording import with_detail


def unresolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes that cannot reach a volume, claim by claim."""
    for one in needs.of(query.inventory.volumes, query.signature.demand.claims).bound:
        for terms, reason in (
            (one.volume.affinity, Reason.VOLUME_AFFINITY),
            (one.volume.zones, Reason.VOLUME_ZONE),
        ):
            if terms is not None:
                yield Rejection(~selected(query, terms), reason, one.claim.name)


def selected(query: Query, terms: facts.Terms) -> node_table.Mask:
    """Return the nodes that one of these terms selects."""
    return query.inventory.nodes_matching(terms)[query.rows]


def feasible(query: Query) -> node_table.Mask:
    """Return the nodes that can reach all volumes."""
    return without(query, unresolvable(query))


def without(query: Query, rejections: Iterator[Rejection]) -> node_table.Mask:
    """Return the nodes that have no rejection."""
    mask = np.ones(query.node_count, dtype=np.bool_)
    for one in rejections:
        mask &= ~one.nodes
    return mask


def relaxations(failed: FailedPlacement) -> Iterator[changes.ProposedChange]:
    """Propose to drop the claims whose volumes some nodes cannot reach, where only these are in the way."""
    yield from claims.dropped(failed, (one.detail for one in unresolvable(failed.query) if one.nodes.any()))


CONSTRAINT = Constraint(
    applies_to=lambda signature: bool(signature.demand.claims),
    feasible=feasible,
    unresolvable=unresolvable,
    relaxations=relaxations,
    words={
        Reason.VOLUME_AFFINITY: with_detail(
            "does not match the node affinity of the volume of claim",
            "do not match the node affinity of the volume of claim",
        ),
        Reason.VOLUME_ZONE: with_detail(
            "is in another zone than the volume of claim", "are in other zones than the volume of claim"
        ),
    },
    brief={
        Reason.VOLUME_AFFINITY: "node affinity of a volume",
        Reason.VOLUME_ZONE: "zone of a volume",
    },
)
