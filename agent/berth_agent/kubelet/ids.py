"""Which piece of which card a device id of the kubelet means. Pure.

The kubelet knows devices by the ids that their plugin chose. NVIDIA's plugin says the
uuid of the card or of the MIG instance, with `::` and a number behind it where several
pods share it, and drivers before R470 named an instance by its card and its place in it.
Other plugins give GPUs other resource names, so which ones count can be chosen.

An id that means no piece of this node stays as it is: to leave it out would be to say
that the container holds less than it does.
"""

import collections
import dataclasses
import fnmatch
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from berth_agent.kubelet import podresources
from berth_crds import vocabulary, wire

WHOLE: Final = 100  # Percent. A MIG instance has compute of its own, and holds all of that.
REPLICA: Final = "::"

Key = tuple[str, str]  # Namespace and name of a pod.


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """What one container can hold of a node as a whole: a card, or a MIG instance of one."""

    uuid: str
    card: str
    minor: int
    memory: int
    profile: str = ""
    replicas: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """Some of a piece: how many of its replicas. `piece` is None where no card of the node has the uuid."""

    uuid: str
    piece: Piece | None
    count: int = 1


Holdings = Mapping[Key, Mapping[str, tuple[Held, ...]]]  # By pod, then by container.
Pieces = Mapping[str, Piece]  # By each of its ids.


def pieces(cards: Iterable[wire.Card]) -> Pieces:
    """Index all that can be held of the node's GPUs by the ids that it may come under."""
    found = (_of_card(card) for card in cards if card.type == vocabulary.DeviceType.GPU)
    return dict(pair for pairs in found for pair in pairs)


def _of_card(card: wire.Card) -> Iterator[tuple[str, Piece]]:
    replicas = card.sharing.replicas if card.sharing else 1
    yield card.uuid, Piece(card.uuid, card.uuid, card.minor, card.memory or 0, replicas=replicas)
    for one in card.mig.instances if card.mig else ():
        piece = Piece(one.uuid, card.uuid, card.minor, one.memory, one.profile)
        yield one.uuid, piece
        if one.gi is not None and one.ci is not None:
            yield f"MIG-{card.uuid}/{one.gi}/{one.ci}", piece


def plain(device_id: str) -> str:
    """Return a device id without the number of its replica."""
    return device_id.partition(REPLICA)[0]


def counts(resource: str, patterns: Iterable[str]) -> bool:
    """Return whether a resource is a kind of GPU."""
    return any(fnmatch.fnmatchcase(resource, pattern) for pattern in patterns)


def holdings(listed: Iterable[podresources.Pod], patterns: tuple[str, ...], known: Pieces) -> Holdings:
    """Return who holds which pieces, as the kubelet lists it; who holds none is left out.

    A pod that is listed twice (one that has ended and its successor of the same name) holds
    what either entry says: the kubelet gives no uid by which to tell them apart.
    """
    counted = functools.cache(lambda resource: counts(resource, patterns))
    found: dict[Key, dict[str, dict[str, int]]] = {}
    for pod in listed:
        for container in pod.containers:
            if ids := collections.Counter(map(plain, _ids(container, counted))):
                containers = found.setdefault((pod.namespace, pod.name), {})
                _take_most(containers.setdefault(container.name, {}), ids)
    return {
        key: {name: _held(ids, known) for name, ids in containers.items()}
        for key, containers in found.items()
    }


def _take_most(into: dict[str, int], ids: Mapping[str, int]) -> None:
    for one, count in ids.items():
        into[one] = max(count, into.get(one, 0))


def _ids(container: podresources.Container, counted: Callable[[str], bool]) -> Iterator[str]:
    """Yield each device id once: the kubelet repeats a device for each of its NUMA nodes."""
    return iter(
        dict.fromkeys(one for each in container.devices if counted(each.resource) for one in each.ids)
    )


def _held(ids: Mapping[str, int], known: Pieces) -> tuple[Held, ...]:
    """Name the pieces in the order of their cards: that of the ids means nothing, and may change."""
    found = (
        Held(known[one].uuid if one in known else one, known.get(one), count) for one, count in ids.items()
    )
    return tuple(sorted(found, key=lambda one: (one.piece.minor if one.piece else -1, one.uuid)))
