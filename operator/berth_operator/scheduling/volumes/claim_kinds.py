"""All that a claim without a volume asks of one: claims of one kind have the same choice of volumes."""

from typing import NamedTuple

from berth_operator.scheduling.nodes import affinity
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.volumes import facts


class ClaimKind(NamedTuple):
    """All that a claim without a volume asks of one."""

    storage_class: str
    attributes_class: str
    access_modes: frozenset[str]
    mode: str
    size: int
    selector: nodes.Term | None


def kind_of(claim: facts.Claim) -> ClaimKind:
    """Return the kind of a claim."""
    return ClaimKind(
        claim.storage_class,
        claim.attributes_class,
        claim.access_modes,
        claim.mode,
        claim.size,
        claim.selector,
    )


def may_serve(volume: facts.Volume, kind: ClaimKind) -> bool:
    """Whether size and mode suffice, as they must even for a volume that is meant for the claim."""
    return (
        not volume.is_deleted
        and volume.size >= kind.size
        and volume.mode == kind.mode
        and volume.attributes_class == kind.attributes_class
    )


def serves(volume: facts.Volume, kind: ClaimKind) -> bool:
    """Whether a volume of the same class would do for a claim of a kind."""
    return (
        may_serve(volume, kind)
        and kind.access_modes <= volume.access_modes
        and (kind.selector is None or _selects(kind.selector, volume))
    )


def _selects(selector: nodes.Term, volume: facts.Volume) -> bool:
    there = dict(volume.labels)
    return all(affinity.holds(one, there) for one in selector.labels)
