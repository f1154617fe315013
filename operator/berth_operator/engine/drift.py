"""Whether the ledger still is what the API says: the check of invariant I8.

The memory that events feed must equal the one that is made anew from pods, nodes and
Devices. Where it does not, an event was lost or misread; nobody would notice until a card
is given out twice or never again.

While things change, either of the two is ahead of the other. So a difference counts only if
it lasts: in both looks it was there, and what is now known otherwise both have seen in the same
revision, or neither of the two values has changed from one look to the next.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from berth_operator.engine import ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import holds, queued_pods
from berth_operator.scheduling.decisions import Reason

NODE, DEVICE, POD, GPU_POD = "Node", "Device", "Pod", "GpuPod"
AT_A_TIME: Final = 250  # Things compared before others have their turn, or fewer that take as long as this:
PORTION_SECONDS: Final = 0.005
OF_PODS: Final = ("hold", "sample", "waiting")

Source = tuple[str, str]  # The kind of an object, and its name; for a pod its uid, for a GpuPod its title.
Revisions = Mapping[Source, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Sight:
    """What one of the two knows of a thing, and the revisions in which it has seen what tells of it."""

    value: Any = None
    revisions: Revisions = dataclasses.field(default_factory=dict)

    def stayed(self, later: "Sight") -> bool:
        """Whether it is the very same later; of nothing only the revisions tell."""
        return self.value is later.value and (later.value is not None or self.revisions == later.revisions)


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is known differently: what it is, which one, and whether the API has none of it."""

    what: str
    name: str
    gone: bool = False
    sources: frozenset[Source] = dataclasses.field(default=frozenset(), compare=False)
    mine: Sight = dataclasses.field(default=Sight(), compare=False)
    theirs: Sight = dataclasses.field(default=Sight(), compare=False)

    def seen(self, mine: Revisions, theirs: Revisions) -> "Difference":
        """Return it with the revisions in which either of the two has seen the sources."""
        return dataclasses.replace(
            self,
            mine=Sight(self.mine.value, self._of_sources(mine)),
            theirs=Sight(self.theirs.value, self._of_sources(theirs)),
        )

    def _of_sources(self, revisions: Revisions) -> Revisions:
        return {source: revisions[source] for source in self.sources if source in revisions}


def lasting(first: Iterable[Difference], second: Iterable[Difference]) -> tuple[Difference, ...]:
    """Return what two looks have found and is no news on its way."""
    before = {one: one for one in first}
    return tuple(one for one in second if one in before and _lasts(before[one], one))


def _lasts(first: Difference, second: Difference) -> bool:
    settled = second.mine.revisions == second.theirs.revisions
    return settled or (first.mine.stayed(second.mine) and first.theirs.value == second.theirs.value)


def ghosts(found: Iterable[Difference]) -> set[str]:
    """Name the pods of which the ledger knows what the API does not: reading anew tells nothing of these."""
    return {one.name for one in found if one.gone and one.what in OF_PODS}


def drift(ledger: Ledger, fresh: Ledger) -> tuple[Difference, ...]:
    """Name what the ledger knows otherwise than one that was just rebuilt."""
    return tuple(itertools.chain.from_iterable(portions(ledger, fresh)))


def portions(ledger: Ledger, fresh: Ledger, clock: ports.Clock = float) -> Iterator[tuple[Difference, ...]]:
    """Name the same, after some things at a time what differs of these.

    A hold that is only assumed is not in the API yet, so whichever of the two knows it, it
    is not compared; but one that stays so withholds cards for which nobody has a pod. Nor are
    pods that say too much together with others. The silence of agents is a matter of time
    and not of records.
    """
    for what, known in KNOWN.items():
        names = iter(dict.fromkeys((*known.names(ledger), *known.names(fresh))))
        compared = (_difference(what, name, ledger, fresh) for name in names)
        while some := list(_portion(compared, clock)):
            yield tuple(one for one in some if one is not None)
    yield tuple(Difference("open bind", uid) for uid in ledger.assumed.overdue())


def _portion(compared: Iterator[Difference | None], clock: ports.Clock) -> Iterator[Difference | None]:
    """Yield the next comparisons, each made when its turn comes."""
    began = clock()
    for one in itertools.islice(compared, AT_A_TIME):
        yield one
        if clock() - began >= PORTION_SECONDS:
            return


def _difference(what: str, name: str, ledger: Ledger, fresh: Ledger) -> Difference | None:
    mine, theirs = KNOWN[what].value(ledger, name), KNOWN[what].value(fresh, name)
    if mine == theirs or any(name in one.assumed or _put_off(one, name) for one in (ledger, fresh)):
        return None
    one = Difference(what, name, gone=theirs is None, mine=Sight(mine), theirs=Sight(theirs))
    return dataclasses.replace(one, sources=_sources(one, ledger, fresh))


def _sources(one: Difference, ledger: Ledger, fresh: Ledger) -> frozenset[Source]:
    """Name the objects that tell of it."""
    if one.what not in OF_PODS:
        return frozenset({(one.what, one.name)})
    found = {(POD, one.name)}
    if one.what == "hold" and (one.name in ledger.nameless or one.name in fresh.nameless):
        for hold in (one.mine.value, one.theirs.value):
            found |= _beside(hold) if hold is not None else set()
    return frozenset(found)


def _beside(hold: holds.Hold) -> set[Source]:
    """Name what else tells of a pod whose own record cannot be read."""
    namespace = hold.title.partition("/")[0]
    names = (hold.title, f"{namespace}/{hold.uid}.{hold.node}")
    return {(NODE, hold.node), (DEVICE, hold.node), *((GPU_POD, name) for name in names)}


def _waiting(ledger: Ledger, uid: str) -> queued_pods.Candidate | None:
    return ledger.gated.get(uid) or ledger.backlog.get(uid)


def _put_off(ledger: Ledger, uid: str) -> bool:
    """Return whether there was no room for what a pod says: of which pods that is so is chance."""
    candidate = _waiting(ledger, uid)
    if candidate is None:
        return ledger.unadmitted.bare(uid)
    return any(one.reason is Reason.TOO_MUCH_TOGETHER for one in candidate.faults)


class _Known(NamedTuple):
    """One kind of what a ledger knows: the names of all, and the value of one, if there is any."""

    names: Callable[[Ledger], Iterable[str]]
    value: Callable[[Ledger, str], Any]


KNOWN: Final[Mapping[str, _Known]] = {
    NODE: _Known(
        lambda ledger: ledger.inventory.index,
        lambda ledger, name: info.node if (info := ledger.inventory.row(name)) is not None else None,
    ),
    DEVICE: _Known(
        lambda ledger: ledger.inventory.index,
        lambda ledger, name: info.published if (info := ledger.inventory.row(name)) is not None else None,
    ),
    "hold": _Known(
        lambda ledger: (uid for info in ledger.inventory.each() for uid in info.holds),
        lambda ledger, uid: ledger.inventory.hold(uid),
    ),
    "sample": _Known(
        lambda ledger: ledger.inventory.workload.samples,
        lambda ledger, uid: ledger.inventory.workload.samples.get(uid),
    ),
    "waiting": _Known(
        lambda ledger: (*ledger.gated, *(one.candidate.uid for one in ledger.backlog.entries())), _waiting
    ),
}
