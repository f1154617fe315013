"""Whether the ledger still is what the API says: the check of invariant I8.

The memory that events feed must equal the one that is made anew from pods, nodes and
Devices. Where it does not, an event was lost or misread; nobody would notice until a card
is given out twice or never again.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from berth_operator.engine import ledger

OF_PODS: Final = ("hold", "sample", "waiting")


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is known differently: what it is, which one, and whether the API has none of it."""

    what: str
    name: str
    gone: bool = False


def ghosts(found: Iterable[Difference]) -> set[str]:
    """Name the pods of which the ledger knows what the API does not: reading anew tells nothing of these."""
    return {one.name for one in found if one.gone and one.what in OF_PODS}


def drift(book: ledger.Ledger, fresh: ledger.Ledger) -> tuple[Difference, ...]:
    """Name what the ledger knows otherwise than one that was just rebuilt.

    A hold that is only assumed is not in the API yet, so whichever of the two knows it, it
    is not compared; but one that stays so withholds cards for which nobody has a pod. The
    silence of agents is a matter of time and not of records.
    """
    open_holds = {*book.assumed, *fresh.assumed}
    mine, theirs = _told(book), _told(fresh)
    differing = (
        difference
        for what in mine
        for difference in _between(what, mine[what], theirs[what])
        if difference.name not in open_holds
    )
    return (*differing, *(Difference("open bind", uid) for uid in book.assumed.overdue()))


def _told(book: ledger.Ledger) -> dict[str, Mapping[str, Any]]:
    found = list(book.picture.each())
    return {
        "Node": {row.name: row.node for row in found if row.node is not None},
        "Device": {row.name: row.published for row in found if row.published is not None},
        "hold": {uid: hold for row in found for uid, hold in row.holds.items()},
        "sample": book.picture.workload.samples,
        "waiting": {one.candidate.uid: one.candidate for one in book.waiting.each()} | book.gated,
    }


def _between(what: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[Difference]:
    for name in sorted({*mine, *theirs}):
        if mine.get(name) != theirs.get(name):
            yield Difference(what, name, gone=name not in theirs)
