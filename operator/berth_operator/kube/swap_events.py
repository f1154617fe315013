"""Events of pods whose kubelet gave them other cards than their binds promised."""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from berth_operator.engine.ledger import Ledger
from berth_operator.kube import events

REASON: Final = "GivenOtherwise"
MOST_NAMED: Final = 8
AGAIN_SECONDS: Final = 600.0


class Told(NamedTuple):
    """Of which cards a pod was told, and when."""

    cards: frozenset[str]
    at: float


NEVER: Final = Told(frozenset(), -math.inf)


class SwapEvents:
    """Records one Event for each such pod, and later another when it has still other cards.

    Not more often than once in ten minutes, for an agent may say something else all the time.
    """

    def __init__(self, record: Callable[[events.Event], None]) -> None:
        self._record = record
        self._told: dict[str, Told] = {}  # By the uid of the pod.

    def report(self, ledger: Ledger, now: float) -> None:
        """Record what has changed since the last time."""
        found = dict(ledger.given_otherwise.all())
        self._told = {
            uid: told for uid, told in self._told.items() if uid in found or now - told.at < AGAIN_SECONDS
        }
        for uid, cards in found.items():
            told, hold = self._told.get(uid, NEVER), ledger.inventory.hold(uid)
            if told.cards != cards and now - told.at >= AGAIN_SECONDS and hold is not None:
                namespace, _, name = hold.title.partition("/")
                pod = events.InvolvedObject(namespace, name, uid)
                self._record(events.Event(pod, REASON, _sentence(cards, hold.node), warning=True))
                self._told[uid] = Told(cards, now)


def _sentence(cards: frozenset[str], node: str) -> str:
    named = ", ".join(sorted(cards)[:MOST_NAMED])
    more = f" and {len(cards) - MOST_NAMED} more" if len(cards) > MOST_NAMED else ""
    return (
        f"The kubelet of {node} gave it {named}{more} in place of the cards of its"
        " allocation. Until it ends, Berth gives out neither these nor those."
    )
