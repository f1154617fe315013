"""The probe without hardware: simulated cards from the catalogue, the same at every start.

A shape such as `8xA100-SXM4-80GB` stands for a usual machine with such cards: NUMA nodes, PCIe
roots, NVLinks and partitions follow the board in the catalogue. Uuids are derived from the name
of the node and the minor, so a restarted agent publishes what it published before. A file of
faults, read for each sample, breaks single cards or the whole source, so that people and tests
can watch what follows.
"""

import dataclasses
import itertools
import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final

import msgspec

from berth_agent import nvlink_groups, probe, sysfs
from berth_crds import catalog, names, schema_limits, text, vocabulary, wire
from berth_crds.text import quoted

log = logging.getLogger(__name__)

MOST_BYTES: Final = 1 << 20  # Of the file of faults.
BUSES_PER_ROOT: Final = 4
NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_DNS, names.GROUP)
DRIVER: Final = wire.Driver(version="simulated")

_PART: Final = re.compile(r"([0-9]{1,3})\s*x\s*(.+)", re.IGNORECASE)


class BadShape(Exception):
    """A shape that cannot be simulated; the message is one sentence for people."""


# ---------------------------------------------------------------- shapes


@dataclasses.dataclass(frozen=True, slots=True)
class Slot:
    """The position of one card: its board, its place on that, its PCIe root and the lane below it."""

    minor: int
    model: catalog.Model
    board: int
    place: int
    root: int
    lane: int

    @property
    def numa_node(self) -> int:
        """NUMA node of the card; every board spreads over the same ones."""
        return self.model.layout.numa_node(self.place)


def parse(shape: str) -> tuple[tuple[int, catalog.Model], ...]:
    """Return how many cards of which models a shape has, in order."""
    parts = tuple(_part(text.strip(), shape) for text in shape.split("+"))
    total = sum(count for count, _ in parts)
    if not 1 <= total <= schema_limits.MOST_DEVICES:
        raise BadShape(
            f"The shape {quoted(shape)} has {total} cards; a node may have 1 to {schema_limits.MOST_DEVICES}."
        )
    return parts


def _part(text: str, shape: str) -> tuple[int, catalog.Model]:
    if not (match := _PART.fullmatch(text)):
        raise BadShape(
            f"The shape {quoted(shape)} is not COUNTxMODEL, such as 8xA100-SXM4-80GB or 2xT4+1xL4."
        )
    count, name = match.groups()
    if (model := catalog.find(name)) is None:
        known = ", ".join(each.normal_name for each in catalog.MODELS)
        raise BadShape(f"There is no GPU model {quoted(name)} in the catalogue; known are {known}.")
    return int(count), model


def _slots(parts: tuple[tuple[int, catalog.Model], ...]) -> Iterator[Slot]:
    """Yield a slot for each card: models one after the other, each on as many boards as it needs."""
    minors, boards, roots = itertools.count(), itertools.count(), 0
    for count, model in parts:
        for start in range(0, count, model.layout.cards):
            board, seated = next(boards), min(model.layout.cards, count - start)
            yield from _on_board(
                model, board=board, first_root=roots, minors=list(itertools.islice(minors, seated))
            )
            roots += model.layout.pcie_root(seated - 1) + 1


def _on_board(model: catalog.Model, *, board: int, first_root: int, minors: list[int]) -> Iterator[Slot]:
    roots = [model.layout.pcie_root(place) for place in range(len(minors))]
    for place, minor in enumerate(minors):
        lane = roots[:place].count(roots[place])
        yield Slot(minor, model, board, place, root=first_root + roots[place], lane=lane)


# ---------------------------------------------------------------- machines


def machine(node: str, shape: str) -> probe.Sample:
    """Return the sample of a healthy node."""
    slots = tuple(_slots(parse(shape)))
    cards = tuple(_card(node, slot, slots) for slot in slots)
    return probe.Sample(
        driver=DRIVER,
        boot_id=boot_id(node),
        cards=cards,
        partitions=nvlink_groups.partitions(cards),
    )


def boot_id(node: str) -> str:
    """Return the id of the only boot of a simulated node."""
    return _identity(node, "boot")


def _identity(node: str, what: object) -> str:
    return str(uuid.uuid5(NAMESPACE, f"{node}/{what}"))


def _uuid(node: str, slot: Slot) -> str:
    return f"GPU-{_identity(node, slot.minor)}"


def _card(node: str, slot: Slot, slots: tuple[Slot, ...]) -> probe.Card:
    model = slot.model
    return probe.Card(
        uuid=_uuid(node, slot),
        minor=slot.minor,
        index=slot.minor,
        model=model.name,
        memory=model.memory,
        compute_capability=model.compute_capability,
        # Cards on a baseboard have numbered places; a card in a PCIe slot has none.
        module_id=None if model.layout.nvlinks is catalog.Nvlinks.NONE else slot.minor + 1,
        location=_place(slot),
        links=tuple(_link(node, slot, peer) for peer in slots if peer is not slot),
        mig=wire.Mig(enabled=False) if model.mig else None,
    )


def _place(slot: Slot) -> wire.Topology:
    bus = slot.root * BUSES_PER_ROOT
    return wire.Topology(
        numa_node=slot.numa_node,
        pcie_root=f"pci0000:{bus:02x}",
        bus_id=f"0000:{bus + 1 + slot.lane:02x}:00.0",
    )


def _link(node: str, slot: Slot, peer: Slot) -> wire.Link:
    """Return the closest link between two cards."""
    if count := slot.model.layout.links(slot.place, peer.place) if slot.board == peer.board else 0:
        return wire.Link(_uuid(node, peer), vocabulary.LinkKind.NVLINK, count)
    if slot.root == peer.root:
        return wire.Link(_uuid(node, peer), vocabulary.LinkKind.PCIE_SWITCH)
    if slot.numa_node == peer.numa_node:
        return wire.Link(_uuid(node, peer), vocabulary.LinkKind.NUMA)
    return wire.Link(_uuid(node, peer), vocabulary.LinkKind.SYSTEM)


# ---------------------------------------------------------------- faults


Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]


class Load(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What a card measures: percents, power in percent of its limit, and its free memory in MiB."""

    utilization: Percent | None = None
    encoder: Percent | None = None
    decoder: Percent | None = None
    power: Percent | None = None
    free_memory: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] | None = msgspec.field(
        default=None, name="freeMemoryMiB"
    )

    @property
    def measurements(self) -> probe.Measurements:
        """What a probe would return of such a card, with a limit of 100 W."""
        return probe.Measurements(
            utilization=self.utilization,
            encoder_utilization=self.encoder,
            decoder_utilization=self.decoder,
            power=None if self.power is None else self.power * 1000,
            power_limit=100_000,
            memory_free=None if self.free_memory is None else self.free_memory * catalog.MIB,
        )


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file of faults may say about one card, or about the whole source of a node.

    A card with a `load` that is to be well besides has the health Healthy.
    """

    health: vocabulary.Health = vocabulary.Health.UNHEALTHY
    reason: Annotated[str, msgspec.Meta(pattern="^[A-Za-z][A-Za-z0-9]{0,127}\\Z")] = "SimulatedFault"
    xid: Annotated[int, msgspec.Meta(ge=1, le=schema_limits.LARGEST_XID)] | None = None
    message: Annotated[str, msgspec.Meta(max_length=schema_limits.LONGEST_MESSAGE)] = (
        "broken by the file of faults"
    )
    recovery: vocabulary.Recovery | None = None
    lost: bool = False
    hang: bool = False
    load: Load | None = None


Faults = Mapping[str, Fault]  # by minor, or "source"

SOURCE: Final = "source"
NO_FAULTS: Final[Faults] = {}

_decoder = msgspec.json.Decoder(dict[str, dict[str, Fault]])


# ---------------------------------------------------------------- the probe


def wait() -> None:
    """Wait for a tenth of a second."""
    threading.Event().wait(0.1)


class SimulatedProbe:
    """Samples the simulated cards of one node; a file of faults breaks them, without one all are healthy."""

    def __init__(
        self,
        node: str,
        shape: str,
        faults: Path | None = None,
        complete: Callable[[probe.Sample], probe.Sample] = lambda sample: sample,
    ) -> None:
        """Make up the node, or raise `BadShape`; `complete` adds labels and what stands beside the cards."""
        self._node = node
        self._healthy = machine(node, shape)
        self._path = faults
        self._complete = complete
        self._logged: tuple[str, ...] = ()

    def sample(self) -> probe.Outcome:
        """Sample once; it hangs for as long as the file of faults says so."""
        while not isinstance(faults := self._read(), probe.SourceFailed):
            if (source := faults.get(SOURCE)) is None or not source.hang:
                return self._applied(faults)
            wait()
        return faults

    def _read(self) -> Faults | probe.SourceFailed:
        """Return the faults of now; a file that cannot be read is a failed source, not a healthy one."""
        if self._path is None:
            return NO_FAULTS
        try:
            faults = _decoder.decode(sysfs.contents(self._path, most=MOST_BYTES))
        except FileNotFoundError:
            self._warn("is not there")
            return NO_FAULTS
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            return probe.SourceFailed(
                "FaultsUnreadable", f"The file of faults {self._path} cannot be used: {text.cause(error)}."
            )
        if faults and self._node not in faults:
            self._warn(f"names other nodes, such as {quoted(min(faults))}")
        return faults.get(self._node, NO_FAULTS)

    def _applied(self, faults: Faults) -> probe.Outcome:
        """Return the sample with these faults; names of cards that are not there are only logged."""
        cards = {str(card.minor): card for card in self._healthy.answering_cards()}
        if faults:
            unknown = sorted(faults.keys() - cards.keys() - {SOURCE})
            self._warn(*(f"names minor {quoted(one)}, which is not there" for one in unknown))
        if source := faults.get(SOURCE):
            return probe.SourceFailed(source.reason, source.message)
        found = tuple(_broken(card, faults.get(minor)) for minor, card in cards.items())
        return self._complete(dataclasses.replace(self._healthy, cards=found))

    def _warn(self, *wrong: str) -> None:
        """Log what is wrong with the file, once until that changes."""
        if wrong != self._logged:
            for sentence in wrong:
                log.warning("node %s: the file of faults %s %s", self._node, self._path, sentence)
            self._logged = wrong


def _broken(card: probe.Card, fault: Fault | None) -> probe.Card | probe.LostCard:
    if fault is None:
        return card
    if fault.lost:
        return probe.LostCard(card.index, reason=fault.reason, message=fault.message, judged_by_source=True)
    if fault.load is not None:
        card = dataclasses.replace(card, measurements=fault.load.measurements)
    if fault.health is vocabulary.Health.HEALTHY:
        return card
    return dataclasses.replace(
        card,
        health=probe.DeviceHealth(fault.health, fault.reason, fault.xid, fault.message, fault.recovery),
    )
