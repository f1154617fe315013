"""Whether the ledger still is what the API says: the check of invariant I8.

The memory that events feed must equal the one that is made anew from pods, nodes and
Devices. Where it does not, an event was lost or misread; nobody would notice until a card
is given out twice or never again.

While things change, either of the two is ahead of the other. So a difference counts only if
it lasts: in both looks it was there, and what is now known otherwise both have seen in the same
revision, or neither of the two values has changed from one look to the next.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from berth_operator.engine import ledger
from berth_operator.scheduling import holds
from berth_operator.scheduling.decisions import Reason

NODE, DEVICE, POD, GPU_POD = "Node", "Device", "Pod", "GpuPod"
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


def drift(book: ledger.Ledger, fresh: ledger.Ledger) -> tuple[Difference, ...]:
    """Name what the ledger knows otherwise than one that was just rebuilt.

    A hold that is only assumed is not in the API yet, so whichever of the two knows it, it
    is not compared; but one that stays so withholds cards for which nobody has a pod. Nor are
    pods that say too much together with others. The silence of agents is a matter of time
    and not of records.
    """
    mine, theirs = _told(book), _told(fresh)
    open_holds = {*book.assumed, *fresh.assumed, *_put_off(mine), *_put_off(theirs)}
    differing = (
        difference
        for what in mine
        for difference in _between(what, mine[what], theirs[what])
        if difference.name not in open_holds
    )
    told = (dataclasses.replace(one, sources=_sources(one, book, fresh)) for one in differing)
    return (*told, *(Difference("open bind", uid) for uid in book.assumed.overdue()))


def _sources(one: Difference, book: ledger.Ledger, fresh: ledger.Ledger) -> frozenset[Source]:
    """Name the objects that tell of it."""
    if one.what not in OF_PODS:
        return frozenset({(one.what, one.name)})
    found = {(POD, one.name)}
    if one.what == "hold" and (one.name in book.nameless or one.name in fresh.nameless):
        for hold in (one.mine.value, one.theirs.value):
            found |= _beside(hold) if hold is not None else set()
    return frozenset(found)


def _beside(hold: holds.Hold) -> set[Source]:
    """Name what else tells of a pod whose own record cannot be read."""
    namespace = hold.title.partition("/")[0]
    names = (hold.title, f"{namespace}/{hold.uid}.{hold.node}")
    return {(NODE, hold.node), (DEVICE, hold.node), *((GPU_POD, name) for name in names)}


def _told(book: ledger.Ledger) -> dict[str, Mapping[str, Any]]:
    found = list(book.picture.each())
    return {
        NODE: {row.name: row.node for row in found if row.node is not None},
        DEVICE: {row.name: row.published for row in found if row.published is not None},
        "hold": {uid: hold for row in found for uid, hold in row.holds.items()},
        "sample": book.picture.workload.samples,
        "waiting": {one.candidate.uid: one.candidate for one in book.waiting.each()} | book.gated,
    }


def _put_off(told: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Name the pods of which there was no room for what they ask: which ones these are is chance."""
    for uid, candidate in told["waiting"].items():
        if any(fault.reason is Reason.TOO_MUCH_TOGETHER for fault in candidate.faults):
            yield uid


def _between(what: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[Difference]:
    for name in sorted({*mine, *theirs}):
        here, there = mine.get(name), theirs.get(name)
        if here != there:
            yield Difference(what, name, gone=name not in theirs, mine=Sight(here), theirs=Sight(there))
