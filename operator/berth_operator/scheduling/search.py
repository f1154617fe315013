"""The search for a place: which node, and then which of its devices.

All nodes are filtered and scored at once in numpy; then the allocator chooses devices on the
best one. The scores of a question are remembered, and for the next pod with the same question
only the nodes that changed since are scored again: that keeps a decision short however many
nodes there are. Scores are kept in the order of the nodes' names, so that of equal scores the
first is the right one.
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
    """Finds places in one inventory, and remembers the scores of nodes."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._answers: collections.OrderedDict[Key, Answer] = collections.OrderedDict()
        self._slow = search_memory.SlowNodes()
        self._bytes = 0  # Of all answers, roughly.

    def place(
        self,
        request: requests.Request,
        demand: facts.Demand,
        *,
        policy: Policy,
        effort: allocator.Effort | None = None,
        excluded: Collection[str] = (),
        question: Question | None = None,
    ) -> decisions.Placement | None:
        """Return the best node and devices; a preferred scope is first tried as a condition, then wider ones.

        Where `effort` is spent, some nodes were not searched: the next call goes on with them. `question`
        is made of request and demand; a caller that has it passes it on.
        """
        effort = allocator.Effort() if effort is None else effort
        *narrow, _ = scopes.ladder(request.grouping)
        for scope in narrow:
            grouping = dataclasses.replace(request.grouping, scope=scope, required=True)
            closer = dataclasses.replace(request, grouping=grouping)
            found = self._place(closer, ask(closer, demand), policy, effort, excluded)
            if found is not None:
                return found
        return self._place(request, question or ask(request, demand), policy, effort, excluded)

    def may_place(self, question: Question, policy: Policy, names: Collection[str]) -> bool:
        """Whether one of these nodes may have a place, as far as is known without another search."""
        score = self._answer(question, policy).score
        return bool((score[self._positions(names)] != search_memory.IMPOSSIBLE).any())

    def _positions(self, names: Collection[str]) -> node_table.Numbers:
        """Return the positions of those of some nodes that exist, in the order of names."""
        index = self.inventory.index
        rows = np.array([index[name] for name in names if name in index], dtype=np.int64)
        positions: node_table.Numbers = self.inventory.rank()[rows]
        return positions

    def _place(
        self,
        request: requests.Request,
        question: Question,
        policy: Policy,
        effort: allocator.Effort,
        excluded: Collection[str],
    ) -> decisions.Placement | None:
        answer = self._answer(question, policy)
        slow = self._slow.of(question)
        hidden = answer.hide(self._positions(excluded)) if excluded else None
        postponed = answer.hide(self._positions(slow)) if slow else None
        found, searched = self._search_nodes(request, question, answer, effort)
        if postponed is not None:
            answer.show(postponed)
            if found is None and not effort.spent:
                found, _ = self._search_nodes(request, question, answer, effort, searched=searched)
        if hidden is not None:
            answer.show(hidden)
        return found

    def _search_nodes(
        self,
        request: requests.Request,
        question: Question,
        answer: Answer,
        effort: allocator.Effort,
        *,
        searched: int = 0,
    ) -> tuple[decisions.Placement | None, int]:
        """Return a place on the best node that has one, and how many nodes were searched for it."""
        while len(answer.score) and (question.need.simple or not effort.spent):
            best = int(answer.score.argmax())
            if answer.score[best] == search_memory.IMPOSSIBLE:
                break
            info = self.inventory.by_rank(best)
            view = info.view()
            kind = None if question.need.simple else equivalence.of(view, request)
            why = answer.whys_by_kind.get(kind) if kind is not None else None
            if why is None:
                first = int(answer.slot[best]) if answer.slots else None
                grants = _allocate(view, request, first, effort)
                if not isinstance(grants, allocator.Shortfall):
                    self._slow.note(question, info.name, slow=False)
                    return decisions.Placement(info.name, grants), searched
                searched += 1
                if _cut_short(question, effort, searched):
                    break
                why = grants.reason, grants.detail
                self._slow.note(question, info.name, slow=grants.reason is decisions.Reason.UNDECIDED)
                self._remember(answer, kind, why)
            # Only a search could show this; it holds until the node changes.
            answer.score[best] = search_memory.IMPOSSIBLE
            answer.whys[info.row] = why
            self._bytes += search_memory.BYTES_A_REASON
            effort.spend(1)
        return None, searched

    def _remember(self, answer: Answer, kind: Hashable, why: Why) -> None:
        """Remember why a node refused for all of its kind; of few kinds, because each is large."""
        if kind is not None and len(answer.whys_by_kind) < search_memory.MOST_KINDS:
            answer.whys_by_kind[kind] = why
            self._bytes += search_memory.BYTES_A_KIND

    def searched(self, question: Question, policy: Policy) -> dict[int, Why]:
        """Return why nodes that passed the filters refused when they were searched, by row."""
        answer = self._answers.get((question, policy, self.inventory.demand_model()))
        return dict(answer.whys) if answer is not None else {}

    def searched_now(self, question: Question, policy: Policy) -> dict[int, Why]:
        """Return the same as far as it still holds, without searching any node again."""
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
        positions = inventory.rank()[rows]
        ranking, able = rank(inventory, rows, question, policy)
        answer.score[positions] = np.where(able, ranking.score, search_memory.IMPOSSIBLE)
        if answer.whys:
            before = len(answer.whys)
            for row in np.arange(inventory.size)[rows].tolist():
                answer.whys.pop(row, None)
            self._bytes -= search_memory.BYTES_A_REASON * (before - len(answer.whys))
        if ranking.slot is not None:
            answer.slots = True
            answer.slot[positions] = ranking.slot
        answer.version = inventory.table.version


def _rows(changed: set[int]) -> node_table.Rows:
    """Return an index of these rows; of adjacent ones that is a slice, which copies nothing."""
    first, last = min(changed), max(changed)
    if last - first + 1 == len(changed):
        return slice(first, last + 1)
    return np.array(sorted(changed), dtype=np.int64)


def _cut_short(question: Question, effort: allocator.Effort, searched: int) -> bool:
    """Whether the refusal of a node means nothing, because others left it less effort than its due.

    A node that takes all the time there is for a pod is given up, or no other would ever be searched.
    """
    return effort.spent and not question.need.simple and not (searched == 1 and effort.late)


def _allocate(
    view: device_view.View, request: requests.Request, first: int | None, effort: allocator.Effort
) -> tuple[decisions.Grant, ...] | allocator.Shortfall:
    """Return devices of a node or why not; a simple request needs no effort, whatever others have spent."""
    if request.need.simple:
        return allocator.place(view, request, first=first)
    part = effort.part(STEPS_A_NODE)
    grants = allocator.place(view, request, effort=part)
    effort.use(STEPS_A_NODE, part)
    return grants


def rank(
    inventory: Inventory, rows: node_table.Rows, question: Question, policy: Policy
) -> tuple[score_inputs.Ranking, node_table.Mask]:
    """Return the scores of these nodes, and which of them could take the pod as far as sums can tell."""
    query = Query(inventory, rows, question)
    able = registry.able(query)
    strategy = question.grouping.strategy or policy.strategy
    return strategies.STRATEGIES[strategy](score_input_of(query, policy.weights)), able


def score_input_of(query: Query, weights: Weights) -> score_inputs.ScoreInput:
    """Return the numbers that a strategy sees."""
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
