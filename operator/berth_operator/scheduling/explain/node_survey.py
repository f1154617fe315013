"""What all nodes say to one pod, before any of them is looked at closely.

Three things must hold on a node: its place suits, its resources suffice, its devices do.
A NodeSurvey has a mask for each of the three over all rows, so that "only this one thing
stands in the way" is a question to masks. It also says which nodes could never take the
pod, and how near each of the others comes, as far as sums can tell: that decides which
few are worth a closer look.
"""

import dataclasses
import functools
from collections.abc import Hashable, Iterator
from typing import Final

import numpy as np

from berth_operator.scheduling import (
    decisions,
    node_info,
    node_table,
    questions,
    queued_pods,
    resources,
    search,
    tally,
)
from berth_operator.scheduling.decisions import Count, Reason
from berth_operator.scheduling.devices import allocator, device_view, equivalence, requests
from berth_operator.scheduling.explain import reach
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search

# Looking at a node has a price of its own, besides the steps of the search on it.
STEPS_TO_LOOK: Final = 20
# Of all the steps there are, this part may go into finding out which nodes fit, and why others do not.
PART_FOR_SURVEY: Final = 0.4

PLACES: Final = frozenset({Reason.UNSCHEDULABLE, Reason.TAINTED, Reason.SELECTOR_MISMATCH, Reason.NO_NODES})
NOTHING_THERE: Final = (Reason.NOT_PUBLISHED, Reason.NO_DEVICE)
STATES: Final = frozenset(reason for reason in node_table.STATES if reason is not None)


@dataclasses.dataclass(frozen=True)
class NodeSurvey:
    """What all nodes say, by row; masks and numbers are as long as the inventory has rows.

    `code` is the number of a node's reason in `whys`, of which the first is that there is none.
    """

    inventory: Inventory
    policy: Policy
    request: requests.Request
    demand: facts.Demand
    counts: tuple[Count, ...]
    whys: tuple[tally.Why | None, ...]
    code: node_table.Numbers
    known: node_table.Mask
    place: node_table.Mask
    room: node_table.Mask
    never: node_table.Mask
    gap: node_table.Scores
    effort: allocator.Effort

    @property
    def exhausted(self) -> bool:
        """Whether the steps for this pod are used up, so that whatever is tried now is given up."""
        return self.effort.left <= 0

    def row(self, at: int) -> node_info.Row:
        """Return a node in full."""
        info = self.inventory.rows[at]
        assert info is not None, "a node that spoke"  # noqa: S101
        return info

    def why(self, at: int) -> tally.Why:
        """Return the reason of a node that has one."""
        why = self.whys[int(self.code[at])]
        assert why is not None, "a node that refuses"  # noqa: S101
        return why

    def saying(self, among: frozenset[Reason]) -> node_table.Mask:
        """Return which nodes give one of these reasons."""
        codes = [code for code, why in enumerate(self.whys) if why is not None and why[0] in among]
        return np.isin(self.code, codes)

    @functools.cached_property
    def refusing(self) -> list[int]:
        """The rows of all nodes that refuse, by name."""
        found = np.flatnonzero(self.code)
        refusing: list[int] = found[np.argsort(self.inventory.rank()[found])].tolist()
        return refusing

    @functools.cached_property
    def remoteness(self) -> node_table.Numbers:
        """What a node would need: 0 for room, 1 for another state, 2 for other hardware."""
        remote: node_table.Numbers = np.where(self.never, 2, self.saying(PLACES | STATES))
        return remote

    def nearest(self, among: node_table.Mask | None = None) -> list[int]:
        """Put refusing nodes in order, the nearest first, those before others that need less of a change.

        One that was not fully evaluated may take the pod as it is, so it is no example of what is wrong.
        """
        there = (self.code > 0) & ~self.saying(frozenset({Reason.UNDECIDED}))
        found = np.flatnonzero(there if among is None else among & there)
        keys = (self.inventory.rank()[found], self.gap[found], self.remoteness[found])
        nearest: list[int] = found[np.lexsort(keys)].tolist()
        return nearest


def take(
    search: Search, candidate: queued_pods.Candidate, policy: Policy, effort: allocator.Effort
) -> NodeSurvey:
    """Ask all nodes; those that nobody has looked at when the effort is spent say that they are undecided."""
    inventory, request, demand = search.inventory, candidate.request, candidate.demand
    question = questions.ask(request, demand)
    reasons = tally.judge(inventory, question, search.learnt(question, policy))
    known = inventory.table.known[: inventory.size].copy()
    _look_again(reasons, inventory, candidate, known & (reasons.code == 0), effort)
    everything = inventory.everything
    return NodeSurvey(
        inventory,
        policy,
        request,
        demand,
        counts=reasons.counts(),
        whys=(None, *reasons.whys),
        code=reasons.code,
        known=known,
        place=known & (inventory.places(demand.where).code == 0),
        room=resources.room(inventory, everything, demand),
        never=never(inventory, everything, question),
        gap=gaps(inventory, everything, question),
        effort=effort,
    )


def _look_again(
    reasons: tally.NodeReasons,
    inventory: Inventory,
    candidate: queued_pods.Candidate,
    quiet: node_table.Mask,
    effort: allocator.Effort,
) -> None:
    """Look at the nodes that gave no reason, and write one down for those that should have."""
    request, rank = candidate.request, inventory.rank()
    left = set(np.flatnonzero(quiet).tolist())
    if request.need.simple or not request.need.asked:
        # One of them is looked at for all that are alike: this costs no search.
        patience = allocator.Effort(reach.NO_LIMIT, effort.expired)
        asking = reach.Inquiry(inventory, each=reach.NO_LIMIT, in_all=reach.NO_LIMIT, effort=patience)
        left -= set(asking.nodes(request, candidate.demand, quiet).nodes)
    most = int(effort.left * PART_FOR_SURVEY)
    mine = effort.part(most)
    alike: Alike = {}
    for at in sorted(left, key=lambda at: int(rank[at])):
        why = _asked(inventory, at, request, mine, alike)
        if why is not None:
            reasons.note(at, why)
    effort.use(most, mine)


Alike = dict[Hashable, tally.Why | None]  # What nodes have said, by what that depends on.


def _asked(
    inventory: Inventory, at: int, request: requests.Request, effort: allocator.Effort, alike: Alike
) -> tally.Why | None:
    """Ask one node for its reason, if it has one; where no effort is left it is not asked."""
    info = inventory.rows[at]
    if info is None or effort.left <= 0:
        return Reason.UNDECIDED, ""
    view = info.view()
    kind = equivalence.of(view, request)
    if kind is None or kind not in alike:
        found = look(view, request, effort)
        why = (found.reason, found.detail) if isinstance(found, allocator.Shortfall) else None
        if effort.spent or kind is None:
            return why
        alike[kind] = why
    effort.spend(1)
    return alike[kind]


def look(
    view: device_view.View, request: requests.Request, effort: allocator.Effort
) -> tuple[decisions.Grant, ...] | allocator.Shortfall:
    """Look at the devices of a node closely, as long as the search for a place does at most."""
    effort.spend(STEPS_TO_LOOK)  # From the first of these on time counts, what is read for it included.
    part = effort.part(search.STEPS_A_NODE)
    found = allocator.place(view, request, effort=part)
    effort.use(search.STEPS_A_NODE, part)
    return found


# ---------------------------------------------------------------- never, and how near


def never(inventory: Inventory, at: node_table.Rows, question: questions.Question) -> node_table.Mask:
    """Return which nodes could not take the pod with nothing used and nothing wrong, as far as sums tell."""
    table, need = inventory.table, question.need
    hopeless = np.zeros(table.height(at), dtype=np.bool_)
    for _, short in tally.never_enough(table, at, question.demand):
        hopeless |= short
    for pile in tally.piles(table, at, need):
        hopeless |= pile.in_all < pile.wanted
    if need.asked:
        hopeless |= np.isin(table.state[at], [node_table.STATES.index(one) for one in NOTHING_THERE])
    if tally.counted_asks(need):
        *_, (_, right) = tally.fitting_cards(inventory, at, question.conditions)
        for _, undivided in (("", right), *tally.undivided_cards(table, at, right)):
            hopeless |= node_table.count(undivided) < need.least
        for short in tally.too_small(table, at, need, right):
            hopeless |= short
    return hopeless


def gaps(inventory: Inventory, at: node_table.Rows, question: questions.Question) -> node_table.Scores:
    """Return for each node what part is missing of what it lacks most: 0 to 1, as far as sums can tell."""
    table = inventory.table
    gap = np.zeros(table.height(at))
    for name, amount in question.demand.amounts + question.demand.served:
        left = resources.left(table, at, name)
        gap = np.maximum(gap, np.where(left == node_table.ABSENT, 0, _lack(left, amount)))
    for pile in tally.piles(table, at, question.need):
        gap = np.maximum(gap, _lack(pile.left, pile.wanted))
    if asks := tally.counted_asks(question.need):
        for missing in _card_gaps(inventory, at, question, asks):
            gap = np.maximum(gap, missing)
    return gap


def _card_gaps(
    inventory: Inventory, at: node_table.Rows, question: questions.Question, asks: list[requests.Gpus]
) -> Iterator[node_table.Scores]:
    """Yield what part of the cards is missing for each ask; of what another contains no more is missing."""
    table = inventory.table
    *_, (_, right) = tally.fitting_cards(inventory, at, question.conditions)
    # Only where there is a card: one node with many makes the table wide for all.
    core, memory, total = (each[at][right] for each in (table.core, table.memory, table.total))
    for ask in requests.uncontained(asks):
        if ask.whole:
            free = node_table.count(right & table.whole[at]) - table.withheld[at]
            yield _lack(free, ask.count)
        else:
            wanted = total * ask.ratio // requests.WHOLE if ask.ratio else ask.memory
            lack = np.ones(right.shape)
            lack[right] = np.maximum(_lack(core, ask.core), _lack(memory, wanted))
            yield np.sort(lack, axis=1)[:, : ask.count].mean(axis=1)


def _lack(free: node_table.Numbers, wanted: node_table.Numbers | int) -> node_table.Scores:
    lack: node_table.Scores = np.clip(1 - free / np.maximum(wanted, 1), 0, 1)
    return np.where(np.asarray(wanted) > 0, lack, 0.0)
