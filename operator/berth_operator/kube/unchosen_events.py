"""Events of pods that ask for Berth's cards and were bound by another scheduler, which chose none for them.

Nodes list Berth's resources, so any scheduler can count them, and the kubelet takes such a pod. But its
containers are given nothing: they see no card, or whatever their images say.
"""

from collections.abc import Callable
from typing import Final

from berth_crds import names
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import events
from berth_operator.translate import unknown_keys

REASON: Final = "NoCardsChosen"


class UnchosenEvents:
    """Records one Event for each such pod."""

    def __init__(self, record: Callable[[events.Event], None]) -> None:
        self._record = record
        self._told: frozenset[str] = frozenset()  # Uids.

    def report(self, ledger: Ledger) -> None:
        """Record which pods are new since the last time."""
        found = set()
        for hold in ledger.unreadable_pods.of_other_schedulers():
            asked = [name for name, _ in hold.amounts if name.startswith(unknown_keys.PREFIX)]
            if asked and not hold.shares:
                found.add(hold.uid)
                if hold.uid not in self._told:
                    namespace, _, name = hold.title.partition("/")
                    pod = events.InvolvedObject(namespace, name, hold.uid)
                    self._record(events.Event(pod, REASON, _sentence(asked, hold.node), warning=True))
        self._told = frozenset(found)


def _sentence(asked: list[str], node: str) -> str:
    return (
        f"It asks for {', '.join(asked)} and was bound to {node} by another scheduler, which chose no cards"
        " for it: its containers see what their images say. Make it again with schedulerName:"
        f" {names.SCHEDULER_NAME}."
    )
