"""The extra devices (RDMA, other accelerators) that stand in a sample beside the cards.

The cards decide whether the source fails: then the Device stays as it was, extra devices
included. A device that conflicts with one already listed is left out, and so is one past a
limit of the list, because the server would refuse the cards along with it. The cards come first,
then the kernel's devices, then those of files in the order of their names, then those of packages.
If reading extra devices fails, those that were read last stand, and the cards are sampled all the same.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from berth_agent import device_entries, device_totals, given_labels, probe
from berth_crds import schema_limits, vocabulary

log = logging.getLogger(__name__)

DRIVER: Final = "the driver"

Reader = Callable[[], tuple[probe.ExtraDevice, ...]]
LabelReader = Callable[[], tuple[device_entries.LabelEntry, ...]]


class ExtraDevices:
    """Reads the extra devices of one node, and the labels that files give to all its devices."""

    def __init__(self, readers: Iterable[Reader], labels: LabelReader = tuple) -> None:
        """`labels` is called after the readers."""
        self._last: dict[Reader, tuple[probe.ExtraDevice, ...]] = dict.fromkeys(readers, ())
        self._labels = labels
        self._failing: set[Reader] = set()
        self._left_out: tuple[str, ...] = ()

    def complete(self, sample: probe.Sample) -> probe.Sample:
        """Return a sample of cards with labels and extra devices; log once what is left out."""
        devices = [device for reader in self._last for device in self._read_or_keep(reader)]
        labelled = given_labels.applied(sample, devices, given_labels.GivenLabels(self._labels()))
        fitting, left_out = without_conflicts(labelled.sample, labelled.devices)
        left_out = (*labelled.left_out, *left_out)
        for sentence in left_out:
            if sentence not in self._left_out:
                log.warning("%s", sentence)
        self._left_out = left_out
        return dataclasses.replace(labelled.sample, devices=fitting)

    def _read_or_keep(self, reader: Reader) -> tuple[probe.ExtraDevice, ...]:
        """Return what a reader reads; if it fails, log that once, and return what it read last."""
        try:
            self._last[reader] = reader()
            self._failing.discard(reader)
        except Exception:
            if reader not in self._failing:
                log.exception("extra devices cannot be read; those that were read last stand")
            self._failing.add(reader)
        return self._last[reader]


def without_conflicts(
    sample: probe.Sample, devices: Iterable[probe.ExtraDevice]
) -> tuple[tuple[probe.ExtraDevice, ...], tuple[str, ...]]:
    """Return the devices without conflicts, and a sentence for each that is left out.

    A lost card keeps its room in the list.
    """
    uuids = dict.fromkeys(_uuids(sample), DRIVER)
    minors = dict.fromkeys(
        ((str(vocabulary.DeviceType.GPU), each.minor) for each in sample.answering_cards()), DRIVER
    )
    room = max(0, schema_limits.MOST_DEVICES - len(sample.cards))
    fitting: list[probe.ExtraDevice] = []
    left_out: list[str] = []
    totals = device_totals.of_cards(sample)
    for extra in devices:
        uuid, key = extra.entry.uuid, (extra.entry.type, extra.entry.minor)
        if uuid in uuids:
            why = f"{uuids[uuid]} names this uuid already"
        elif key in minors:
            why = f"{minors[key]} names a device of type {key[0]} and minor {key[1]} already"
        elif len(fitting) >= room:
            why = f"the list has room for {schema_limits.MOST_DEVICES} alone"
        elif excess := totals.excess(device_totals.sizes(extra.entry.labels, extra.entry.vf_groups)):
            why = excess
        else:
            uuids[uuid] = minors[key] = extra.origin
            fitting.append(extra)
            continue
        left_out.append(f"the device {uuid} of {extra.origin} is left out: {why}")
    return tuple(fitting), tuple(left_out)


def _uuids(sample: probe.Sample) -> Iterator[str]:
    """Yield the uuids of the cards and of their MIG instances."""
    for card in sample.cards:
        yield card.uuid
        if isinstance(card, probe.Card) and card.mig is not None:
            yield from (one.uuid for one in card.mig.instances)
