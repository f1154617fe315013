"""Events of pods whose kubelet gave them other cards than their binds promised."""

from collections.abc import Callable
from typing import Final

from berth_operator.engine.ledger import Ledger
from berth_operator.kube import events

REASON: Final = "GivenOtherwise"
MOST_NAMED: Final = 8


class SwapEvents:
    """Records one Event for each such pod, and another when it has still other cards."""

    def __init__(self, record: Callable[[events.Event], None]) -> None:
        self._record = record
        self._told: dict[str, frozenset[str]] = {}  # The cards, by the uid of the pod.

    def report(self, ledger: Ledger) -> None:
        """Record what has changed since the last time."""
        found = dict(ledger.given_otherwise.all())
        for uid, cards in found.items():
            if self._told.get(uid) != cards and (hold := ledger.inventory.hold(uid)) is not None:
                namespace, _, name = hold.title.partition("/")
                pod = events.InvolvedObject(namespace, name, uid)
                self._record(events.Event(pod, REASON, _sentence(cards, hold.node), warning=True))
        self._told = found


def _sentence(cards: frozenset[str], node: str) -> str:
    named = ", ".join(sorted(cards)[:MOST_NAMED])
    more = f" and {len(cards) - MOST_NAMED} more" if len(cards) > MOST_NAMED else ""
    return (
        f"The kubelet of {node} gave it {named}{more} in place of the cards of its"
        " allocation. Until it ends, Berth gives out neither these nor those."
    )
