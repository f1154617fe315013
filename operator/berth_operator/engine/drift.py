"""Drift: differences between the ledger and the API, the check of invariant I8.

The ledger that events feed must equal one that is rebuilt from pods, nodes and Devices. If it does
not, an event was lost or misread, and a card could be given out twice or never again.

While the cluster changes, either of the two is ahead of the other. So a difference counts only if it
lasts: it was found in two comparisons, and now both ledgers have seen its sources in the same
revision, or neither of the two values has changed between the comparisons.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from berth_crds.client import cooperative
from berth_operator.engine import paced_calls, ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import holds, queued_pods
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.nodes import facts

NODE, DEVICE, POD, GPU_POD = "Node", "Device", "Pod", "GpuPod"
POD_KINDS: Final = ("hold", "sample", "waiting")
# Under which keys it is put off that an object is read, or counted.
PACED_KEYS: Final = {
    DEVICE: (paced_calls.device,),
    GPU_POD: (paced_calls.gpupod,),
    POD: (paced_calls.pod,),
    NODE: (paced_calls.node, paced_calls.charges_of_unadmitted),
}

Source = tuple[str, str]  # The kind of an object, and its name; for a pod its uid, for a GpuPod its title.
Revisions = Mapping[Source, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Observation:
    """What a ledger knows of an object, and in which revisions it has seen the sources."""

    value: Any = None
    revisions: Revisions = dataclasses.field(default_factory=dict)

    def unchanged(self, later: "Observation") -> bool:
        """Whether it is the same later; of a missing object only the revisions are compared."""
        return self.value is later.value and (later.value is not None or self.revisions == later.revisions)


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One difference: the kind and name of the object, and whether the API does not have it."""

    kind: str
    name: str
    gone: bool = False
    sources: frozenset[Source] = dataclasses.field(default=frozenset(), compare=False)
    kept: Observation = dataclasses.field(default=Observation(), compare=False)
    rebuilt: Observation = dataclasses.field(default=Observation(), compare=False)

    def with_revisions(self, mine: Revisions, theirs: Revisions) -> "Difference":
        """Return it with the revisions in which each of the two has seen the sources."""
        return dataclasses.replace(
            self,
            kept=Observation(self.kept.value, self._of_sources(mine)),
            rebuilt=Observation(self.rebuilt.value, self._of_sources(theirs)),
        )

    def _of_sources(self, revisions: Revisions) -> Revisions:
        return {source: revisions[source] for source in self.sources if source in revisions}


def lasting(first: Iterable[Difference], second: Iterable[Difference]) -> tuple[Difference, ...]:
    """Return the differences of two comparisons that are not events on their way."""
    before = {one: one for one in first}
    return tuple(one for one in second if one in before and _lasts(before[one], one))


def _lasts(first: Difference, second: Difference) -> bool:
    settled = second.kept.revisions == second.rebuilt.revisions
    return settled or (first.kept.unchanged(second.kept) and first.rebuilt.value == second.rebuilt.value)


def pods_not_in_api(found: Iterable[Difference]) -> set[str]:
    """Return the pods that only the ledger knows, so that reading them anew cannot correct it."""
    return {one.name for one in found if one.gone and one.kind in POD_KINDS}


def portions(ledger: Ledger, fresh: Ledger, clock: ports.Clock) -> Iterator[tuple[Difference, ...]]:
    """Yield the differences, some objects at a time.

    An assumed hold is not in the API yet, so it is not compared; but one that stays assumed for long is
    reported, since it withholds cards. Nor are pods compared for whose specs there was no room. The
    silence of agents depends on time and not on objects.
    """
    for what, known in KINDS.items():
        names = dict.fromkeys((*known.names(ledger), *known.names(fresh)))
        compared = (_difference(what, name, ledger, fresh) for name in names)
        for some in cooperative.portions(compared, clock):
            yield tuple(one for one in some if one is not None)
    yield tuple(Difference("open bind", uid) for uid in ledger.assumed_pods.overdue())


def _difference(what: str, name: str, ledger: Ledger, fresh: Ledger) -> Difference | None:
    mine, theirs = KINDS[what].value(ledger, name), KINDS[what].value(fresh, name)
    both = ledger, fresh
    if mine == theirs or any(name in one.assumed_pods or _without_room(one, name) for one in both):
        return None
    if what == "hold" and None not in (mine, theirs) and _by_chance(mine, theirs, *both):
        return None
    one = Difference(what, name, gone=theirs is None, kept=Observation(mine), rebuilt=Observation(theirs))
    sources = _sources(one, ledger, fresh)
    if any(_is_late(ledger, source) for source in sources):
        return None
    return dataclasses.replace(one, sources=sources)


def _is_late(ledger: Ledger, source: Source) -> bool:
    """Whether a ledger is to read a source soon, or to charge the unadmitted pods of a node."""
    kind, name = source
    delayed = any(ledger.paced_calls.is_delayed(key(name)) for key in PACED_KEYS.get(kind, ()))
    late = {GPU_POD: ledger.late_gpupods, POD: ledger.late_pods}.get(kind, ())
    return delayed or name in late


def _sources(one: Difference, ledger: Ledger, fresh: Ledger) -> frozenset[Source]:
    """Return the objects from which a ledger knows it."""
    if one.kind not in POD_KINDS:
        return frozenset({(one.kind, one.name)})
    found = {(POD, one.name)}
    if one.kind != "hold":
        return frozenset(found)
    both = ledger, fresh
    # A pod that its kubelet has not admitted is charged what its node has room for.
    depends = any(one.name in each.unreadable_pods or one.name in each.unadmitted_pods for each in both)
    if depends or _marked(one.kept.value) != _marked(one.rebuilt.value):
        for hold in (one.kept.value, one.rebuilt.value):
            found |= _related_sources(hold) if hold is not None else set()
    return frozenset(found)


def _marked(hold: holds.Hold | None) -> frozenset[str | int]:
    return hold.marked if hold is not None else frozenset()


def _by_chance(mine: holds.Hold, theirs: holds.Hold, *ledgers: Ledger) -> bool:
    """Whether two holds may differ only because the agent of their node says more than is read."""
    if any(mine.uid in one.unreadable_pods and one.unreadable_pods.is_limited(mine.node) for one in ledgers):
        return True
    if not any(one.given_otherwise.is_limited(mine.node) for one in ledgers):
        return False
    return dataclasses.replace(mine, marked=theirs.marked) == theirs


def _related_sources(hold: holds.Hold) -> set[Source]:
    """Return the other sources of what a pod is charged that its own object alone does not tell."""
    gpupods = ((GPU_POD, title) for title in hold.gpupod_titles)
    return {(NODE, hold.node), (DEVICE, hold.node), *gpupods}


def _waiting(ledger: Ledger, uid: str) -> queued_pods.PodInfo | None:
    return ledger.gated.get(uid) or ledger.backlog.get(uid)


def _node(ledger: Ledger, name: str) -> facts.Node | None:
    """Return a node without its images: of very many, which are read depends on the order."""
    info = ledger.inventory.node(name)
    return dataclasses.replace(info.node, images=()) if info is not None and info.node is not None else None


def _without_room(ledger: Ledger, uid: str) -> bool:
    """Whether there was no room for the spec of a pod; which pods these are is chance."""
    if (pod_info := _waiting(ledger, uid)) is None:
        return ledger.unadmitted_pods.is_bare(uid)
    return any(one.reason is Reason.TOO_MUCH_TOGETHER for one in pod_info.faults)


class _Kind(NamedTuple):
    """One kind of object that a ledger knows: all names, and the value of a name, if there is one."""

    names: Callable[[Ledger], Iterable[str]]
    value: Callable[[Ledger, str], Any]


KINDS: Final[Mapping[str, _Kind]] = {
    NODE: _Kind(
        lambda ledger: ledger.inventory.index,
        _node,
    ),
    DEVICE: _Kind(
        lambda ledger: ledger.inventory.index,
        lambda ledger, name: info.published if (info := ledger.inventory.node(name)) is not None else None,
    ),
    "hold": _Kind(
        lambda ledger: (uid for info in ledger.inventory.each() for uid in info.holds),
        lambda ledger, uid: ledger.inventory.hold(uid),
    ),
    "sample": _Kind(
        lambda ledger: ledger.inventory.workload.samples,
        lambda ledger, uid: ledger.inventory.workload.samples.get(uid),
    ),
    "waiting": _Kind(
        lambda ledger: (*ledger.gated, *(one.pod_info.uid for one in ledger.backlog.entries())), _waiting
    ),
}
