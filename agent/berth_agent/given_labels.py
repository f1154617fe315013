"""The labels that people give to devices by files, beside those that the driver and the kernel imply. Pure.

An entry of a file says which devices it is about. What a file says counts more than what was found, and of
two entries that give one label different values, the first counts, by the order of the files' names. Virtual
functions of one device that have the same labels are one group of the Device. What is more than the server
takes is left out with a sentence: labels never cost a device.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from berth_agent import device_entries, device_spec, device_totals, found_devices, probe
from berth_crds import schema_limits, wire

MOST_LABELS: Final = device_totals.MOST_GIVEN
MOST_CHARACTERS: Final = device_totals.MOST_GIVEN_CHARACTERS

Key = tuple[str, str | None]


class GivenLabels:
    """All that the files of a node give."""

    def __init__(self, entries: Iterable[device_entries.LabelEntry] = ()) -> None:
        # By what an entry says first, so that each device is compared with few of them.
        self._by_key: dict[Key, list[tuple[int, device_entries.LabelEntry]]] = {}
        for place, entry in enumerate(entries):
            self._by_key.setdefault(_key(entry), []).append((place, entry))

    def __bool__(self) -> bool:
        """Whether they give any."""
        return bool(self._by_key)

    def of_device(self, card: wire.Card) -> Mapping[str, str]:
        """Return the labels for a device."""
        return _merged(entry.labels for entry in self._about(card))

    def groups(self, card: wire.Card) -> tuple[wire.VfGroup, ...]:
        """Return the virtual functions of a device in groups, with the labels that are for them."""
        for_all = [entry.function_labels for entry in self._about(card)] if card.vf_groups else []
        return found_devices.groups(
            (one, {**group.labels, **_merged((*self._at(one.bus_id, card), *for_all))})
            for group in card.vf_groups
            for one in group.vfs
        )

    def _about(self, card: wire.Card) -> list[device_entries.LabelEntry]:
        """Return the entries that are about a device, in their order."""
        keys: tuple[Key, ...] = ("uuid", card.uuid), ("bus_id", _address(card)), ("type", card.type)
        listed = itertools.chain.from_iterable(self._by_key.get(key, ()) for key in keys)
        fitting = ((place, entry) for place, entry in listed if _fits(entry, card, _address(card)))
        return [entry for _, entry in sorted(fitting, key=lambda pair: pair[0])]

    def _at(self, address: str, card: wire.Card) -> Iterator[Mapping[str, str]]:
        """Yield the labels for the virtual function of a device at an address."""
        for _, entry in self._by_key.get(("bus_id", address), ()):
            if entry.minor is None and _fits(entry, card, address):
                yield entry.labels


def _key(entry: device_entries.LabelEntry) -> Key:
    if entry.uuid is not None:
        return "uuid", entry.uuid
    return ("bus_id", entry.bus_id) if entry.bus_id is not None else ("type", entry.type)


def _fits(entry: device_entries.LabelEntry, card: wire.Card, address: str | None) -> bool:
    """Whether all that an entry says is so."""
    said = entry.uuid, entry.type, entry.minor, entry.bus_id
    so = card.uuid, card.type, card.minor, address
    return all(one is None or one == other for one, other in zip(said, so, strict=True))


def _address(card: wire.Card) -> str | None:
    return card.topology.bus_id if card.topology else None


def _merged(given: Iterable[Mapping[str, str]]) -> Mapping[str, str]:
    """Return the labels of several entries, of which the first counts."""
    found: dict[str, str] = {}
    for labels in given:
        found = {**labels, **found}
    return found


# ---------------------------------------------------------------- what is given fits


@dataclasses.dataclass(frozen=True, slots=True)
class Labelled:
    """Cards and devices with the labels that files give them, and a sentence for each that gets none."""

    sample: probe.Sample
    devices: tuple[probe.ExtraDevice, ...]
    left_out: tuple[str, ...] = ()


def applied(sample: probe.Sample, devices: Sequence[probe.ExtraDevice], given: GivenLabels) -> Labelled:
    """Return the cards of a sample, and the devices beside them, with the labels that are given to them."""
    if not given:
        return Labelled(sample, tuple(devices))
    giving = _Giving(given, device_totals.of_cards(sample))
    for one in devices:
        giving.totals.add(device_totals.sizes(one.entry.labels, one.entry.vf_groups))
    cards = tuple(giving.card(each) if isinstance(each, probe.Card) else each for each in sample.cards)
    labelled = tuple(dataclasses.replace(one, entry=giving.entry(one.entry)) for one in devices)
    return Labelled(dataclasses.replace(sample, cards=cards), labelled, tuple(giving.left_out))


class _Giving:
    """Gives labels to one device after the other, as long as the server takes them."""

    def __init__(self, given: GivenLabels, totals: device_totals.Totals) -> None:
        self._given = given
        self.totals = totals
        self.left_out: list[str] = []

    def card(self, reading: probe.Card) -> probe.Card:
        """Return a card of the driver with its labels."""
        labelled = self.entry(device_spec.card(reading))
        return dataclasses.replace(reading, labels=tuple(labelled.labels.items()))

    def entry(self, card: wire.Card) -> wire.Card:
        """Return a device with its labels; without those of files where they are too many."""
        labels, groups = self._given.of_device(card), self._given.groups(card)
        if not labels and groups == card.vf_groups:
            return card
        wanted = msgspec.structs.replace(
            card, labels=dict(sorted({**card.labels, **labels}.items())), vf_groups=groups
        )
        before = device_totals.sizes(card.labels, card.vf_groups)
        added = device_totals.more(device_totals.sizes(wanted.labels, groups), before)
        if why := _too_many(labels, groups) or self.totals.excess(added):
            self.left_out.append(f"the labels that files give {card.uuid} are left out: {why}")
            return card
        return wanted


def _too_many(labels: Mapping[str, str], groups: Sequence[wire.VfGroup]) -> str:
    """Return of what one device would have too much, as a clause; empty for nothing."""
    if len(groups) > schema_limits.MOST_GROUPS:
        return f"its virtual functions would have more than {schema_limits.MOST_GROUPS} sets of labels"
    mappings = labels, *(group.labels for group in groups)
    if max(map(len, mappings)) > MOST_LABELS:
        return f"they are more than {MOST_LABELS}"
    if max(map(device_totals.characters, mappings)) > MOST_CHARACTERS:
        return f"they have more than {MOST_CHARACTERS} characters"
    return ""
