"""What one container gets, from the annotations that the bind wrote on its pod. Pure.

Nothing that the pod itself says counts. What cannot be carried out to the letter is not carried out at all,
so that no container starts with other devices than the ledger has it hold.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from berth_crds import allocation, names, vocabulary, wire

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
MEMORY: Final = "BERTH_GPU_MEMORY"
CORE: Final = "BERTH_GPU_CORE"
WHOLE_CORE: Final = 100


class DeviceNode(NamedTuple):
    """A character device, with the path that it has in the container."""

    path: str
    major: int
    minor: int
    mode: int = 0o666


MOUNT_OPTIONS: Final = ("ro", "nosuid", "nodev", "rbind", "rprivate")
WRITABLE: Final = ("rw", *MOUNT_OPTIONS[1:])


class Mount(NamedTuple):
    """A file of the host that the container sees; it may take the place of the runtime's own (`replaces`)."""

    source: str
    destination: str
    options: tuple[str, ...] = MOUNT_OPTIONS
    replaces: bool = False


class GivenCard(NamedTuple):
    """A card that was given to a container, or one MIG instance of it."""

    card: wire.Card
    instance: wire.MigInstance | None = None

    @property
    def uuid(self) -> str:
        """The uuid of what was given."""
        return self.instance.uuid if self.instance else self.card.uuid


class Part(NamedTuple):
    """What a container was given of a card: percent of its compute, and bytes."""

    given: GivenCard
    core: int
    memory: int

    @property
    def is_whole(self) -> bool:
        """Whether that is all of it."""
        return self.core == WHOLE_CORE and self.memory >= (self.given.card.memory or 0)


class Limits(NamedTuple):
    """What keeps a container to its parts."""

    env: Mapping[str, str] = {}
    mounts: tuple[Mount, ...] = ()


NO_LIMITS: Final = Limits()


def no_limits(parts: Sequence[Part]) -> Limits:
    """Return that nothing keeps a container to its parts."""
    del parts
    return NO_LIMITS


@dataclasses.dataclass(frozen=True, slots=True)
class Edits:
    """What opens its cards to a container: device nodes and mounts, or the names of CDI devices."""

    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    cdi_devices: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Delivery:
    """What a container gets."""

    env: Mapping[str, str]
    edits: Edits = Edits()


class Undeliverable(Exception):
    """The container cannot get what was decided; the text is a clause."""


class Means(Protocol):
    """How the node opens cards to containers."""

    def edits(self, given: Sequence[GivenCard]) -> Edits:
        """Return what opens these cards, or raise `Undeliverable` where the node lacks something."""


NOTHING: Final = Delivery({VISIBLE_DEVICES: names.NO_CARDS, MEMORY: "", CORE: ""})


def delivery(
    annotations: Mapping[str, str],
    container: str,
    node: str,
    cards: Sequence[wire.Card],
    means: Means,
    limits: Callable[[Sequence[Part]], Limits] = no_limits,
) -> Delivery | None:
    """Return what a container gets, None in a pod that Berth has not bound, or raise `Undeliverable`."""
    if names.TERM not in annotations:
        return None
    given = parts(annotations, container, node, cards)
    if not given:
        return NOTHING
    kept = limits(given)
    env = {
        VISIBLE_DEVICES: ",".join(part.given.uuid for part in given),
        MEMORY: ",".join(str(part.memory) for part in given),
        CORE: ",".join(str(part.core) for part in given),
    }
    edits = means.edits([part.given for part in given])
    edits = dataclasses.replace(edits, mounts=edits.mounts + kept.mounts)
    return Delivery({**env, **kept.env}, edits)


def parts(
    annotations: Mapping[str, str], container: str, node: str, cards: Sequence[wire.Card]
) -> list[Part]:
    """Return what its bind gave a container of the GPUs of a node, or raise `Undeliverable`."""
    gpus = [card for card in cards if card.type == vocabulary.DeviceType.GPU]
    shares = _shares(annotations, container, node)
    return [Part(_given(share, gpus), share.core, share.memory) for share in shares]


def _shares(annotations: Mapping[str, str], container: str, node: str) -> list[allocation.Share]:
    """Return the shares of GPUs that a container was given."""
    found = entries(annotations, container, node)
    return [entry.share for entry in found if entry.type == vocabulary.DeviceType.GPU]


def entries(annotations: Mapping[str, str], container: str, node: str) -> list[allocation.Entry]:
    """Return what a container was given of devices of all types, or raise `Undeliverable`."""
    if (text := annotations.get(names.ALLOCATION)) is None:
        return []
    decoded = allocation.decode(text)
    if isinstance(decoded, allocation.Unreadable):
        raise Undeliverable(f"the annotation {names.ALLOCATION} cannot be read: {decoded.detail}")
    if decoded.node != node:
        raise Undeliverable(
            f"the annotation {names.ALLOCATION} is for node {decoded.node}, and this is {node}"
        )
    return [entry for entry in decoded.entries() if entry.container == container]


def _given(share: allocation.Share, cards: Iterable[wire.Card]) -> GivenCard:
    """Return the card or MIG instance of a share; its minor must still be that of the bind."""
    for given in cards_and_instances(cards):
        if given.uuid == share.uuid:
            check_minor(share, given.card)
            return given
    raise Undeliverable(
        f"card {share.uuid} is no longer on this node; delete the pod, so that it is placed anew"
    )


def cards_and_instances(cards: Iterable[wire.Card]) -> Iterator[GivenCard]:
    """Yield each card, and each MIG instance of it."""
    for card in cards:
        yield GivenCard(card)
        yield from (GivenCard(card, instance) for instance in (card.mig.instances if card.mig else ()))


def check_minor(share: allocation.Share, card: wire.Card) -> None:
    """Raise `Undeliverable` where a card has another minor than when it was given."""
    if share.minor != card.minor:
        raise Undeliverable(
            f"the minor of card {card.uuid} changed from {share.minor} to {card.minor} after the bind;"
            " delete the pod"
        )
