"""What a ledger says, as plain values, and what an informer would make of a pod."""

from collections.abc import Callable
from typing import Any

from berth_crds import wire
from berth_operator.engine import change_log, ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import allocation_recovery, cycle, decisions, queued_pods
from berth_operator.translate import gpupods, pods, raw
from support import builders, clock, pictures


def told(ledger: Ledger) -> dict[str, Any]:
    """Tell all that a ledger knows and could be rebuilt from the API: not how patient it was with whom."""
    return {
        "picture": pictures.told(ledger.inventory),
        "workload": pictures.learned(ledger.inventory),
        "waiting": {uid: entry.candidate for uid, entry in ledger.backlog._entries.items()},
        "assumed": {uid: one.candidate for uid, one in ledger.assumed_pods.items()},
        "states": dict(ledger._states),
        "unadmitted": {
            uid: (one.hold, one.where, one.excluded) for uid, one in ledger.unadmitted_pods._pods.items()
        },
        "charged of these": {node: +charged for node, charged in ledger.unadmitted_pods._charged.items()},
        "rules": ledger.policy,
    }


def saw(ledger: Ledger, pod: raw.Pod | None, uid: str = "") -> None:
    """Tell a ledger of a pod's new state, or that it is gone."""
    match pods.view(pod) if pod is not None else pods.Over(uid):
        case pods.Waiting(candidate, gated):
            version = pod.metadata.resource_version if pod is not None else ""
            ledger.pod_waiting(candidate, gated=gated, version=version)
        case pods.Bound(hold, _, teaches, nameless, where):
            ledger.pod_bound(hold, teaches, nameless=nameless, requirements=where)
        case pods.Over(over):
            ledger.pod_over(over)


def named(ledger: Ledger, thing: wire.GpuPod) -> None:
    """Tell a ledger of a GpuPod's new state."""
    found = gpupods.named(thing)
    assert isinstance(found, allocation_recovery.Named), found
    ledger.gpupod_seen(found)


def reader(ledger: Ledger) -> change_log.ChangeReader:
    """Return a reader of the nodes that change from now on."""
    found = ledger.changes.reader()
    found.read()
    return found


def in_turn(*steps: Callable[[], object], late: bool) -> None:
    """Do some things one after another, the last one first if `late`."""
    for step in reversed(steps) if late else steps:
        step()


def of(count: int = 1, cards: int = 4, *, now: ports.Clock | None = None) -> Ledger:
    """Give a ledger that knows nodes n1, n2, … with so many cards each, their agents alive."""
    ledger = Ledger(now or clock.Clock())
    for name in (f"n{at}" for at in range(1, count + 1)):
        ledger.node_seen(builders.node(name))
        ledger.device_seen(builders.device(name, cards))
        ledger.agent_silent(name, silent=False)
    return ledger


def wait(
    ledger: Ledger, name: str = "p", cards: int = 1, *, version: str = "", **fields: Any
) -> queued_pods.Candidate:
    """Have a pod wait."""
    candidate = builders.candidate(name, cards, **fields)
    ledger.pod_waiting(candidate, gated=False, version=version)
    return candidate


def held(ledger: Ledger, uid: str = "uid-p") -> tuple[list[int], int]:
    """Give the minors that a pod holds, and how many cards it withholds."""
    hold = ledger.inventory.hold(uid)
    assert hold is not None
    return [share.minor for share in hold.shares], hold.withheld


def decide(ledger: Ledger, now: float = 1000.0) -> list[decisions.Decision]:
    """Make a round of decisions, and act on none of them."""
    return cycle.decide(ledger.search, ledger.backlog, now, ledger.policy)


def assume(ledger: Ledger, name: str = "p") -> decisions.Bind:
    """Decide for a pod that fits, and assume it."""
    (bind,) = (answer for answer in decide(ledger) if answer.uid == f"uid-{name}")
    assert isinstance(bind, decisions.Bind)
    ledger.assume(bind)
    return bind


def asleep(ledger: Ledger, name: str = "p", *changes: decisions.Help) -> None:
    """Have a waiting pod wait for these changes."""
    ledger.backlog.put_off(f"uid-{name}", now=0.0, wants=frozenset(changes))


def awake(ledger: Ledger) -> list[str]:
    """Name the waiting pods that would be tried if time allowed."""
    return [candidate.name for candidate in ledger.backlog.ready(1e9)]


def cards(pod: raw.Pod) -> list[str]:
    """List the cards that a bound pod holds by name."""
    return [share.uuid for share in pods.bound(pod).hold.shares]
