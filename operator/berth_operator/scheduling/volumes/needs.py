"""What the claims of one pod ask of nodes, or why no node can take the pod as long as they are as they are.

The order of the faults, and how their sentences begin, is kube-scheduler's.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

from berth_operator.scheduling.decisions import NodeReason, Reason
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.volumes import facts, index


@dataclasses.dataclass(frozen=True, slots=True)
class BoundClaim:
    """A claim and its volume."""

    claim: facts.Claim
    volume: facts.Volume


@dataclasses.dataclass(frozen=True, slots=True)
class Needs:
    """The claims that have volumes, those that get one with the pod's node, or what is wrong with one."""

    bound: tuple[BoundClaim, ...] = ()
    delayed: tuple[facts.Claim, ...] = ()
    fault: NodeReason | None = None


UNREAD: Final = Needs(fault=(Reason.CLAIMS_UNREAD, ""))


def of(volumes: index.Volumes, claims: Iterable[nodes.PodClaim]) -> Needs:
    """Return what the claims of a pod ask for."""
    if not volumes.is_read:
        return UNREAD
    claims = tuple(claims)
    if fault := next(_faults(volumes, claims), None):
        return Needs(fault=fault)
    found = [volumes.claims[one.key] for one in claims]
    bound = tuple(BoundClaim(one, volumes.volumes[one.volume]) for one in found if one.is_bound)
    return Needs(bound, tuple(one for one in found if not one.is_bound))


def _faults(volumes: index.Volumes, claims: Iterable[nodes.PodClaim]) -> Iterator[NodeReason]:
    for one in claims:
        if fault := _fault(one, volumes.claims.get(one.key)):
            yield fault
    known = [claim for one in claims if (claim := volumes.claims.get(one.key)) is not None]
    for claim in known:
        if not claim.is_bound and not volumes.is_delayed(claim):
            yield Reason.CLAIM_UNBOUND, claim.name
    for claim in known:
        if claim.is_bound and claim.volume not in volumes.volumes:
            yield Reason.VOLUME_MISSING, claim.name


def _fault(asked: nodes.PodClaim, claim: facts.Claim | None) -> NodeReason | None:
    """Return what is wrong with a claim, whatever its volume is."""
    if claim is None:
        return (Reason.CLAIM_NOT_MADE if asked.owned_by else Reason.CLAIM_MISSING), asked.name
    if claim.is_too_long:
        return Reason.CLAIM_UNREADABLE, claim.name
    if claim.is_lost:
        return Reason.CLAIM_LOST, claim.name
    if claim.is_deleted:
        return Reason.CLAIM_DELETED, claim.name
    return (Reason.CLAIM_NOT_OWNED, claim.name) if asked.owned_by not in {"", claim.owner} else None
