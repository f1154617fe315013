"""What a search remembers of a question: scores, why nodes refused, and which nodes took too long.

How much memory that takes is counted roughly, so that the search can forget the oldest.
"""

import collections
import dataclasses
from collections.abc import Collection, Hashable
from typing import Final

from berth_operator.scheduling import decisions, node_table, questions

BYTES_A_THING: Final = 128  # Of what pods name.
BYTES_A_NODE: Final = 16  # Of a score and a slot.
BYTES_A_REASON: Final = 160
BYTES_A_KIND: Final = 4096  # Of all that the answers of nodes of a kind depend on.
MOST_KINDS: Final = 32
# Of how many questions, and of each, how many nodes are remembered as slow.
MOST_HARD: Final = 256
MOST_SLOW: Final = 64

IMPOSSIBLE: Final = -1.0  # Below every score.

Why = tuple[decisions.Reason, str]
Hidden = tuple[node_table.Numbers, node_table.Scores]  # Nodes by their positions, and their scores.


@dataclasses.dataclass(slots=True)
class Answer:
    """Scores and slots of all nodes, in the order of their names, as of a version of the node table.

    `whys` has why nodes refused that were searched, by row; `whys_by_kind` the same by all that it
    depends on.
    """

    score: node_table.Scores
    slot: node_table.Numbers
    version: int
    layout: int
    slots: bool = False  # Whether a simple share was asked, so that `slot` means something.
    whys: dict[int, Why] = dataclasses.field(default_factory=dict)
    whys_by_kind: dict[Hashable, Why] = dataclasses.field(default_factory=dict)

    def hide(self, positions: node_table.Numbers) -> Hidden:
        """Leave some nodes out, until `show` is given what this returns."""
        hidden = positions, self.score[positions]
        self.score[positions] = IMPOSSIBLE
        return hidden

    def show(self, hidden: Hidden) -> None:
        """Let hidden nodes be found again; none of them was searched meanwhile."""
        positions, scores = hidden
        self.score[positions] = scores

    def bytes(self, question: questions.Question) -> int:
        """Return roughly how much memory an answer and its question take."""
        reasons = BYTES_A_REASON * len(self.whys) + BYTES_A_KIND * len(self.whys_by_kind)
        return BYTES_A_THING * question.size + BYTES_A_NODE * len(self.score) + reasons


class SlowNodes:
    """Which nodes used up their part of the effort without an answer: they are searched last the next time.

    Unlike an answer this outlasts changes of a node. Otherwise a node whose devices are hard to search
    and change all the time would take the time of a pod again and again, and no other would be searched.
    """

    def __init__(self) -> None:
        self._names: collections.OrderedDict[questions.Question, dict[str, None]] = collections.OrderedDict()

    def note(self, question: questions.Question, name: str, *, slow: bool) -> None:
        """Record whether a node gave no answer in time."""
        if not slow:
            if self._names:
                self._names.get(question, {}).pop(name, None)
            return
        names = self._names.setdefault(question, {})
        self._names.move_to_end(question)
        names.pop(name, None)
        names[name] = None
        if len(names) > MOST_SLOW:
            del names[next(iter(names))]
        if len(self._names) > MOST_HARD:
            self._names.popitem(last=False)

    def of(self, question: questions.Question) -> Collection[str]:
        """Return the nodes that are searched last."""
        return self._names.get(question, {}).keys() if self._names else ()
