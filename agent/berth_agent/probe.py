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
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from berth_crds import schema_limits, text, vocabulary


def model(said: str) -> str:
    """Return the name of a model as it is told on, whatever a driver or a file made of it."""
    return text.line(said, most=schema_limits.LONGEST_MODEL)


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
class MigPlacement:
    """Which memory slices of its card a MIG instance occupies."""

    start: int
    size: int


@dataclass(frozen=True, slots=True)
class MigInstance:
    """One MIG instance; its placement is None where the driver does not tell it."""

    uuid: str
    profile: str
    memory: int
    gi: int
    ci: int
    placement: MigPlacement | None = None


@dataclass(frozen=True, slots=True)
class Mig:
    """MIG mode of a card that can do MIG."""

    enabled: bool
    instances: tuple[MigInstance, ...] = ()


@dataclass(frozen=True, slots=True)
class Health:
    """What is to be said of how a card fares."""

    verdict: vocabulary.Health = vocabulary.Health.HEALTHY
    reason: str = ""
    xid: int | None = None
    message: str = ""
    recovery: vocabulary.Recovery | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """How a card's memory was mended: rows replaced, and whether that waits for a reset or failed."""

    corrected: int
    uncorrected: int
    pending: bool
    failed: bool


@dataclass(frozen=True, slots=True)
class Vitals:
    """What a card measures just now; None where it does not tell.

    Memory in bytes, power in milliwatts, clocks in megahertz, temperatures in degrees Celsius,
    utilisation in percent of the time. Errors are counted since the driver was loaded. At
    `too_hot` the hardware slows itself down. `recovery` is what the driver itself asks for.
    """

    memory_reserved: int | None = None
    memory_used: int | None = None
    memory_free: int | None = None
    utilization: int | None = None
    memory_utilization: int | None = None
    power: int | None = None
    power_limit: int | None = None
    temperature: int | None = None
    too_hot: int | None = None
    core_clock: int | None = None
    memory_clock: int | None = None
    errors_corrected: int | None = None
    errors_uncorrected: int | None = None
    rows: Rows | None = None
    retirement_pending: bool | None = None
    recovery: vocabulary.Recovery | None = None


@dataclass(frozen=True, slots=True)
class Card:
    """One card that answered.

    A source that judges its cards by itself gives their `health`; where that is None, `vitals`
    and the errors of the sample are there to be judged by.
    """

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
    health: Health | None = Health()
    vitals: Vitals = Vitals()


@dataclass(frozen=True, slots=True)
class Xid:
    """An error that the driver told of a card, by NVIDIA's number of it."""

    uuid: str
    number: int


@dataclass(frozen=True, slots=True)
class Vf:
    """One virtual function of a device; its address is its identity."""

    minor: int
    bus_id: str


@dataclass(frozen=True, slots=True)
class VfGroup:
    """Virtual functions of a device that may stand for each other."""

    vfs: tuple[Vf, ...]


@dataclass(frozen=True, slots=True)
class Device:
    """One device beside the cards, such as a network card; an empty word is unknown.

    Its `health` is believed as it is told. Where none is, it is judged as a card is, by its `sign`: what
    is wrong with it just now, if anything. Its `origin` says to people who tells of it.
    """

    uuid: str
    type: str
    minor: int
    vendor: str = ""
    model: str = ""
    memory: int | None = None
    place: Place = Place()
    vf_groups: tuple[VfGroup, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    health: Health | None = Health()
    sign: Health | None = None
    origin: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Lost:
    """One card that is there but cannot be read.

    Its uuid is empty where even that is unknown. Then its PCI address says better than its
    index which card it was: an index is a place in a list that gets shorter.
    """

    index: int
    reason: str
    message: str
    uuid: str = ""
    bus_id: str | None = None
    judged: bool = False  # By whoever looked, as a card that brings its own health: nothing is waited for.


@dataclass(frozen=True, slots=True)
class Partition:
    """Cards that share a ring; `link` is None for a card alone."""

    members: tuple[str, ...]
    link: vocabulary.LinkKind | None
    score: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at all cards of a node, and at the devices beside them; the errors told since the last."""

    driver: Driver
    boot_id: str
    cards: tuple[Card | Lost, ...]
    partitions: tuple[Partition, ...] = ()
    devices: tuple[Device, ...] = ()
    xids: tuple[Xid, ...] = ()

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


@runtime_checkable
class Listener(Protocol):
    """A probe to which its driver tells errors between looks."""

    def has_news(self) -> bool:
        """Return, without waiting, whether there is something to look at; never asked beside a look."""


@runtime_checkable
class Closer(Protocol):
    """A probe that holds something open between looks."""

    def close(self) -> None:
        """Let go of it; never asked beside a look."""


@runtime_checkable
class Locator(Protocol):
    """A probe that can tell how far a look has come."""

    def whereabouts(self) -> str:
        """Describe what the look under way is doing, such as "reading card 3"; asked when it hangs."""


class Probe(Protocol):
    """Something that can look at the cards of one node."""

    def sample(self) -> Outcome:
        """Look once. May block, is never called twice at a time, and should not raise."""
