"""What a probe returns: a sample of the cards of a node, or a failure.

A probe is asked for one sample at a time, in a thread with a deadline, and may block: drivers do,
for seconds, when a card is failing. Samples are plain frozen values, the same for the simulated
probe, the one for real hardware and tests.

Failure is data, of two kinds. A card that cannot be read is a `LostCard` among the good ones. A source
that fails as a whole is `SourceFailed`. Neither is ever an empty list, for a list without cards means
that the node has none.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

from berth_crds import schema_limits, text, vocabulary, wire

UNKNOWN_LOCATION: Final = wire.Topology()


def model_name(raw: str) -> str:
    """Return the name of a model as one line that the schema takes, from a driver or a file."""
    return text.line(raw, most=schema_limits.LONGEST_MODEL)


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """The health of a card or extra device, and the reason for it."""

    state: vocabulary.Health = vocabulary.Health.HEALTHY
    reason: str = ""
    xid: int | None = None
    message: str = ""
    recovery: vocabulary.Recovery | None = None


@dataclass(frozen=True, slots=True)
class RemappedRows:
    """The replaced rows of a card's memory, and whether a replacement waits for a reset or failed."""

    corrected: int
    uncorrected: int
    pending: bool
    failed: bool


@dataclass(frozen=True, slots=True)
class Measurements:
    """The measurements of a card; None where it does not support one.

    Memory in bytes, power in milliwatts, clocks in megahertz, temperatures in degrees Celsius,
    utilisation in percent of the time. Errors are counted since the driver was loaded. At
    `slowdown_temperature` the hardware slows itself down. `recovery` is what the driver requests.
    """

    memory_reserved: int | None = None
    memory_used: int | None = None
    memory_free: int | None = None
    utilization: int | None = None
    memory_utilization: int | None = None
    encoder_utilization: int | None = None
    decoder_utilization: int | None = None
    power: int | None = None
    power_limit: int | None = None
    temperature: int | None = None
    slowdown_temperature: int | None = None
    core_clock: int | None = None
    memory_clock: int | None = None
    errors_corrected: int | None = None
    errors_uncorrected: int | None = None
    remapped_rows: RemappedRows | None = None
    retirement_pending: bool | None = None
    recovery: vocabulary.Recovery | None = None


@dataclass(frozen=True, slots=True)
class Card:
    """One card that answered.

    A source that judges its cards by itself sets `health`. Where that is None, the card is judged by
    its `measurements` and the XIDs of the sample. `labels` are those that people give it.
    """

    uuid: str
    minor: int
    index: int
    model: str
    memory: int
    compute_capability: str = ""
    module_id: int | None = None
    vendor: str = "nvidia"
    location: wire.Topology = UNKNOWN_LOCATION
    links: tuple[wire.Link, ...] = ()
    mig: wire.Mig | None = None
    health: DeviceHealth | None = DeviceHealth()
    measurements: Measurements = Measurements()
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class XidEvent:
    """An error that the driver reported for a card, by NVIDIA's number."""

    uuid: str
    number: int


@dataclass(frozen=True, slots=True)
class ExtraDevice:
    """One extra device, such as a network card, as it is listed in the Device.

    A source that judges the device by itself sets `health`. Where that is None, the device is judged
    by its `problem` just now, if it has one. `origin` names its source for people.
    """

    entry: wire.Card
    health: DeviceHealth | None = DeviceHealth()
    problem: DeviceHealth | None = None
    origin: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class LostCard:
    """One card that is there but cannot be read.

    Its uuid is empty where even that is unknown. Then its PCI address identifies it better than its
    index, which is a position in a list that gets shorter. `judged_by_source` is true where the source
    judges cards by itself: then there is no cool-down.
    """

    index: int
    reason: str
    message: str
    uuid: str = ""
    bus_id: str | None = None
    judged_by_source: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """All cards of a node, its extra devices, and the errors reported since the sample before."""

    driver: wire.Driver
    boot_id: str
    cards: tuple[Card | LostCard, ...]
    partitions: tuple[wire.Partition, ...] = ()
    devices: tuple[ExtraDevice, ...] = ()
    xids: tuple[XidEvent, ...] = ()

    def answering_cards(self) -> Iterator[Card]:
        """Return the cards that answered."""
        return (card for card in self.cards if isinstance(card, Card))

    def lost_cards(self) -> Iterator[LostCard]:
        """Return the cards that did not."""
        return (card for card in self.cards if isinstance(card, LostCard))


@dataclass(frozen=True, slots=True)
class Process:
    """One process on a card or on a MIG instance, whichever the driver names by `uuid`.

    `pid` is that of the host. `memory` is in bytes of the card, None where the driver does not report
    it. The driver does not know which pod a process belongs to; `gpupods` finds that out.
    """

    pid: int
    uuid: str
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class SourceFailed:
    """The source failed as a whole; reason is one CamelCase word, message a sentence."""

    reason: str
    message: str


Outcome = Sample | SourceFailed


@runtime_checkable
class EventSource(Protocol):
    """A probe whose driver reports errors between samples."""

    def has_events(self) -> bool:
        """Return, without waiting, whether there are events; never called during a sample."""


@runtime_checkable
class ProcessLister(Protocol):
    """A probe that can list the processes on the cards; without one, nothing is known about processes."""

    def processes(self) -> tuple[Process, ...] | None:
        """Return all of them, None where that is not known. May block, and should not raise."""


@runtime_checkable
class Closable(Protocol):
    """A probe that holds something open between samples."""

    def close(self) -> None:
        """Close it; never called during a sample."""


@runtime_checkable
class ProgressReporter(Protocol):
    """A probe that reports how far a sample has come."""

    def progress(self) -> str:
        """Return what the current sample is doing, such as "reading card 3"; called when it hangs."""


class Probe(Protocol):
    """A source of samples of the cards of one node."""

    def sample(self) -> Outcome:
        """Sample once. May block, is never called twice at a time, and should not raise."""
