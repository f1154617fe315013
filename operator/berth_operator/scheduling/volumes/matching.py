"""Which PersistentVolumes that exist would do for a claim, and which one is chosen: the smallest.

As in kube-scheduler: a volume that is already meant for the claim comes first, whatever it is like, and
leaves it no other choice. Claims of one pod choose one after another, the smallest first, and never the same
volume. Only so many kinds of claims of a pod are compared with the volumes that exist: those beyond get none.
"""

import dataclasses
import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.volumes import claim_kinds, facts
from berth_operator.scheduling.volumes.available import AvailableVolumes, Mask
from berth_operator.scheduling.volumes.claim_kinds import ClaimKind
from berth_operator.scheduling.volumes.reach import reachable

MOST_KINDS: Final = 4


class Fitting(NamedTuple):
    """The available volumes of a class that would do for a kind of claims, also reserved ones."""

    of_class: AvailableVolumes
    rows: Mask

    def reachable(self, node: nodes.Node) -> Iterator[facts.Volume]:
        """Yield those that a node can reach."""
        return (self.of_class.volume(row) for row in self.of_class.reach.of_node(node) if self.rows[row])


class KnownVolumes(Protocol):
    """Where volumes are looked up."""

    def fitting(self, kind: ClaimKind) -> Fitting | None:
        """Return the available volumes that would do for a kind; None for none."""

    def is_free(self, name: str) -> bool:
        """Whether a volume is reserved for no pod."""

    def meant_for(self, claim: facts.ClaimKey) -> Iterable[facts.Volume]:
        """Return the volumes that name a claim, and are reserved for no pod."""


@dataclasses.dataclass(slots=True)
class Group:
    """Claims of one pod that have the same choice: the volumes meant for one of them, or those that fit."""

    claims: list[facts.Claim]
    meant: tuple[facts.Volume, ...] = ()
    fitting: Fitting | None = None


def groups(known: KnownVolumes, claims: Iterable[facts.Claim]) -> list[Group]:
    """Return the claims of a pod by what they may get, the smallest first, without those that get nothing."""
    found: list[Group] = []
    by_kind: dict[ClaimKind, Group] = {}
    for claim in sorted(claims, key=lambda one: one.size):
        if meant := tuple(one for one in known.meant_for(claim.key) if _is_to_serve(one, claim)):
            found.append(Group([claim], meant))
        elif group := by_kind.get(kind := claim_kinds.kind_of(claim)):
            group.claims.append(claim)
        elif len(by_kind) < MOST_KINDS and (fitting := known.fitting(kind)) is not None:
            by_kind[kind] = group = Group([claim], fitting=fitting)
            found.append(group)
    return found


def choose(
    known: KnownVolumes, claims: Iterable[facts.Claim], node: nodes.Node
) -> dict[facts.ClaimKey, facts.Volume]:
    """Return the volume of each of these claims that gets one that exists, reachable from a node."""
    return choose_for_groups(known, groups(known, claims), node)


def choose_for_groups(
    known: KnownVolumes, among: Sequence[Group], node: nodes.Node
) -> dict[facts.ClaimKey, facts.Volume]:
    """Return the same for claims that are grouped already."""
    taken: set[str] = set()
    found: dict[facts.ClaimKey, facts.Volume] = {}
    for group in among:
        left = (one for one in _free(known, group, node) if one.name not in taken)
        chosen = heapq.nsmallest(len(group.claims), left, key=order)
        taken.update(one.name for one in chosen)
        found |= {claim.key: one for claim, one in zip(group.claims, chosen, strict=False)}
    return found


def order(volume: facts.Volume) -> tuple[int, str]:
    """Return by what the smallest volume is found."""
    return volume.size, volume.name


def _free(known: KnownVolumes, group: Group, node: nodes.Node) -> Iterator[facts.Volume]:
    """Yield the free volumes that the claims of a group may get on a node."""
    if group.fitting is None:
        return (one for one in group.meant if reachable(one, node))
    return (one for one in group.fitting.reachable(node) if known.is_free(one.name))


def is_meant_for(volume: facts.Volume, claim: facts.Claim) -> bool:
    """Whether a volume names a claim, and no other one of that name."""
    return volume.claim == claim.key and volume.claim_uid in {"", claim.uid}


def _is_to_serve(volume: facts.Volume, claim: facts.Claim) -> bool:
    """Whether a volume that names a claim can be had for it."""
    same_class = volume.storage_class == claim.storage_class
    kind = claim_kinds.kind_of(claim)
    return is_meant_for(volume, claim) and same_class and claim_kinds.may_serve(volume, kind)
