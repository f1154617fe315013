"""Which PersistentVolumes that exist would do for a claim, and which one is chosen: the smallest.

As in kube-scheduler: a volume that is already meant for the claim comes first, whatever else it is. Claims
of one pod choose one after another, the smallest first, and never the same volume.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

from berth_operator.scheduling.nodes import affinity
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.volumes import facts


class KnownVolumes(Protocol):
    """Where volumes are looked up that are reserved for no pod."""

    def available(self, storage_class: str) -> Iterable[facts.Volume]:
        """Return the volumes of a class that are meant for no claim."""

    def meant_for(self, claim: facts.ClaimKey) -> Iterable[facts.Volume]:
        """Return the volumes that name a claim."""


def choose(
    known: KnownVolumes, claims: Iterable[facts.Claim], node: nodes.Node
) -> dict[facts.ClaimKey, facts.Volume]:
    """Return the volume of each of these claims that gets one that exists, reachable from a node."""
    chosen: dict[facts.ClaimKey, facts.Volume] = {}
    for claim in sorted(claims, key=lambda one: one.size):
        taken = {volume.name for volume in chosen.values()}
        fitting = (one for one in candidates(known, claim, taken) if reachable(one, node))
        if (best := min(fitting, key=lambda one: _preference(one, claim), default=None)) is not None:
            chosen[claim.key] = best
    return chosen


def _preference(volume: facts.Volume, claim: facts.Claim) -> tuple[bool, int, str]:
    return not is_meant_for(volume, claim), volume.size, volume.name


def candidates(
    known: KnownVolumes, claim: facts.Claim, taken: Collection[str] = ()
) -> Iterator[facts.Volume]:
    """Yield the volumes that would do for a claim without a volume, from wherever they can be reached.

    One that is meant for the claim leaves it no other choice.
    """
    meant = [one for one in known.meant_for(claim.key) if _is_to_serve(one, claim)]
    found = meant or (one for one in known.available(claim.storage_class) if _serves(one, claim))
    yield from (one for one in found if one.name not in taken)


def is_meant_for(volume: facts.Volume, claim: facts.Claim) -> bool:
    """Whether a volume names a claim, and no other one of that name."""
    return volume.claim == claim.key and volume.claim_uid in {"", claim.uid}


def _is_to_serve(volume: facts.Volume, claim: facts.Claim) -> bool:
    """Whether a volume that names a claim can be had for it."""
    same_class = volume.storage_class == claim.storage_class
    return is_meant_for(volume, claim) and same_class and _may_serve(volume, claim)


def _may_serve(volume: facts.Volume, claim: facts.Claim) -> bool:
    """Whether size and mode suffice, as they must even for a volume that is meant for the claim."""
    return (
        not volume.is_deleted
        and volume.size >= claim.size
        and volume.mode == claim.mode
        and volume.attributes_class == claim.attributes_class
    )


def _serves(volume: facts.Volume, claim: facts.Claim) -> bool:
    return (
        _may_serve(volume, claim)
        and claim.access_modes <= volume.access_modes
        and (claim.selector is None or _selects(claim.selector, volume))
    )


def _selects(selector: nodes.Term, volume: facts.Volume) -> bool:
    labels = dict(volume.labels)
    return all(affinity.holds(one, labels) for one in selector.labels)


def reachable(volume: facts.Volume, node: nodes.Node) -> bool:
    """Whether a node can use a volume, by the node affinity of the volume."""
    return volume.affinity is None or any(affinity.term_holds(term, node) for term in volume.affinity)
