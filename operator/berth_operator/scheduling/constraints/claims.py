"""Whether the PersistentVolumeClaims of the pod are such that it can run anywhere.

What is wrong with a claim is wrong on every node, so these reasons come before all others, and their words
begin as those of kube-scheduler do. A claim with the access mode ReadWriteOncePod refuses a second pod
wherever it is.
"""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, Final

import numpy as np

from berth_operator.scheduling import changes, node_table, queued_pods
from berth_operator.scheduling.constraints.constraint import Constraint, FailedPlacement, Rejection
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.volumes import needs
from berth_operator.scheduling.wording import Words, clipped, listed

ONCE: Final = "ReadWriteOncePod"


def in_use(query: Query) -> Iterator[str]:
    """Yield the claims that only one pod may use, and that another one uses."""
    volumes = query.inventory.volumes
    for one in query.signature.demand.claims:
        # The claim of an ephemeral volume has one pod by its name.
        claim = volumes.claims.get(one.key) if not one.owned_by else None
        if claim is not None and ONCE in claim.access_modes and volumes.is_used(one.key):
            yield claim.name


def feasible(query: Query) -> node_table.Mask:
    """Return all nodes, or none."""
    fault = needs.of(query.inventory.volumes, query.signature.demand.claims).fault
    return np.full(query.node_count, fault is None and not any(in_use(query)), dtype=np.bool_)


def unresolvable(query: Query) -> Iterator[Rejection]:
    """Yield the same rejection for all nodes, if a claim has a fault."""
    if fault := needs.of(query.inventory.volumes, query.signature.demand.claims).fault:
        yield Rejection(np.ones(query.node_count, dtype=np.bool_), *fault)


def resolvable(query: Query) -> Iterator[Rejection]:
    """Yield the same rejection for all nodes, if another pod has a claim to itself."""
    for name in in_use(query):
        yield Rejection(np.ones(query.node_count, dtype=np.bool_), Reason.CLAIM_IN_USE, name)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DropClaims(changes.Change):
    """The pod does without some of its claims."""

    precedence: ClassVar = changes.Precedence.DROP_CONDITION
    claims: tuple[facts.PodClaim, ...]

    def apply(self, scenario: changes.Scenario) -> changes.Scenario:
        """Return the scenario in which the pod does not use the claims."""
        kept = tuple(one for one in scenario.demand.claims if one not in self.claims)
        return dataclasses.replace(scenario, demand=dataclasses.replace(scenario.demand, claims=kept))

    def clause(self) -> str:
        """Return what comes after "would fit if" in an explanation."""
        word = "claim" if len(self.claims) == 1 else "claims"
        return f"it did not use the {word} {listed(one.name for one in self.claims)}"


def dropped(failed: FailedPlacement, names: Iterator[str]) -> Iterator[changes.ProposedChange]:
    """Propose to drop these claims, if any, where nothing else keeps the pod from some nodes."""
    found = frozenset(names)
    claims = tuple(one for one in failed.query.signature.demand.claims if one.name in found)
    if claims and failed.rows_blocked_by_this_alone():
        yield changes.ProposedChange([DropClaims(claims=claims)], is_prerequisite=True)


def _named(before: str, after: str) -> Words:
    """Return words that name a claim, and count no nodes: it is the same for all of them."""
    return lambda _nodes, _pod, detail: f'{before} "{clipped(detail)}"{after}'


def _unbound(_nodes: int, _pod: queued_pods.PodInfo, detail: str) -> str:
    return f'pod has unbound immediate PersistentVolumeClaims (persistentvolumeclaim "{clipped(detail)}")'


CLAIM: Final = "persistentvolumeclaim"
CONSTRAINT = Constraint(
    applies_to=lambda signature: bool(signature.demand.claims),
    feasible=feasible,
    unresolvable=unresolvable,
    resolvable=resolvable,
    words={
        Reason.CLAIMS_UNREAD: lambda *_: "the claims of pods have not been read from the API server yet",
        Reason.CLAIM_MISSING: _named(CLAIM, " not found"),
        Reason.CLAIM_NOT_MADE: _named(f"waiting for ephemeral volume controller to create the {CLAIM}", ""),
        Reason.CLAIM_UNREADABLE: _named(CLAIM, " says more in its selector than Berth reads"),
        Reason.CLAIM_LOST: _named(CLAIM, " bound to non-existent persistentvolume"),
        Reason.CLAIM_DELETED: _named(CLAIM, " is being deleted"),
        Reason.CLAIM_NOT_OWNED: _named(CLAIM, " was not created for this pod (pod is not owner)"),
        Reason.CLAIM_UNBOUND: _unbound,
        Reason.CLAIM_IN_USE: _named(
            CLAIM, " has the access mode ReadWriteOncePod and is already in use by another pod"
        ),
        Reason.VOLUME_MISSING: _named(CLAIM, " bound to non-existent persistentvolume"),
    },
    brief={
        Reason.CLAIMS_UNREAD: "claims not read yet",
        Reason.CLAIM_MISSING: "claim not found",
        Reason.CLAIM_NOT_MADE: "claim not created yet",
        Reason.CLAIM_UNREADABLE: "claim not readable",
        Reason.CLAIM_LOST: "claim lost",
        Reason.CLAIM_DELETED: "claim is being deleted",
        Reason.CLAIM_NOT_OWNED: "claim of another owner",
        Reason.CLAIM_UNBOUND: "claim not bound",
        Reason.CLAIM_IN_USE: "claim in use",
        Reason.VOLUME_MISSING: "volume not found",
    },
)
