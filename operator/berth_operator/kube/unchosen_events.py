"""Events of pods that ask for Berth's devices and were bound by another scheduler, which chose none for them.

Nodes list Berth's resources, so any scheduler can count them, and the kubelet takes such a pod. But unless a
device plugin serves what it asks for, its containers are given nothing: they see no card, or whatever their
images say.

The same is so of Koordinator's names, which no device plugin serves: its scheduler chooses the devices, and
writes down which. Where nodes list these names, other schedulers count them as well. Of such a pod nobody
knows that it has none, so devices of its node are kept back. The same goes for a pod with a record of a
scheduler whose records the policy does not believe: its Event says how they come to count.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Final

from berth_crds import aliases, names, schema_limits
from berth_crds.text import quoted
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import events
from berth_operator.scheduling import wording
from berth_operator.scheduling.holds import Hold
from berth_operator.translate import unknown_keys

REASON: Final = "NoCardsChosen"
NOT_BELIEVED: Final = "RecordNotBelieved"
MOST_AT_ONCE: Final = 1000  # Pods that are looked at, of which each takes some microseconds.
PLUGIN_SECONDS: Final = 30.0  # Within these an agent says what its plugin gave to a pod.


class UnchosenEvents:
    """Records one Event for each such pod.

    There may be tens of thousands, and each is looked at again and again, for its node, the policy or what an
    agent says may change: so in portions, the next one with each call.
    """

    def __init__(self, record: Callable[[events.Event], None]) -> None:
        self._record = record
        self._first_seen: dict[str, float] = {}  # By uid.
        self._told: set[str] = set()  # Uids.
        self._left: Iterator[str] = iter(())  # Uids that are not looked at yet.

    def report(self, ledger: Ledger, now: float) -> None:
        """Record which pods of the next portion are new; `now` is in seconds."""
        portion = list(itertools.islice(self._left, MOST_AT_ONCE))
        if len(portion) < MOST_AT_ONCE:
            known = ledger.unreadable_pods.uids()
            for uid in self._first_seen.keys() - known:
                self._forget(uid)
            self._left = iter(list(known))
            again = itertools.islice(self._left, MOST_AT_ONCE - len(portion))
            portion = list(dict.fromkeys((*portion, *again)))
        for uid in portion:
            self._look_at(uid, ledger, now)

    def _look_at(self, uid: str, ledger: Ledger, now: float) -> None:
        hold = ledger.unreadable_pods.of_other_scheduler(uid)
        if hold is None or not _is_blind(hold, ledger):
            self._forget(uid)
        elif now - self._first_seen.setdefault(uid, now) < _patience(hold, ledger):
            self._told.discard(uid)
        elif uid not in self._told:
            self._told.add(uid)
            disbelieved = ledger.unreadable_pods.disbelieved(uid)
            self._record(_event(ledger.inventory.hold(uid) or hold, disbelieved))

    def _forget(self, uid: str) -> None:
        self._first_seen.pop(uid, None)
        self._told.discard(uid)


def _asked(hold: Hold) -> list[str]:
    return [
        name for name, _ in hold.amounts if name.startswith(unknown_keys.PREFIX) or _is_koordinators(name)
    ]


def _is_koordinators(name: str) -> bool:
    """Whether a resource is a name of Koordinator's for devices."""
    row = aliases.RESOURCES.get(name)
    return row is not None and row.project == aliases.KOORDINATOR


def _is_blind(hold: Hold, ledger: Ledger) -> bool:
    """Whether a pod asks for devices that a scheduler has to choose, and nobody says that it has any."""
    asked = _asked(hold)
    now = ledger.inventory.hold(hold.uid) if asked else None
    return now is not None and not now.shares and (not _all_koordinators(asked) or _is_served(hold, ledger))


def _all_koordinators(asked: list[str]) -> bool:
    return all(map(_is_koordinators, asked))


def _is_served(hold: Hold, ledger: Ledger) -> bool:
    """Whether the devices of a pod's node are Berth's to give: on other nodes Koordinator may know better."""
    info = ledger.inventory.node(hold.node)
    return info is not None and info.published is not None


def _patience(hold: Hold, ledger: Ledger) -> float:
    """Return how long an agent may take until it says what its device plugin gave to a pod."""
    info = ledger.inventory.node(hold.node)
    served = info is not None and info.device is not None and info.device.kubelet_served
    return PLUGIN_SECONDS if served else 0.0


def _event(hold: Hold, disbelieved: str | None) -> events.Event:
    namespace, _, name = hold.title.partition("/")
    pod = events.InvolvedObject(namespace, name, hold.uid)
    if disbelieved is not None:
        return events.Event(pod, NOT_BELIEVED, _sentence_of_record(hold, disbelieved), warning=True)
    return events.Event(pod, REASON, _sentence(hold), warning=True)


def _sentence(hold: Hold) -> str:
    asked = _asked(hold)
    what = "device" if all(map(aliases.type_of, asked)) else "card"
    return (
        f"It asks for {', '.join(asked)} and was bound to {hold.node} by another scheduler, which chose"
        f" no {what}s for it: its containers may see any {what}.{_kept_back(hold)} Create it"
        f" again with schedulerName: {names.SCHEDULER_NAME}."
    )


def _sentence_of_record(hold: Hold, scheduler: str) -> str:
    return (
        f"It asks for {', '.join(_asked(hold))}, and which devices it was given only"
        f" {aliases.KOORDINATOR_RECORD} says, which does not count: spec.podRecordsFrom of the policy does"
        f" not name its scheduler, {quoted(scheduler)}.{_kept_back(hold)} Name that scheduler there"
        f" if it writes such records."
    )


def _kept_back(hold: Hold) -> str:
    """Return what nobody else gets for that: so many cards, and all other devices that it may have."""
    cards = hold.withheld
    count = "1 card" if cards == 1 else f"{cards} cards"
    what = ["all cards that nobody has" if cards > schema_limits.MOST_DEVICES else count] if cards else []
    what += [f"all {wording.noun(kind, 2)}" for kind in sorted(hold.withheld_types)]
    if not what:
        return ""
    are = "is" if what == ["1 card"] else "are"
    return f" Until it ends, {wording.listed(what)} of the node {are} kept back."
