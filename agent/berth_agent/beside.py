"""A probe that adds to the cards of a node what other devices stand beside them.

The cards decide whether the source answers: what stands beside them is listed only in a
sample, and where they say nothing the Device stays as it was, with all that is in it.
Devices that clash with one that is already listed are left out, and so are those past the
room of the list: the server would refuse the cards along with them.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from berth_agent import probe, processes
from berth_crds import vocabulary

log = logging.getLogger(__name__)

MOST_LISTED: Final = 64  # The schema takes no more.

Reader = Callable[[], tuple[probe.Device, ...]]


class Beside:
    """Looks at cards, and then at the devices beside them."""

    def __init__(self, cards: probe.Probe, readers: Sequence[Reader]) -> None:
        self._cards = cards
        self._readers = readers
        self._left_out: frozenset[str] = frozenset()
        self._reads = False  # What stands beside the cards, just now.

    def sample(self) -> probe.Outcome:
        """Look once."""
        outcome = self._cards.sample()
        if isinstance(outcome, probe.SourceFailed):
            return outcome
        self._reads = True
        read = tuple(device for reader in self._readers for device in reader())
        self._reads = False
        found = tuple(_fitting(outcome, read))
        self._tell(frozenset(each.uuid for each in read if each not in found))
        return dataclasses.replace(outcome, devices=found)

    def processes(self) -> tuple[processes.Process, ...] | None:
        """List the processes on the cards, where the probe of these can tell."""
        return self._cards.processes() if isinstance(self._cards, processes.Processes) else None

    def has_news(self) -> bool:
        """Say whether the cards' driver has told an error, where the probe of these listens."""
        return isinstance(self._cards, probe.Listener) and self._cards.has_news()

    def whereabouts(self) -> str:
        """Say what the look under way is doing, where the probe of the cards can tell."""
        if self._reads:
            return "reading the devices beside the cards"
        return self._cards.whereabouts() if isinstance(self._cards, probe.Locator) else ""

    def close(self) -> None:
        """Let go of the cards, where the probe of these holds them."""
        if isinstance(self._cards, probe.Closer):
            self._cards.close()

    def _tell(self, left_out: frozenset[str]) -> None:
        for uuid in sorted(left_out - self._left_out):
            log.warning("the device %s is left out: its uuid or minor is taken, or the list is full", uuid)
        self._left_out = left_out


def _fitting(sample: probe.Sample, devices: Sequence[probe.Device]) -> Iterator[probe.Device]:
    """Give the devices that clash with nothing; a lost card keeps the room that it may need."""
    uuids = {each.uuid for each in sample.cards}
    minors = {(str(vocabulary.DeviceType.GPU), each.minor) for each in sample.read()}
    room = max(0, MOST_LISTED - len(sample.cards))
    for each in devices:
        if room and each.uuid not in uuids and (each.type, each.minor) not in minors:
            uuids.add(each.uuid)
            minors.add((each.type, each.minor))
            room -= 1
            yield each
