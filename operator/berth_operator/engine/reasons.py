"""What is said of a pod that waits: one sentence, worked out closely where there is time.

The counts of a failing decision are cheap and always there; looking closely at nodes and
trying what would help takes milliseconds, so only a few pods a round get that, and only
when what is wrong with them has changed. The others get the counts in words, and the
close look when their turn comes.
"""

import dataclasses
from typing import Final

from berth_operator.engine import ledger
from berth_operator.scheduling import backlog, decisions, explain

CLOSE_LOOKS: Final = 2  # A round; each may take some milliseconds.


@dataclasses.dataclass(frozen=True, slots=True)
class Said:
    """What was said of a pod, of which counts, and whether it was worked out closely."""

    counts: tuple[decisions.Count, ...]
    message: str
    closely: bool


class Reasons:
    """Finds the words, and remembers them while nothing changes."""

    def __init__(self, book: ledger.Ledger) -> None:
        self._book = book
        self._said: dict[str, Said] = {}
        self._looks = CLOSE_LOOKS

    def new_round(self) -> None:
        """Allow some close looks again, and forget the pods that wait no more."""
        self._looks = CLOSE_LOOKS
        if len(self._said) > 2 * len(self._book.waiting) + 64:
            self._said = {uid: said for uid, said in self._said.items() if uid in self._book.waiting}

    def said(self, candidate: backlog.Candidate) -> str:
        """Repeat what was last said of a pod; nothing if it was not decided for yet."""
        if candidate.faults:
            return explain.sentence(decisions.Reject(candidate.uid, candidate.faults), candidate)
        said = self._said.get(candidate.uid)
        return said.message if said is not None else ""

    def sentence(self, candidate: backlog.Candidate, answer: decisions.Wait | decisions.Reject) -> str:
        """Say why a pod does not fit."""
        if isinstance(answer, decisions.Reject):
            return explain.sentence(answer, candidate)
        said = self._said.get(candidate.uid)
        if said is None or said.counts != answer.counts or not (said.closely or not self._looks):
            said = self._said[candidate.uid] = self._work_out(candidate, answer)
        return said.message

    def _work_out(self, candidate: backlog.Candidate, answer: decisions.Wait) -> Said:
        if not self._looks:
            return Said(answer.counts, explain.brief(answer.counts, candidate), closely=False)
        self._looks -= 1
        told = explain.explain(self._book.places, candidate, rules=self._book.rules)
        return Said(answer.counts, explain.sentence(told, candidate), closely=True)
