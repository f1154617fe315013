"""What a constraint is: one reason why nodes refuse a pod, with all that is known of it.

The search asks for the nodes that are `able`. Where none is left, the objections are
asked in order: `standing` ones, which hold however little is used, of all constraints,
then `passing` ones, so that what no patience can cure is said first. The gaps tell how
near a node comes. Relaxations of the pod and remedies on a node are what `what_if` tries.
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

Why = tuple[Reason, str]


class Scope(enum.Enum):
    """What the answer of a node depends on, so that remembered answers are known to be void."""

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
    """A pod that found no place: what it asks of which nodes, and what a search on some of them showed.

    `alone` are the nodes that would take the pod but for this constraint, as far as sums can tell.
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

    Without `able`, only a search on the node itself tells. `words` and `brief` are what each reason is
    called in a sentence and in a table.
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
