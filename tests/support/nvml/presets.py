"""Machines for the mock of NVML: what its file of state says of some well-known ones.

Names, memory and NVLinks come from the catalogue; addresses, NUMA nodes, minors and
topology are written down here as such machines have them, on purpose not as the
simulated probe makes them up: where the two agree, the agreement means something.
"""

import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from berth_crds import catalog

State = dict[str, str]

NAMESPACE: Final = uuid.UUID("5c1b0f4e-8f0a-4a5e-9c1d-6d0c8a3f2b71")
DRIVER: Final = {
    "driver.version": "550.107.02",
    "driver.nvml": "12.550.107.02",
    "driver.cuda": "12040",
}
GPU, SWITCH = 0, 2  # What an NVLink leads to.
SAME_SWITCH, SWITCHES, BRIDGE, NODE, SYSTEM = 10, 20, 30, 40, 50  # Levels of topology.
EVENTS: Final = 0x1 | 0x2 | 0x8  # Single-bit and double-bit ECC errors, XIDs.


@dataclass(frozen=True, slots=True)
class Seat:
    """Where one card sits; `numa` is what sysfs says of it, `switch` names the PCIe switch above."""

    model: str
    bus: int
    numa: int
    root: int
    switch: str
    minor: int
    module: int | None = None

    @property
    def address(self) -> str:
        """Return the PCI address as sysfs spells it."""
        return f"0000:{self.bus:02x}:00.0"

    @property
    def known(self) -> catalog.Model:
        """Return what the catalogue knows of it."""
        found = catalog.find(self.model)
        assert found, f"{self.model} is not in the catalogue"
        return found


Level = Callable[[Seat, Seat], int]


@dataclass(frozen=True, slots=True)
class Preset:
    """A whole machine: its seats, the state that follows, and the shape that simulates the same cards."""

    name: str
    shape: str
    seats: tuple[Seat, ...]
    state: Mapping[str, str]


# ---------------------------------------------------------------- what follows from seats


def _uuid(kind: str, *what: object) -> str:
    return f"{kind}-{uuid.uuid5(NAMESPACE, '/'.join(map(str, what)))}"


def _card(machine: str, number: int, seat: Seat) -> Iterator[tuple[str, object]]:
    model = seat.known
    yield "uuid", _uuid("GPU", machine, number)
    yield "name", model.name
    yield "serial", 1320000000000 + number
    yield "minor", seat.minor
    if seat.module is not None:
        yield "module", seat.module
    yield "bus", f"00000000:{seat.bus:02X}:00.0"
    yield "capability", model.compute_capability.replace(".", " ")
    yield "memory", f"{model.memory} {512 * catalog.MIB} 0"
    yield from _readings()
    if model.mig:
        yield "mig.mode", "0 0"
        yield "mig.max", 7


def _readings() -> Iterator[tuple[str, object]]:
    """Return what an idle, healthy card measures."""
    yield "utilization", "0 0"
    yield "encoder", "0 167000"
    yield "decoder", "0 167000"
    yield "power", 62_000
    yield "power.limit", 400_000
    yield "temperature", 31
    yield "threshold.0", 98
    yield "threshold.1", 95
    yield "clock.1", 1410
    yield "clock.2", 1593
    yield "ecc.mode", "1 1"
    yield "ecc.0.0", 0
    yield "ecc.1.0", 0
    yield "rows", "0 0 0 0"
    yield "events", EVENTS
    yield "field.230", 0  # GPU recovery action: none.


def _ancestors(seats: Sequence[Seat], level: Level) -> Iterator[tuple[str, object]]:
    for (low, one), (high, other) in itertools.combinations(enumerate(seats), 2):
        yield f"ancestor.{low}.{high}", level(one, other)


def _by_switch(one: Seat, other: Seat) -> int:
    if one.switch == other.switch:
        return SAME_SWITCH
    return NODE if one.numa == other.numa else SYSTEM


def _nvlinks(seats: Sequence[Seat]) -> Iterator[tuple[str, object]]:
    """Lay the NVLinks: through switches on a full topology, from card to card on a cube."""
    ends: list[list[str]] = [[] for _ in seats]
    for low, high in itertools.combinations(range(len(seats)), 2):
        topology = seats[low].known.layout
        if topology.nvlinks is catalog.Nvlinks.CUBE:
            for one, other in ((low, high), (high, low)):
                to = f"1 {GPU} 00000000:{seats[other].bus:02X}:00.0"
                ends[one] += [to] * topology.links(low, high)
    for number, seat in enumerate(seats):
        if seat.known.layout.nvlinks is catalog.Nvlinks.FULL:
            ends[number] = [f"1 {SWITCH} 00000000:{0xC4 + each % 6:02X}:00.0" for each in range(_links(seat))]
    for number, links in enumerate(ends):
        if links:
            yield f"card.{number}.nvlinks", len(links)
        yield from ((f"card.{number}.nvlink.{each}", line) for each, line in enumerate(links))


def _links(seat: Seat) -> int:
    return seat.known.layout.count


def _preset(
    name: str, shape: str, seats: Sequence[Seat], level: Level = _by_switch, **more: object
) -> Preset:
    pairs: list[tuple[str, object]] = [*DRIVER.items(), *_ancestors(seats, level), *_nvlinks(seats)]
    for number, seat in enumerate(seats):
        pairs += [(f"card.{number}.{key}", value) for key, value in _card(name, number, seat)]
    pairs += [(key.replace("__", "."), value) for key, value in more.items()]
    return Preset(name, shape, tuple(seats), {key: str(value) for key, value in pairs})


# ---------------------------------------------------------------- MIG

# NVML's enum of a profile, its id, slices, MiB and name on an A100 with 80 GB.
PROFILES_80: Final = (
    (0, 19, 1, 9728, "MIG 1g.10gb"),
    (1, 14, 2, 19968, "MIG 2g.20gb"),
    (2, 9, 3, 40192, "MIG 3g.40gb"),
    (3, 5, 4, 40192, "MIG 4g.40gb"),
    (4, 0, 7, 80896, "MIG 7g.80gb"),
    (7, 20, 1, 9728, "MIG 1g.10gb+me"),
    (9, 15, 1, 19968, "MIG 1g.20gb"),
)


def instance(machine: str, enum: int, gi: int, start: int, *, size: int, compute: int | None = None) -> str:
    """Write the line of one MIG instance of a card with 80 GB; `compute` slices, if not all of them."""
    _, profile, slices, mib, _ = next(each for each in PROFILES_80 if each[0] == enum)
    cut = slices if compute is None else compute
    return f"{_uuid('MIG', machine, gi, cut)} {gi} 0 {mib} {slices} {cut} {profile} {start} {size}"


def _profiles() -> Iterator[tuple[str, object]]:
    for enum, profile, slices, mib, name in PROFILES_80:
        yield f"card__0__profile__{enum}", f"{profile} {slices} {mib} {name}"


def _mig_lines() -> dict[str, object]:
    return {
        **dict(_profiles()),
        "card__0__mig__mode": "1 1",
        "card__0__mig__0": instance("mig", 2, 1, 4, size=4),
        "card__0__mig__1": instance("mig", 1, 3, 0, size=2),
        # Number 2 was given back: the numbers of MIG devices have holes.
        "card__0__mig__3": instance("mig", 0, 9, 2, size=1),
        "card__0__mig__4": instance("mig", 7, 11, 3, size=1),
    }


# ---------------------------------------------------------------- machines


def _seats(
    model: str, buses: Sequence[int], numa: Sequence[int], modules: Sequence[int] | None = None
) -> tuple[Seat, ...]:
    """Seat cards two to a switch; each NUMA node has a root of its own."""
    return tuple(
        Seat(
            model=model,
            bus=bus,
            numa=numa[each],
            root=numa[each] * 0x20,
            switch=f"{numa[each]}/{each // 2}",
            minor=each,
            module=modules[each] if modules else None,
        )
        for each, bus in enumerate(buses)
    )


def _mixed_level(one: Seat, other: Seat) -> int:
    if one.model != other.model:
        return NODE
    return SWITCHES if one.model == "Tesla T4" else BRIDGE


_BY_HALF: Final = (0, 0, 0, 0, 1, 1, 1, 1)
_ONE_TO_EIGHT: Final = (1, 2, 3, 4, 5, 6, 7, 8)
_A100: Final = "NVIDIA A100-SXM4-80GB"

# Sysfs knows no NUMA node of these, and their minors are in another order than their indices.
_MIXED: Final = (
    Seat("Tesla T4", 0x04, -1, 0x00, "t", minor=2),
    Seat("Tesla T4", 0x05, -1, 0x00, "t", minor=0),
    Seat("Tesla V100-PCIE-16GB", 0x3B, -1, 0x3A, "a", minor=3),
    Seat("Tesla V100-PCIE-16GB", 0x3D, -1, 0x3A, "b", minor=1),
)

DGX_1V: Final = _preset(
    "dgx-1v",
    "8xV100-SXM2-16GB",
    _seats("Tesla V100-SXM2-16GB", (0x06, 0x07, 0x0A, 0x0B, 0x85, 0x86, 0x89, 0x8A), _BY_HALF, _ONE_TO_EIGHT),
)
DGX_A100: Final = _preset(
    "dgx-a100",
    "8xA100-SXM4-80GB",
    _seats(_A100, (0x07, 0x0F, 0x47, 0x4E, 0x87, 0x90, 0xB7, 0xBD), (3, 3, 1, 1, 7, 7, 5, 5), _ONE_TO_EIGHT),
)
HGX_H100: Final = _preset(
    "hgx-h100",
    "8xH100-80GB-HBM3",
    _seats(
        "NVIDIA H100 80GB HBM3",
        (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF),
        _BY_HALF,
        # Sockets of the topology are not in the order of the bus.
        (2, 4, 3, 1, 7, 5, 8, 6),
    ),
)
A10: Final = _preset(
    "8-a10",
    "8xA10",
    _seats("NVIDIA A10", (0x12, 0x13, 0x37, 0x38, 0x86, 0x87, 0xAF, 0xB0), _BY_HALF),
)
MIXED: Final = _preset("t4-v100", "2xT4+2xV100-PCIE-16GB", _MIXED, _mixed_level)
MIG: Final = _preset(
    "mig",
    "1xA100-SXM4-80GB",
    _seats(_A100, (0x07,), (0,), (1,)),
    _by_switch,
    **_mig_lines(),
)
NO_DRIVER: Final = Preset("no-driver", "", (), {**DRIVER, "driver.error": "9"})

PRESETS: Final = (DGX_1V, DGX_A100, HGX_H100, A10, MIXED, MIG, NO_DRIVER)
