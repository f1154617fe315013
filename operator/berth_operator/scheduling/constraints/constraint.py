"""What a constraint is: one check that a node must pass, as a Filter plugin of kube-scheduler is.

The search asks for the nodes that are `feasible`: those that pass. `unresolvable` rejections stay until the
Node, its agent or the pod changes. `resolvable` ones may disappear while these stay as they are: when
another pod ends or a device recovers. Where no node is left, the reason of each is its first rejection, and
the unresolvable ones of all constraints come first: so what waiting cannot cure is reported before what it
may. A `Query` is a signature and the rows of some nodes; a mask that answers it has one entry for each of
these. Gaps say how near a node comes. `what_if` tries relaxations, which are changes of the pod, and
remedies, which are changes of a node. A `Scenario` is the pod and one node with all that is on it, or the
pod alone.
"""

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from berth_operator.scheduling import node_table, signatures
from berth_operator.scheduling.changes import ProposedChange, Scenario
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.scheduling.wording import Words


class DependsOn(enum.Enum):
    """What the answer of a node depends on: when a node changes, what is remembered of it is void.

    What depends on anything else than the node is asked anew in each decision.
    """

    NODE = "the node itself and the pods on it"
    CLUSTER = "other nodes, too"  # Preferences only.
    OTHER_PODS = "which pods are on other nodes"  # Constraints only.


class Rejection(NamedTuple):
    """Nodes that are rejected, and why; `never_fits` if what they are made of cannot suffice.

    Such a node could not take the pod even with no pods, faults, taints or cordon. A taint, a cordon or a
    silent agent is unresolvable, because no pod's end lifts it, but does not make a node one that never fits.
    """

    nodes: node_table.Mask
    reason: Reason
    detail: str = ""
    never_fits: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class FailedPlacement:
    """A pod for which no node was found: its request, the nodes that were asked, and what some of them lack.

    `rows_blocked_by_this_alone` returns the rows of the nodes that this constraint alone blocks. Where a
    single node is queried it returns that node, whatever else blocks it: there, changes may be combined.
    """

    request: requests.DeviceRequest
    query: Query
    shortfalls: Sequence[allocator.Shortfall]
    rows_blocked_by_this_alone: Callable[[], list[int]]


Filter = Callable[[Query], node_table.Mask]  # Returns the nodes that pass.


def nothing(*_: object) -> tuple[()]:
    """Return no rejection, no gap and no change."""
    return ()


def always(_: signatures.Signature) -> bool:
    """Return that a constraint applies to every pod."""
    return True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """One check that a node must pass.

    `applies_to` is whether pods with a signature have the constraint at all. `only_device_pods_lift_it` means
    that the end of a pod without devices never lifts it, though that of others may (`resolvable`). `feasible`
    is the mask of the nodes that pass; it is None where the filter of another constraint, or a device search,
    rejects all that do not. `words` make the clause of a reason from the number of nodes, the pod and the
    detail; `brief` is what a table calls it.
    """

    applies_to: Callable[[signatures.Signature], bool] = always
    feasible: Filter | None = None
    unresolvable: Callable[[Query], Iterable[Rejection]] = nothing
    resolvable: Callable[[Query], Iterable[Rejection]] = nothing
    gaps: Callable[[Query], Iterable[node_table.Scores]] = nothing
    relaxations: Callable[[FailedPlacement], Iterable[ProposedChange]] = nothing
    remedies: Callable[[Scenario, allocator.Shortfall | None], Iterable[ProposedChange]] = nothing
    depends_on: DependsOn = DependsOn.NODE
    only_device_pods_lift_it: bool = False
    words: Mapping[Reason, Words]
    brief: Mapping[Reason, str]
