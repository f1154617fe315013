"""Whether the claims that wait for the pod's node could get their volumes there.

Such a claim gets a volume that exists and can be reached from the node, or else one that its class makes.
Once a node is selected for it, by the annotation of the claim or for a pod that is just being bound, it is
pinned to that node until the provisioner takes the annotation away, as in kube-scheduler.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from berth_operator.scheduling import changes, node_table, queued_pods
from berth_operator.scheduling.constraints import claims, volume_topology
from berth_operator.scheduling.constraints.constraint import Constraint, FailedPlacement, Rejection
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.deficits import Unit
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.volumes import facts, matching, needs, sharing
from berth_operator.scheduling.wording import amount, clipped, have, with_detail


def unresolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes on which a claim cannot get its volume, claim by claim."""
    volumes = query.inventory.volumes
    delayed = needs.of(volumes, query.signature.demand.claims).delayed
    open_ = [claim for claim in delayed if not volumes.node_of(claim)]
    provided = _provided(query, open_) if open_ else {}
    for claim in delayed:
        yield from _pinned(query, claim)
        if volumes.assumed_volume(claim.key):
            continue  # Another pod, which is just being bound, brings the volume along.
        for one in _not_provisioned(query, claim):
            has_volume = provided.get(claim.key)
            yield one if has_volume is None else one._replace(nodes=one.nodes & ~has_volume)


def _pinned(query: Query, claim: facts.Claim) -> Iterator[Rejection]:
    """Yield the nodes that were not selected, and those on which the volume could not be made."""
    volumes = query.inventory.volumes
    if node := volumes.node_of(claim):
        yield Rejection(~query.nodes_named([node]), Reason.VOLUME_ELSEWHERE, node)
    if passed := volumes.passed_over.get(claim.key):
        yield Rejection(query.nodes_named(sorted(passed)), Reason.VOLUME_FAILED, claim.name)


# ---------------------------------------------------------------- volumes that exist


def _provided(query: Query, delayed: Sequence[facts.Claim]) -> sharing.NodesByClaim:
    """Return for each claim that may get a volume that exists the nodes on which it gets one."""
    inventory, volumes = query.inventory, query.inventory.volumes
    table = inventory.node_labels()
    state = volumes.version, table, table.changes
    found = volumes.served.of(delayed, state, lambda: _served(inventory, delayed))
    return {key: mask[query.rows] for key, mask in found.items()}


def _served(inventory: Inventory, delayed: Sequence[facts.Claim]) -> sharing.NodesByClaim:
    """Return the same of all nodes."""
    volumes, groups = inventory.volumes, matching.groups(inventory.volumes, delayed)
    found = {group.claims[0].key: _reaching(inventory, group.meant) for group in groups if group.meant}
    fitting = [group for group in groups if group.fitting is not None]
    served = sharing.claims_served(volumes.reserved, fitting, inventory.node_labels()) if fitting else ()
    for group, of_group in zip(fitting, served, strict=True):
        # The volumes go to the first ones.
        found |= {claim.key: of_group > at for at, claim in enumerate(group.claims)}
    return found


def _reaching(inventory: Inventory, meant: Sequence[facts.Volume]) -> node_table.Mask:
    """Return the nodes that can reach any of these volumes."""
    if any(one.affinity is None for one in meant):
        return np.ones(inventory.size, dtype=np.bool_)
    return inventory.nodes_matching(merged([term for one in meant for term in one.affinity or ()]))


def merged(terms: Sequence[nodes.Term]) -> facts.Terms:
    """Return terms that select the same nodes: those that list values of one label become one."""
    values: dict[str, list[str]] = {}
    others: dict[nodes.Term, None] = {}
    for term in terms:
        if len(term.labels) == 1 and not term.fields and term.labels[0].operator == "In":
            values.setdefault(term.labels[0].key, []).extend(term.labels[0].values)
        else:
            others[term] = None
    listed = (nodes.LabelExpression(key, "In", tuple(sorted(set(some)))) for key, some in values.items())
    return (*(nodes.Term((one,)) for one in listed), *others)


# ---------------------------------------------------------------- volumes that are made


def _not_provisioned(query: Query, claim: facts.Claim) -> Iterator[Rejection]:
    """Yield the nodes for which no volume can be made."""
    volumes = query.inventory.volumes
    storage_class = volumes.classes.get(claim.storage_class)
    if storage_class is None or not storage_class.provisions:
        yield Rejection(np.ones(query.node_count, dtype=np.bool_), Reason.NO_VOLUME, claim.name)
        return
    if storage_class.topologies is not None:
        allowed = volume_topology.selected(query, storage_class.topologies)
        yield Rejection(~allowed, Reason.VOLUME_TOPOLOGY, claim.name)
    if claim.size and storage_class.provisioner in volumes.tracking_drivers:
        enough = _with_capacity(query, claim)
        yield Rejection(~enough, Reason.STORAGE_CAPACITY, f"{claim.name} {claim.size}")


def _with_capacity(query: Query, claim: facts.Claim) -> node_table.Mask:
    """Return the nodes for which the driver reports enough capacity."""
    of_class = query.inventory.volumes.capacities.get(claim.storage_class, {}).values()
    large = [one.topology for one in of_class if one.largest >= claim.size and one.topology is not None]
    if any(not topology.labels for topology in large):
        return np.ones(query.node_count, dtype=np.bool_)
    if not large:
        return np.zeros(query.node_count, dtype=np.bool_)
    return volume_topology.selected(query, merged(large))


def feasible(query: Query) -> node_table.Mask:
    """Return the nodes on which all claims could get their volumes."""
    return volume_topology.without(query, unresolvable(query))


def relaxations(failed: FailedPlacement) -> Iterator[changes.ProposedChange]:
    """Propose to drop the claims that get no volume on some nodes, where only these are in the way."""
    volumes = failed.query.inventory.volumes
    delayed = needs.of(volumes, failed.query.signature.demand.claims).delayed
    yield from claims.dropped(failed, (one.name for one in delayed))


def _no_capacity(nodes_: int, _pod: queued_pods.PodInfo, detail: str) -> str:
    name, _, size = detail.rpartition(" ")
    wanted = f" ({amount(Unit.BYTES, int(size))} wanted)" if size.isdecimal() else ""
    return f"{have(nodes_)} not enough free storage for claim {clipped(name)}{wanted}"


CONSTRAINT = Constraint(
    applies_to=lambda signature: bool(signature.demand.claims),
    feasible=feasible,
    unresolvable=unresolvable,
    relaxations=relaxations,
    words={
        Reason.VOLUME_ELSEWHERE: lambda nodes_, _pod, detail: (
            f"{nodes_} cannot be chosen any more: a volume of the pod is being made for {clipped(detail)}"
        ),
        Reason.VOLUME_TOPOLOGY: with_detail(
            "is outside the allowedTopologies of the StorageClass of claim",
            "are outside the allowedTopologies of the StorageClass of claim",
        ),
        Reason.STORAGE_CAPACITY: _no_capacity,
        Reason.NO_VOLUME: with_detail(
            "has no available persistent volume for claim", "have no available persistent volume for claim"
        ),
        Reason.VOLUME_FAILED: with_detail(
            "is passed over for a time, for no volume could be made there for claim",
            "are passed over for a time, for no volume could be made there for claim",
        ),
    },
    brief={
        Reason.VOLUME_ELSEWHERE: "a volume is being made elsewhere",
        Reason.VOLUME_TOPOLOGY: "topology of the StorageClass",
        Reason.STORAGE_CAPACITY: "storage capacity",
        Reason.NO_VOLUME: "no persistent volume",
        Reason.VOLUME_FAILED: "no volume could be made",
    },
)
