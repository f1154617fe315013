"""What a constraint is: one reason why nodes refuse a pod, with all that is known of it.

The search asks for the nodes that are `able`. Where none is left, the reason of a node is its
first objection: the `standing` objections of all constraints come first, which hold however
little is used, then the `passing` ones. So a reason that no waiting can cure is given before
one that waiting can. Gaps say how near a node comes. `what_if` tries relaxations of the pod
and remedies on a node.
"""

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from berth_operator.scheduling import node_table, questions
from berth_operator.scheduling.changes import Option, Situation
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.scheduling.wording import Words

Why = tuple[Reason, str]  # A reason, and its detail: the name of a resource, the key of a taint ...


class Scope(enum.Enum):
    """What the answer of a node depends on: when that changes, remembered answers are void."""

    NODE = "the node itself and the pods on it"
    CLUSTER = "pods on other nodes, too"


class Objection(NamedTuple):
    """Nodes that refuse, and why; `never` where they would refuse with nothing used and nothing wrong."""

    nodes: node_table.Mask
    reason: Reason
    detail: str = ""
    never: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """A pod that found no place: its request, the nodes that were asked, and what some of them lack.

    `alone` returns the nodes that only this constraint keeps the pod from, as far as sums can tell.
    """

    request: requests.Request
    query: Query
    shortfalls: Sequence[allocator.Shortfall]
    alone: Callable[[], list[int]]


def nothing(*_: object) -> tuple[()]:
    """Return no objection, no gap and no change."""
    return ()


def always(_: questions.Question) -> bool:
    """Return that a constraint is part of every question."""
    return True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """One reason why nodes refuse a pod.

    `asked` is whether a question has the constraint at all. `able` are the nodes that meet it; without
    that only a search on the node itself shows whether it does. `words` are what a reason is called in
    a sentence, `brief` in a table.
    """

    name: str
    asked: Callable[[questions.Question], bool] = always
    able: Callable[[Query], node_table.Mask] | None = None
    standing: Callable[[Query], Iterable[Objection]] = nothing
    passing: Callable[[Query], Iterable[Objection]] = nothing
    gaps: Callable[[Query], Iterable[node_table.Scores]] = nothing
    relaxations: Callable[[Attempt], Iterable[Option]] = nothing
    remedies: Callable[[Situation, allocator.Shortfall | None], Iterable[Option]] = nothing
    depends_on: Scope = Scope.NODE
    words: Mapping[Reason, Words]
    brief: Mapping[Reason, str]
