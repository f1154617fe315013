"""Which nodes a pod's selector, affinity and tolerations accept, remembered until a node changes."""

from collections.abc import Sequence
from typing import Final

from berth_operator.scheduling import node_info
from berth_operator.scheduling.nodes import facts, labels

MOST_PLACES: Final = 1024  # Different wheres remembered at once, and how much of memory they may take.
MOST_PLACES_BYTES: Final = 32 << 20
BYTES_A_THING: Final = 128  # Of what pods name.


class PlaceMemory:
    """The answers of all nodes to the wheres of pods."""

    def __init__(self) -> None:
        self._answers: dict[facts.Where, node_info.PlaceReasons] = {}
        self._bytes = 0
        self._labels: labels.Labels | None = None

    def ask(self, infos: Sequence[node_info.NodeInfo | None], where: facts.Where) -> node_info.PlaceReasons:
        """Return what these nodes say, which are the same as the last time unless they were forgotten."""
        found = self._answers.get(where)
        if found is None:
            if len(self._answers) >= MOST_PLACES or self._bytes > MOST_PLACES_BYTES:
                self.forget()
            if self._labels is None:
                self._labels = labels.Labels([info.node if info else None for info in infos])
            found = self._answers[where] = node_info.place_reasons(infos, where, self._labels)
            self._bytes += found.code.nbytes + BYTES_A_THING * where.size
        return found

    def forget(self) -> None:
        """Forget all answers, because a node has changed."""
        self._answers.clear()
        self._bytes = 0
        self._labels = None
