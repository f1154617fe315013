"""What a look at the cards of a node gives, and what it may fail with.

A probe is asked for one sample at a time, in a thread with a deadline, and may block:
drivers do, for seconds, when a card is dying. Its readings are plain frozen values, so
that the simulated probe, the one for real hardware and the tests speak alike.

Failure is data here and has two sizes. A card that cannot be read is one `Lost` entry
among the good ones. A source that says nothing at all is `SourceFailed`. Neither is ever
an empty list, for a list without cards means that the node has none. What to make of
either is left to `describe`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from berth_crds import vocabulary


@dataclass(frozen=True, slots=True)
class Driver:
    """What runs the cards; an unknown version is empty."""

    version: str = ""
    cuda: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a card sits; what is unknown is None, never zero."""

    numa_node: int | None = None
    pcie_root: str | None = None
    bus_id: str | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """One card's nearest way to one peer."""

    peer: str
    kind: vocabulary.LinkKind
    count: int | None = None


@dataclass(frozen=True, slots=True)
class MigInstance:
    """One MIG instance; `start` and `size` are its memory slices."""

    uuid: str
    profile: str
    memory: int
    gi: int
    ci: int
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Mig:
    """MIG mode of a card that can do MIG."""

    enabled: bool
    instances: tuple[MigInstance, ...] = ()


@dataclass(frozen=True, slots=True)
class Health:
    """What the driver says about one card just now."""

    verdict: vocabulary.Health = vocabulary.Health.HEALTHY
    reason: str = ""
    xid: int | None = None
    message: str = ""
    recovery: vocabulary.Recovery | None = None


@dataclass(frozen=True, slots=True)
class Card:
    """One card that answered."""

    uuid: str
    minor: int
    index: int
    model: str
    memory: int
    compute_capability: str = ""
    module_id: int | None = None
    vendor: str = "nvidia"
    place: Place = Place()
    links: tuple[Link, ...] = ()
    mig: Mig | None = None
    health: Health = Health()


@dataclass(frozen=True, slots=True)
class Lost:
    """One card that is there but cannot be read; its uuid is empty where even that is unknown."""

    index: int
    reason: str
    message: str
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class Partition:
    """Cards that share a ring; `link` is None for a card alone."""

    members: tuple[str, ...]
    link: vocabulary.LinkKind | None
    score: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at all cards of a node."""

    driver: Driver
    boot_id: str
    cards: tuple[Card | Lost, ...]
    partitions: tuple[Partition, ...] = ()

    def read(self) -> Iterator[Card]:
        """Walk over the cards that answered."""
        return (card for card in self.cards if isinstance(card, Card))

    def lost(self) -> Iterator[Lost]:
        """Walk over the cards that did not."""
        return (card for card in self.cards if isinstance(card, Lost))


@dataclass(frozen=True, slots=True)
class SourceFailed:
    """The source as a whole said nothing; reason is one CamelCase word, message a sentence."""

    reason: str
    message: str


Outcome = Sample | SourceFailed


class Probe(Protocol):
    """Something that can look at the cards of one node."""

    def sample(self) -> Outcome:
        """Look once. May block, is never called twice at a time, and should not raise."""
