"""The search for a place: which node, and then which of its devices.

All nodes are asked at once in numpy whether they could take the pod and how good they
would be; the best is then looked at closely by the allocator. What was worked out for a
question is remembered, and the next pod with the same question only has it worked out
anew for the nodes that changed since: that is what keeps a decision short however many
nodes there are. Remembered scores stand in the order of the nodes' names, so that the
first of several equal ones is the right one.
"""

import collections
import dataclasses
from collections.abc import Collection, Hashable
from typing import Final

import numpy as np

from berth_operator.scheduling import (
    decisions,
    demand_model,
    node_table,
    questions,
    search_memory,
    strategies,
)
from berth_operator.scheduling.constraints import registry
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.devices import (
    allocator,
    device_view,
    equivalence,
    requests,
    scopes,
)
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Policy, Weights
from berth_operator.scheduling.strategies import score_inputs

# Most pods need no search on a node. For the others its steps are counted, some twenty thousand a second.
STEPS_A_NODE: Final = 400
REMEMBERED_BYTES: Final = 64 << 20
MOST_REMEMBERED: Final = 2048

Answer = search_memory.Answer
Why = search_memory.Why
Question = questions.Question
ask = questions.ask

Key = tuple[Question, Policy, demand_model.DemandModel]


class Search:
    """Finds places in one inventory, and remembers what it worked out."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._answers: collections.OrderedDict[Key, Answer] = collections.OrderedDict()
        self._slow = search_memory.SlowNodes()
        self._bytes = 0  # About what all answers take.

    def place(
        self,
        request: requests.Request,
        demand: facts.Demand,
        *,
        policy: Policy,
        effort: allocator.Effort | None = None,
        spared: Collection[str] = (),
        question: Question | None = None,
    ) -> decisions.Placement | None:
        """Find the best node and devices; a preferred scope is tried as a condition first, then wider ones.

        Where `effort` is spent, nodes are left that were not looked at: the next time goes on with them.
        The nodes in `spared` are left to others. `question` is what both ask together, where that is known.
        """
        effort = allocator.Effort() if effort is None else effort
        *narrow, _ = scopes.ladder(request.grouping)
        for scope in narrow:
            grouping = dataclasses.replace(request.grouping, scope=scope, required=True)
            closer = dataclasses.replace(request, grouping=grouping)
            found = self._place(closer, ask(closer, demand), policy, effort, spared)
            if found is not None:
                return found
        return self._place(request, question or ask(request, demand), policy, effort, spared)

    def may_place(self, question: Question, policy: Policy, names: Collection[str]) -> bool:
        """Whether one of these nodes may have a place, as far as is known without another look at it."""
        score = self._answer(question, policy).score
        return bool((score[self._places(names)] != search_memory.IMPOSSIBLE).any())

    def _places(self, names: Collection[str]) -> node_table.Numbers:
        """Return the places of some nodes in the order of names, without those that are not there."""
        index = self.inventory.index
        rows = np.array([index[name] for name in names if name in index], dtype=np.int64)
        places: node_table.Numbers = self.inventory.rank()[rows]
        return places

    def _place(
        self,
        request: requests.Request,
        question: Question,
        policy: Policy,
        effort: allocator.Effort,
        spared: Collection[str],
    ) -> decisions.Placement | None:
        answer = self._answer(question, policy)
        last = self._slow.of(question)
        kept = answer.set_aside(self._places(spared)) if spared else None
        slow = answer.set_aside(self._places(last)) if last else None
        found, asked = self._ask_nodes(request, question, answer, effort)
        if slow is not None:
            answer.put_back(slow)
            if found is None and not effort.spent:
                found, _ = self._ask_nodes(request, question, answer, effort, asked=asked)
        if kept is not None:
            answer.put_back(kept)
        return found

    def _ask_nodes(
        self,
        request: requests.Request,
        question: Question,
        answer: Answer,
        effort: allocator.Effort,
        *,
        asked: int = 0,
    ) -> tuple[decisions.Placement | None, int]:
        """Ask one node after the other, the best first, and count those that had to look closely."""
        while len(answer.score) and (question.need.simple or not effort.spent):
            best = int(answer.score.argmax())
            if answer.score[best] == search_memory.IMPOSSIBLE:
                break
            info = self.inventory.by_rank(best)
            view = info.view()
            kind = None if question.need.simple else equivalence.of(view, request)
            why = answer.alike.get(kind) if kind is not None else None
            if why is None:
                first = int(answer.slot[best]) if answer.slots else None
                grants = _ask_node(view, request, first, effort)
                if not isinstance(grants, allocator.Shortfall):
                    self._slow.note(question, info.name, slow=False)
                    return decisions.Placement(info.name, grants), asked
                asked += 1
                if _cut_short(question, effort, asked):
                    break
                why = grants.reason, grants.detail
                self._slow.note(question, info.name, slow=grants.reason is decisions.Reason.UNDECIDED)
                self._remember(answer, kind, why)
            # Only a closer look could tell; it holds until the node changes.
            answer.score[best] = search_memory.IMPOSSIBLE
            answer.closer[info.row] = why
            self._bytes += search_memory.BYTES_A_REASON
            effort.spend(1)
        return None, asked

    def _remember(self, answer: Answer, kind: Hashable, why: Why) -> None:
        """Remember what a node has said for those that are alike; of few kinds, for each is large."""
        if kind is not None and len(answer.alike) < search_memory.MOST_KINDS:
            answer.alike[kind] = why
            self._bytes += search_memory.BYTES_A_KIND

    def searched(self, question: Question, policy: Policy) -> dict[int, Why]:
        """Return what a closer look showed of nodes that seemed able, by row."""
        answer = self._answers.get((question, policy, self.inventory.demand_model()))
        return dict(answer.closer) if answer is not None else {}

    def searched_now(self, question: Question, policy: Policy) -> dict[int, Why]:
        """Return what closer looks showed and still holds, by row, without looking at any node again."""
        self._answer(question, policy)
        return self.searched(question, policy)

    # ------------------------------------------------------------ remembering

    def _answer(self, question: Question, policy: Policy) -> Answer:
        inventory, key = self.inventory, (question, policy, self.inventory.demand_model())
        answer = self._answers.get(key)
        changed = None
        if answer is not None and answer.layout == inventory.layout:
            changed = inventory.table.changed_since(answer.version)
        if changed and registry.cluster_wide(question):
            changed = None
        if answer is None or changed is None or len(changed) > inventory.size // 2:
            self._forget(key)
            answer = self._answers[key] = self._whole(question, policy)
            self._bytes += answer.bytes(question)
            while len(self._answers) > 1 and self._crowded:
                self._forget(next(iter(self._answers)))
        elif changed:
            self._fill(answer, _rows(set(changed)), question, policy)
        self._answers.move_to_end(key)
        return answer

    @property
    def _crowded(self) -> bool:
        return len(self._answers) > MOST_REMEMBERED or self._bytes > REMEMBERED_BYTES

    def _forget(self, key: Key) -> None:
        answer = self._answers.pop(key, None)
        if answer is not None:
            self._bytes -= answer.bytes(key[0])

    def _whole(self, question: Question, policy: Policy) -> Answer:
        size = self.inventory.size
        answer = Answer(np.empty(size), np.zeros(size, dtype=np.int64), 0, self.inventory.layout)
        if size:
            self._fill(answer, slice(0, size), question, policy)
        return answer

    def _fill(self, answer: Answer, rows: node_table.Rows, question: Question, policy: Policy) -> None:
        inventory = self.inventory
        places = inventory.rank()[rows]
        ranking, able = rank(inventory, rows, question, policy)
        answer.score[places] = np.where(able, ranking.score, search_memory.IMPOSSIBLE)
        if answer.closer:
            before = len(answer.closer)
            for row in np.arange(inventory.size)[rows].tolist():
                answer.closer.pop(row, None)
            self._bytes -= search_memory.BYTES_A_REASON * (before - len(answer.closer))
        if ranking.slot is not None:
            answer.slots = True
            answer.slot[places] = ranking.slot
        answer.version = inventory.table.version


def _rows(changed: set[int]) -> node_table.Rows:
    """Return rows as what selects them; where they lie side by side that is a slice, which copies nothing."""
    first, last = min(changed), max(changed)
    if last - first + 1 == len(changed):
        return slice(first, last + 1)
    return np.array(sorted(changed), dtype=np.int64)


def _cut_short(question: Question, effort: allocator.Effort, asked: int) -> bool:
    """Return whether the no of a node means nothing, because others left it less than a node is given.

    A node that takes all the time there is for a pod is given up, or no other would ever be asked.
    """
    return effort.spent and not question.need.simple and not (asked == 1 and effort.late)


def _ask_node(
    view: device_view.View, request: requests.Request, first: int | None, effort: allocator.Effort
) -> tuple[decisions.Grant, ...] | allocator.Shortfall:
    """Ask the allocator; a simple request costs it no search, whatever was spent on others."""
    if request.need.simple:
        return allocator.place(view, request, first=first)
    part = effort.part(STEPS_A_NODE)
    grants = allocator.place(view, request, effort=part)
    effort.use(STEPS_A_NODE, part)
    return grants


def rank(
    inventory: Inventory, rows: node_table.Rows, question: Question, policy: Policy
) -> tuple[score_inputs.Ranking, node_table.Mask]:
    """Score these nodes, and tell which of them could take the pod as far as sums can tell."""
    query = Query(inventory, rows, question)
    able = registry.able(query)
    strategy = question.grouping.strategy or policy.strategy
    return strategies.STRATEGIES[strategy](score_input_of(query, policy.weights)), able


def score_input_of(query: Query, weights: Weights) -> score_inputs.ScoreInput:
    """Gather the numbers that a strategy sees."""
    inventory, question = query.inventory, query.question
    asked = dict(question.demand.amounts)
    return score_inputs.ScoreInput(
        table=inventory.table,
        rows=query.rows,
        need=question.need,
        fit=query.share_room,
        cpu=asked.get(facts.CPU, 0),
        node_memory=asked.get(facts.MEMORY, 0),
        model=inventory.demand_model(),
        scale=score_inputs.Scale(*inventory.scale()),
        weights=weights,
    )
