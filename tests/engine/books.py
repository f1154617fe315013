"""What a ledger says, as plain values, and what an informer would make of a pod."""

from typing import Any

from berth_crds import wire
from berth_operator.engine import ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import allocation_recovery, cycle, decisions, queued_pods
from berth_operator.translate import gpupods, pods, raw
from support import builders, clock, pictures


def told(book: Ledger) -> dict[str, Any]:
    """Tell all that a ledger knows and could be rebuilt from the API: not how patient it was with whom."""
    return {
        "picture": pictures.told(book.picture),
        "workload": pictures.learned(book.picture),
        "waiting": {uid: entry.candidate for uid, entry in book.waiting._entries.items()},
        "assumed": {uid: one.candidate for uid, one in book.assumed.items()},
        "states": dict(book._states),
        "unadmitted": {uid: (one.hold, one.where, one.out) for uid, one in book.unadmitted._pods.items()},
        "charged of these": {node: +charged for node, charged in book.unadmitted._charged.items()},
        "rules": book.rules,
    }


def saw(book: Ledger, pod: raw.Pod | None, uid: str = "") -> None:
    """Tell a ledger of a pod's new state, or that it is gone."""
    match pods.view(pod) if pod is not None else pods.Over(uid):
        case pods.Waiting(candidate, gated):
            version = pod.metadata.resource_version if pod is not None else ""
            book.pod_waiting(candidate, gated=gated, version=version)
        case pods.Bound(hold, _, teaches, nameless, where):
            book.pod_bound(hold, teaches, nameless=nameless, where=where)
        case pods.Over(over):
            book.pod_over(over)


def named(book: Ledger, thing: wire.GpuPod) -> None:
    """Tell a ledger of a GpuPod's new state."""
    found = gpupods.named(thing)
    assert isinstance(found, allocation_recovery.Named), found
    book.gpupod_seen(found)


def of(count: int = 1, cards: int = 4, *, now: ports.Clock | None = None) -> Ledger:
    """Give a ledger that knows nodes n1, n2, … with so many cards each, their agents alive."""
    book = Ledger(now or clock.Clock())
    for name in (f"n{at}" for at in range(1, count + 1)):
        book.node_seen(builders.node(name))
        book.device_seen(builders.device(name, cards))
        book.agent_silent(name, silent=False)
    return book


def wait(
    book: Ledger, name: str = "p", cards: int = 1, *, version: str = "", **fields: Any
) -> queued_pods.Candidate:
    """Have a pod wait."""
    candidate = builders.candidate(name, cards, **fields)
    book.pod_waiting(candidate, gated=False, version=version)
    return candidate


def held(book: Ledger, uid: str = "uid-p") -> tuple[list[int], int]:
    """Give the minors that a pod holds, and how many cards it withholds."""
    hold = book.picture.hold(uid)
    assert hold is not None
    return [share.minor for share in hold.shares], hold.withheld


def decide(book: Ledger, now: float = 1000.0) -> list[decisions.Decision]:
    """Make a round of decisions, and act on none of them."""
    return cycle.decide(book.places, book.waiting, now, book.rules)


def assume(book: Ledger, name: str = "p") -> decisions.Bind:
    """Decide for a pod that fits, and assume it."""
    (bind,) = (answer for answer in decide(book) if answer.uid == f"uid-{name}")
    assert isinstance(bind, decisions.Bind)
    book.assume(bind)
    return bind


def asleep(book: Ledger, name: str = "p", *changes: decisions.Help) -> None:
    """Have a waiting pod wait for these changes."""
    book.waiting.put_off(f"uid-{name}", now=0.0, wants=frozenset(changes))


def awake(book: Ledger) -> list[str]:
    """Name the waiting pods that would be tried if time allowed."""
    return [candidate.name for candidate in book.waiting.ready(1e9)]


def cards(pod: raw.Pod) -> list[str]:
    """List the cards that a bound pod holds by name."""
    return [share.uuid for share in pods.bound(pod).hold.shares]
