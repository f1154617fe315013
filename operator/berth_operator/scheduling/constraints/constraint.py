"""What a constraint is: one check that a node must pass, with its reasons and all that is known of them.

The search asks for the nodes that are `able`: those that pass. Where none is left, the reason of a node
is its first objection. The `permanent` objections of all constraints come first, which stay even if all
pods of the node end, then the `transient` ones, which may go when a pod ends: so a reason that waiting
cannot lift is given before one that it can. Gaps say how near a node comes. `what_if` tries relaxations,
which are changes of the pod, and remedies, which are changes of a node.
"""

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from berth_operator.scheduling import node_table, questions
from berth_operator.scheduling.changes import Option, Scenario
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.scheduling.wording import Words


class DependsOn(enum.Enum):
    """What the answer of a node depends on: when that changes, remembered scores are void."""

    NODE = "the node itself and the pods on it"
    CLUSTER = "pods on other nodes, too"


class Objection(NamedTuple):
    """Nodes that refuse, and why; `never` if they would refuse even with no pods and all devices healthy."""

    nodes: node_table.Mask
    reason: Reason
    detail: str = ""
    never: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class FailedPlacement:
    """A pod for which no node was found: its request, the nodes that were asked, and what some of them lack.

    `only_blocked_here` returns the nodes that pass the filters of all other constraints.
    """

    request: requests.Request
    query: Query
    shortfalls: Sequence[allocator.Shortfall]
    only_blocked_here: Callable[[], list[int]]


def nothing(*_: object) -> tuple[()]:
    """Return no objection, no gap and no change."""
    return ()


def always(_: questions.Question) -> bool:
    """Return that a constraint is part of every question."""
    return True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """One check that a node must pass.

    `applies_to` is whether a question has the constraint at all. `able` is the mask of the nodes that pass;
    without it only a search on the node itself shows whether it does. `words` are what a reason is called
    in a sentence, `brief` in a table.
    """

    name: str
    applies_to: Callable[[questions.Question], bool] = always
    able: Callable[[Query], node_table.Mask] | None = None
    permanent: Callable[[Query], Iterable[Objection]] = nothing
    transient: Callable[[Query], Iterable[Objection]] = nothing
    gaps: Callable[[Query], Iterable[node_table.Scores]] = nothing
    relaxations: Callable[[FailedPlacement], Iterable[Option]] = nothing
    remedies: Callable[[Scenario, allocator.Shortfall | None], Iterable[Option]] = nothing
    depends_on: DependsOn = DependsOn.NODE
    words: Mapping[Reason, Words]
    brief: Mapping[Reason, str]
