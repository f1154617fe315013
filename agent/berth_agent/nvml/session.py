"""An open NVML library: it reads all cards, and caches what may be cached between samples.

A session begins with `nvmlInit` and ends with `nvmlShutdown`. The driver counts its cards at the
beginning and never again, so a card that is plugged in or reset is only seen by a new session; when
to begin one, `nvml_probe` decides.

The library counts its users and closes with the last. So there must be only one session in a process,
and errors and processes are read through it as well: a second one would keep the library open, and
no card would ever come back.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import pynvml

from berth_agent import probe, sysfs
from berth_agent.nvml import calls, cards, events, links
from berth_crds import schema_limits, text, wire

DRIVER: Final = "nvidia"  # As the kernel calls it.
# A version of the driver that is not text stays empty, since nothing depends on it.
NO_VERSION: Final = calls.ABSENT | {calls.UNREADABLE}

CardOutcome = links.CardReading | probe.LostCard


class Session:
    """The open library, and the facts of the cards seen through it."""

    def __init__(self, kernel: sysfs.Kernel, on_progress: Callable[[str], None] = lambda _: None) -> None:
        """Open the library, or raise `CallFailed`; `on_progress` is called with each step that begins."""
        self._kernel = kernel
        self._on_progress = on_progress
        self._facts: dict[str, cards.StaticFacts] = {}
        self._ancestors: dict[frozenset[str], int | None] = {}
        # The PCI addresses that the driver holds, None where the kernel does not say. They are read before
        # the library counts: a card that comes in between makes the session outdated.
        self.addresses = kernel.driven_by(DRIVER)
        calls.ask(pynvml.nvmlInit)
        self.events = events.Events()

    def close(self) -> None:
        """Close the library; a failure to close it does not matter."""
        self.events.close()
        calls.ask_or_nothing(pynvml.nvmlShutdown)

    def is_outdated(self) -> bool:
        """Whether the driver has got or released a card since the session began."""
        return self._kernel.driven_by(DRIVER) != self.addresses

    def driver(self) -> wire.Driver:
        """Return the versions of the driver."""
        version = calls.ask_or("", pynvml.nvmlSystemGetDriverVersion, expected=NO_VERSION)
        cuda = calls.ask_or(0, pynvml.nvmlSystemGetCudaDriverVersion_v2)
        newest = f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda > 0 else ""
        return wire.Driver(text.line(version, most=schema_limits.LONGEST_DRIVER_VERSION), newest)

    def read_cards(self) -> tuple[CardOutcome, ...]:
        """Return every card that the library counts, or why it is lost."""
        count = min(calls.ask(pynvml.nvmlDeviceGetCount), schema_limits.MOST_DEVICES)
        return tuple(_distinct(self._read(index) for index in range(count)))

    def _read(self, index: int) -> CardOutcome:
        uuid, address = "", None
        self._on_progress(f"reading card {index}")
        try:
            handle = calls.ask(pynvml.nvmlDeviceGetHandleByIndex, index)
            address = cards.address(handle)
            uuid = cards.uuid(handle)
            self._on_progress(f"reading card {index} ({uuid})")
            if (facts := self._facts.get(uuid)) is None or facts.location.bus_id != address:
                facts = self._facts[uuid] = cards.facts(handle, address, self._kernel)
            self.events.register(handle, uuid)
            return cards.read(handle, index, uuid=uuid, facts=facts)
        except calls.CallFailed as failure:
            return probe.LostCard(index, failure.reason, str(failure), uuid, address)

    def linked(self, readings: Sequence[links.CardReading]) -> Iterator[probe.Card]:
        """Yield the cards that answered, with their links to each other."""
        self._on_progress("asking how the cards are linked")
        for reading in readings:
            yield dataclasses.replace(
                reading.card, links=tuple(links.between(reading, readings, self._ancestor))
            )

    def _ancestor(self, one: links.CardReading, peer: links.CardReading) -> int | None:
        pair = frozenset((one.card.uuid, peer.card.uuid))
        if self._ancestors.get(pair) is None:
            self._ancestors[pair] = links.common_ancestor(one.handle, peer.handle)
        return self._ancestors[pair]


def _distinct(found: Iterable[CardOutcome]) -> Iterator[CardOutcome]:
    """Yield the cards; one with the uuid or minor of another is lost, since the schema would refuse all."""
    uuids: set[str] = set()
    minors: set[int] = set()
    for outcome in found:
        if isinstance(outcome, probe.LostCard):
            yield outcome
        elif outcome.card.uuid in uuids or outcome.card.minor in minors:
            yield probe.LostCard(outcome.card.index, "NotDistinct", "another card has the same uuid or minor")
        else:
            uuids.add(outcome.card.uuid)
            minors.add(outcome.card.minor)
            yield outcome
