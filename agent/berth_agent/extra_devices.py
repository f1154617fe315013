"""A probe that adds to the cards of a node what other devices stand beside them.

The cards decide whether the source answers: what stands beside them is listed only in a
sample, and where they say nothing the Device stays as it was, with all that is in it.
Devices that clash with one that is already listed are left out, and so are those past the
room of the list: the server would refuse the cards along with them. The cards come first,
then the kernel's devices, then those of files in the order of their names. Should
reading them fail, those that were read last stand, and the cards are looked at all the same.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from berth_agent import card_processes, probe
from berth_crds import schema_limits, vocabulary

log = logging.getLogger(__name__)

DRIVER: Final = "the driver"

Reader = Callable[[], tuple[probe.Device, ...]]


class Beside:
    """Looks at cards, and then at the devices beside them."""

    def __init__(self, cards: probe.Probe, readers: Sequence[Reader]) -> None:
        self._cards = cards
        self._readers = tuple(map(Steady, readers))
        self._left_out: tuple[str, ...] = ()
        self._reads = False  # What stands beside the cards, just now.

    def sample(self) -> probe.Outcome:
        """Look once."""
        outcome = self._cards.sample()
        if isinstance(outcome, probe.SourceFailed):
            return outcome
        self._reads = True
        read = tuple(device for reader in self._readers for device in reader())
        self._reads = False
        fitting, left_out = sorted_out(outcome, read)
        self._tell(left_out)
        return dataclasses.replace(outcome, devices=fitting)

    def processes(self) -> tuple[card_processes.Process, ...] | None:
        """List the processes on the cards, where the probe of these can tell."""
        return self._cards.processes() if isinstance(self._cards, card_processes.Processes) else None

    def has_news(self) -> bool:
        """Return whether the cards' driver has told an error, where the probe of these listens."""
        return isinstance(self._cards, probe.Listener) and self._cards.has_news()

    def whereabouts(self) -> str:
        """Return what the look under way is doing, where the probe of the cards can tell."""
        if self._reads:
            return "reading the devices beside the cards"
        return self._cards.whereabouts() if isinstance(self._cards, probe.Locator) else ""

    def close(self) -> None:
        """Let go of the cards, where the probe of these holds them."""
        if isinstance(self._cards, probe.Closer):
            self._cards.close()

    def _tell(self, left_out: tuple[str, ...]) -> None:
        for sentence in left_out:
            if sentence not in self._left_out:
                log.warning("%s", sentence)
        self._left_out = left_out


class Steady:
    """A reader that lists what it did last, should it fail, and says so once."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._last: tuple[probe.Device, ...] = ()
        self._fails = False

    def __call__(self) -> tuple[probe.Device, ...]:
        """Read, or repeat what was read."""
        try:
            self._last = self._reader()
        except Exception:
            if not self._fails:
                log.exception("devices beside the cards cannot be read; those that were read last stand")
            self._fails = True
        else:
            self._fails = False
        return self._last


def sorted_out(
    sample: probe.Sample, devices: Sequence[probe.Device]
) -> tuple[tuple[probe.Device, ...], tuple[str, ...]]:
    """Return the devices that clash with nothing, and a sentence for each of the others.

    A lost card keeps the room that it may need.
    """
    uuids = dict.fromkeys(_uuids(sample), DRIVER)
    minors = dict.fromkeys(((str(vocabulary.DeviceType.GPU), each.minor) for each in sample.read()), DRIVER)
    room = max(0, schema_limits.MOST_DEVICES - len(sample.cards))
    fitting: list[probe.Device] = []
    left_out: list[str] = []
    for each in devices:
        key = each.type, each.minor
        if each.uuid in uuids:
            why = f"{uuids[each.uuid]} names this uuid already"
        elif key in minors:
            why = f"{minors[key]} names a device of type {each.type} and minor {each.minor} already"
        elif len(fitting) >= room:
            why = f"the list has room for {schema_limits.MOST_DEVICES} alone"
        else:
            uuids[each.uuid] = minors[key] = each.origin
            fitting.append(each)
            continue
        left_out.append(f"the device {each.uuid} of {each.origin} is left out: {why}")
    return tuple(fitting), tuple(left_out)


def _uuids(sample: probe.Sample) -> Iterator[str]:
    """Name the cards, and the MIG instances that they are cut into."""
    for card in sample.cards:
        yield card.uuid
        if isinstance(card, probe.Card) and card.mig is not None:
            yield from (one.uuid for one in card.mig.instances)
