"""Which PersistentVolumes that exist would do for a claim, and which one is chosen: the smallest.

As in kube-scheduler: a volume that is already meant for the claim comes first, whatever else it is. Claims
of one pod choose one after another, the smallest first, and never the same volume.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

from berth_operator.scheduling.nodes import affinity
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.volumes import facts


class VolumesByClass(Protocol):
    """Where volumes are looked up."""

    def of_class(self, name: str) -> Iterable[facts.Volume]:
        """Return the volumes of a class that are reserved for no pod."""


def choose(
    known: VolumesByClass, claims: Iterable[facts.Claim], node: nodes.Node
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
    known: VolumesByClass, claim: facts.Claim, taken: Collection[str] = ()
) -> Iterator[facts.Volume]:
    """Yield the volumes that would do for a claim without a volume, from wherever they can be reached.

    One that is meant for the claim leaves it no other choice.
    """
    of_class = [one for one in known.of_class(claim.storage_class) if one.name not in taken]
    meant = [one for one in of_class if is_meant_for(one, claim) and _may_serve(one, claim)]
    yield from meant or (one for one in of_class if _is_free(one) and _serves(one, claim))


def is_meant_for(volume: facts.Volume, claim: facts.Claim) -> bool:
    """Whether a volume names a claim, and no other one of that name."""
    return volume.claim == claim.key and volume.claim_uid in {"", claim.uid}


def _is_free(volume: facts.Volume) -> bool:
    return volume.claim is None and volume.phase == facts.AVAILABLE


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
