"""What a search remembers of its questions: scores of all nodes, closer looks, and nodes that took too long.

How much memory that takes is counted roughly, so that the search can forget the oldest.
"""

import collections
import dataclasses
from collections.abc import Collection, Hashable
from typing import Final

from berth_operator.scheduling import decisions, node_table, questions

BYTES_A_THING: Final = 128  # Of what pods name.
BYTES_A_NODE: Final = 16  # Of a score and a slot.
BYTES_A_REASON: Final = 160  # Of what a closer look showed of a node.
BYTES_A_KIND: Final = 4096  # Of what nodes that are alike have in common.
MOST_KINDS: Final = 32
# Of how many questions, and of each, how many nodes are remembered as slow.
MOST_HARD: Final = 256
MOST_SLOW: Final = 64

IMPOSSIBLE: Final = -1.0  # Below every score.

Why = tuple[decisions.Reason, str]
Aside = tuple[node_table.Numbers, node_table.Scores]  # Nodes by their places, and their scores.


@dataclasses.dataclass(slots=True)
class Answer:
    """Scores and slots of all nodes, in the order of their names, true as of a version of the columns."""

    score: node_table.Scores
    slot: node_table.Numbers
    version: int
    layout: int
    slots: bool = False  # Whether a simple share was asked, so that `slot` means something.
    closer: dict[int, Why] = dataclasses.field(default_factory=dict)
    alike: dict[Hashable, Why] = dataclasses.field(default_factory=dict)  # The same by what it depends on.

    def set_aside(self, places: node_table.Numbers) -> Aside:
        """Remove some nodes, and return what `put_back` needs to undo that."""
        aside = places, self.score[places]
        self.score[places] = IMPOSSIBLE
        return aside

    def put_back(self, aside: Aside) -> None:
        """Put nodes back that were set aside; none of them was asked meanwhile."""
        places, scores = aside
        self.score[places] = scores

    def bytes(self, question: questions.Question) -> int:
        """Return roughly how much memory an answer and its question take."""
        reasons = BYTES_A_REASON * len(self.closer) + BYTES_A_KIND * len(self.alike)
        return BYTES_A_THING * question.size + BYTES_A_NODE * len(self.score) + reasons


class SlowNodes:
    """Which nodes took all that a node is given, and gave no answer: they are asked last the next time.

    Unlike an answer this outlasts changes of a node. Otherwise one whose devices are hard to search,
    and change all the time, would take the time of a pod again and again, and no other node were asked.
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
        """Return the nodes that are asked last."""
        return self._names.get(question, {}).keys() if self._names else ()
