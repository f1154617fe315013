"""Events of pods that ask for Berth's cards and were bound by another scheduler, which chose none for them.

Nodes list Berth's resources, so any scheduler can count them, and the kubelet takes such a pod. But unless a
device plugin serves what it asks for, its containers are given nothing: they see no card, or whatever their
images say.
"""

from collections.abc import Callable
from typing import Final

from berth_crds import names
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import events
from berth_operator.scheduling.holds import Hold
from berth_operator.translate import unknown_keys

REASON: Final = "NoCardsChosen"
PLUGIN_SECONDS: Final = 30.0  # Within these an agent says what its plugin gave to a pod.


class UnchosenEvents:
    """Records one Event for each such pod."""

    def __init__(self, record: Callable[[events.Event], None]) -> None:
        self._record = record
        self._first_seen: dict[str, float] = {}  # By uid.
        self._told: frozenset[str] = frozenset()  # Uids.

    def report(self, ledger: Ledger, now: float) -> None:
        """Record which pods are new since the last time; `now` is in seconds."""
        blind = {
            hold.uid: hold for hold in ledger.unreadable_pods.of_other_schedulers() if _is_blind(hold, ledger)
        }
        self._first_seen = {uid: self._first_seen.get(uid, now) for uid in blind}
        due = {uid for uid, since in self._first_seen.items() if now - since >= _patience(blind[uid], ledger)}
        for uid in due - self._told:
            self._record(_event(blind[uid]))
        self._told = frozenset(due)


def _asked(hold: Hold) -> list[str]:
    return [name for name, _ in hold.amounts if name.startswith(unknown_keys.PREFIX)]


def _is_blind(hold: Hold, ledger: Ledger) -> bool:
    """Whether a pod asks for cards by Berth's names, and nobody says that it has any."""
    now = ledger.inventory.hold(hold.uid) if _asked(hold) else None
    return now is not None and not now.shares


def _patience(hold: Hold, ledger: Ledger) -> float:
    """Return how long an agent may take until it says what its device plugin gave to a pod."""
    info = ledger.inventory.node(hold.node)
    served = info is not None and info.device is not None and info.device.kubelet_served
    return PLUGIN_SECONDS if served else 0.0


def _event(hold: Hold) -> events.Event:
    namespace, _, name = hold.title.partition("/")
    pod = events.InvolvedObject(namespace, name, hold.uid)
    return events.Event(pod, REASON, _sentence(_asked(hold), hold.node), warning=True)


def _sentence(asked: list[str], node: str) -> str:
    return (
        f"It asks for {', '.join(asked)} and was bound to {node} by another scheduler, which chose no cards"
        " for it: its containers may see any card. Create it again with schedulerName:"
        f" {names.SCHEDULER_NAME}."
    )
