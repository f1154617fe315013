"""Which pods the processes on the cards belong to, and which of them nobody gave a card.

The driver knows processes, the kernel their cgroups, the kubelet's names for these lead
to pods and containers. A process that has ended meanwhile is left out, one of no pod is
the host's own. All of it is pure but `settle`, which reads the cgroups.
"""

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from berth_agent import card_processes
from berth_agent.kubelet import cgroups, ids
from berth_crds import schema_limits, wire

# A process' memory breathes. Below this part of it a change is not worth a write.
WORTH_TELLING: Final = 0.25


@dataclasses.dataclass(frozen=True, slots=True)
class Resident:
    """A process on a card, and where it runs."""

    process: card_processes.Process
    place: cgroups.Place


@dataclasses.dataclass(frozen=True, slots=True)
class Sight:
    """One process on a piece of the node: whose it is, as far as is known.

    Without a pod it is the host's own; a container that cannot be told is empty.
    """

    pid: int
    memory: int | None
    piece: ids.Piece
    pod: ids.Key | None = None
    container: str = ""


Joins = Callable[[cgroups.Place], tuple[ids.Key, str] | None]


def settle(found: Iterable[card_processes.Process], procfs: Path) -> tuple[Resident, ...]:
    """Find out where processes run."""
    places = ((process, cgroups.read(procfs, process.pid)) for process in found)
    return tuple(Resident(process, place) for process, place in places if place is not None)


def sights(residents: Iterable[Resident], known: ids.Pieces, join: Joins) -> tuple[Sight, ...]:
    """Join processes with pods; those on cards that the node does not have are left out."""
    return tuple(_sight(one, known[one.process.uuid], join) for one in residents if one.process.uuid in known)


def _sight(one: Resident, piece: ids.Piece, join: Joins) -> Sight:
    pod, container = join(one.place) or (None, "")
    return Sight(one.process.pid, one.process.memory, piece, pod, container)


def by_pod(found: Iterable[Sight]) -> Mapping[ids.Key, Mapping[str, tuple[str, ...]]]:
    """Return which pieces the driver shows each container on, by uuid."""
    seen: dict[ids.Key, dict[str, set[tuple[int, str]]]] = {}
    for one in found:
        if one.pod:
            seen.setdefault(one.pod, {}).setdefault(one.container, set()).add(
                (one.piece.minor, one.piece.uuid)
            )
    return {
        key: {name: tuple(uuid for _, uuid in sorted(held)) for name, held in sorted(containers.items())}
        for key, containers in seen.items()
    }


# ---------------------------------------------------------------- strays


def covers(given: Collection[str], uuid: str, known: ids.Pieces) -> bool:
    """Return whether who was given these pieces may be seen on that one.

    The driver may name the card where a MIG instance of it is meant, and the other way round.
    """
    card = known[uuid].card if uuid in known else uuid
    alike = (key for key, piece in known.items() if key == card or piece.card == uuid)
    return uuid in given or any(key in given for key in alike)


def strays(
    found: Iterable[Sight], given: Callable[[ids.Key], Iterable[str]], known: ids.Pieces
) -> frozenset[Sight]:
    """Find the processes that are on a piece that nobody gave to their pod."""
    # A pod may have many processes, and many ids: these are gathered once.
    theirs = functools.cache(lambda pod: frozenset(given(pod)))
    return frozenset(
        one for one in found if one.pod is None or not covers(theirs(one.pod), one.piece.uuid, known)
    )


def lasting(now: Iterable[Sight], before: Iterable[Sight]) -> tuple[Sight, ...]:
    """Keep those that the look before has shown as well.

    A pod's first process may be seen before its kubelet has told of it, and its last one after the pod
    has ended: neither is worth closing a card.
    """
    earlier = {(one.pid, one.piece.card) for one in before}
    return tuple(one for one in now if (one.pid, one.piece.card) in earlier)


Occupants = Mapping[str, tuple[wire.Occupant, ...]]  # By uuid of the card.


def occupants(found: Iterable[Sight], before: Occupants) -> Occupants:
    """Return for each card who is on it though nobody gave it; `before` is what was said so far."""
    by_card: dict[str, dict[int, wire.Occupant]] = {}
    for one in sorted(found, key=lambda sight: (sight.piece.card, sight.pid, sight.piece.uuid)):
        said = next((it for it in before.get(one.piece.card, ()) if it.pid == one.pid), None)
        by_card.setdefault(one.piece.card, {})[one.pid] = _occupant(one, said)
    most = min(schema_limits.MOST_OCCUPANTS, schema_limits.TOTAL_OCCUPANTS // max(1, len(by_card)))
    return {card: tuple(held.values())[:most] for card, held in by_card.items()}


def _occupant(one: Sight, said: wire.Occupant | None) -> wire.Occupant:
    namespace, name = one.pod or ("", "")
    memory = one.memory
    if said and said.memory and memory and abs(memory - said.memory) < WORTH_TELLING * said.memory:
        memory = said.memory
    return wire.Occupant(pid=one.pid, memory=memory, namespace=namespace, pod=name)


def told(before: Iterable[wire.CardStatus]) -> Occupants:
    """Return what was said so far."""
    return {one.uuid: one.occupants for one in before if one.occupants}
