"""GPU models as data: what a card of a given name is, and what a usual node of it looks like.

The catalogue serves everything that must speak of cards without having one: the probe
without hardware, the simulation, translation of MIG requests, tests. It is never the
last word on a real card: memory differs by driver version and ECC mode, boards differ by
maker, and what the agent read from the driver stands in the Device.

Names are those that the driver reports, which are not those of the data sheets
("Tesla T4", "NVIDIA A100 80GB PCIe"). People write them in many ways; `normal_model` is
the one spelling for labels and summaries, and `find` accepts all of them.
"""

import functools
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MIB: Final = 1024**2
GIB: Final = 1024**3

_VENDOR: Final = re.compile(r"^(nvidia-)+(?=.)", re.IGNORECASE)


class Nvlinks(StrEnum):
    """How the cards of a board are joined by NVLink."""

    NONE = "none"
    FULL = "full"
    CUBE = "cube"


@dataclass(frozen=True, slots=True)
class MigProfile:
    """One way to cut a card: its name, its slices of compute and of memory, and where these may start."""

    name: str
    compute: int
    slices: int
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BoardLayout:
    """How many cards a usual node has, and how they hang together; cards are counted from 0."""

    cards: int
    numa_nodes: int
    pcie_roots: int
    nvlinks: Nvlinks = Nvlinks.NONE
    count: int = 0

    def numa_node(self, card: int) -> int:
        """Return the NUMA node of a card."""
        return card * self.numa_nodes // self.cards

    def pcie_root(self, card: int) -> int:
        """Return the number of the PCIe root above a card."""
        return card * self.pcie_roots // self.cards

    def links(self, card: int, peer: int) -> int:
        """Return the number of NVLinks between two different cards."""
        return CUBE[card][peer] if self.nvlinks is Nvlinks.CUBE else self.count


@dataclass(frozen=True, slots=True)
class Model:
    """One model of card."""

    name: str
    memory: int
    compute_capability: str
    layout: BoardLayout
    mig: tuple[MigProfile, ...] = ()
    also: tuple[str, ...] = ()

    @property
    def normal_name(self) -> str:
        """Return the spelling for labels and summaries."""
        return normal_model(self.name)


# NVLinks between the cards of a DGX-1 with V100: a hybrid cube mesh, six links for each card.
CUBE: Final = (
    (0, 1, 1, 2, 2, 0, 0, 0),
    (1, 0, 2, 1, 0, 2, 0, 0),
    (1, 2, 0, 2, 0, 0, 1, 0),
    (2, 1, 2, 0, 0, 0, 0, 1),
    (2, 0, 0, 0, 0, 1, 1, 2),
    (0, 2, 0, 0, 1, 0, 2, 1),
    (0, 0, 1, 0, 1, 2, 0, 2),
    (0, 0, 0, 1, 2, 1, 2, 0),
)

_QUAD: Final = BoardLayout(cards=4, numa_nodes=2, pcie_roots=4)
_OCTO: Final = BoardLayout(cards=8, numa_nodes=2, pcie_roots=4)
_DGX_1V: Final = BoardLayout(cards=8, numa_nodes=2, pcie_roots=4, nvlinks=Nvlinks.CUBE)
_HGX_A100: Final = BoardLayout(cards=8, numa_nodes=2, pcie_roots=4, nvlinks=Nvlinks.FULL, count=12)
_HGX_H100: Final = BoardLayout(cards=8, numa_nodes=2, pcie_roots=8, nvlinks=Nvlinks.FULL, count=18)

_ANYWHERE: Final = (0, 1, 2, 3, 4, 5, 6)


def _sevenths(eighth: str, quarter: str, half: str, full: str) -> tuple[MigProfile, ...]:
    """Cut a card of seven compute and eight memory slices, given how its sizes are called."""
    return (
        MigProfile(f"1g.{eighth}", compute=1, slices=1, starts=_ANYWHERE),
        MigProfile(f"1g.{eighth}+me", compute=1, slices=1, starts=_ANYWHERE),
        MigProfile(f"1g.{quarter}", compute=1, slices=2, starts=(0, 2, 4, 6)),
        MigProfile(f"2g.{quarter}", compute=2, slices=2, starts=(0, 2, 4)),
        MigProfile(f"3g.{half}", compute=3, slices=4, starts=(0, 4)),
        MigProfile(f"4g.{half}", compute=4, slices=4, starts=(0,)),
        MigProfile(f"7g.{full}", compute=7, slices=8, starts=(0,)),
    )


_MIG_24: Final = (
    MigProfile("1g.6gb", compute=1, slices=1, starts=(0, 1, 2, 3)),
    MigProfile("1g.6gb+me", compute=1, slices=1, starts=(0, 1, 2, 3)),
    MigProfile("2g.12gb", compute=2, slices=2, starts=(0, 2)),
    MigProfile("2g.12gb+me", compute=2, slices=2, starts=(0, 2)),
    MigProfile("4g.24gb", compute=4, slices=4, starts=(0,)),
)
_MIG_40: Final = _sevenths("5gb", "10gb", "20gb", "40gb")
_MIG_80: Final = _sevenths("10gb", "20gb", "40gb", "80gb")
_MIG_96: Final = _sevenths("12gb", "24gb", "48gb", "96gb")
_MIG_141: Final = _sevenths("18gb", "35gb", "71gb", "141gb")
_MIG_180: Final = _sevenths("23gb", "45gb", "90gb", "180gb")

MODELS: Final = (
    Model("Tesla P100-PCIE-16GB", 16384 * MIB, "6.0", _QUAD, also=("P100", "P100-PCIE-16GB")),
    Model("Tesla V100-PCIE-16GB", 16384 * MIB, "7.0", _OCTO, also=("V100-PCIE-16GB",)),
    Model("Tesla V100-PCIE-32GB", 32768 * MIB, "7.0", _OCTO, also=("V100-PCIE-32GB",)),
    Model("Tesla V100-SXM2-16GB", 16384 * MIB, "7.0", _DGX_1V, also=("V100-SXM2-16GB",)),
    Model("Tesla V100-SXM2-32GB", 32768 * MIB, "7.0", _DGX_1V, also=("V100-SXM2-32GB",)),
    Model("Tesla T4", 15360 * MIB, "7.5", _QUAD, also=("T4",)),
    Model("NVIDIA A10", 23028 * MIB, "8.6", _QUAD),
    Model("NVIDIA A30", 24576 * MIB, "8.0", _QUAD, _MIG_24),
    Model("NVIDIA A40", 46068 * MIB, "8.6", _OCTO),
    Model("NVIDIA A100-PCIE-40GB", 40960 * MIB, "8.0", _OCTO, _MIG_40),
    Model("NVIDIA A100-SXM4-40GB", 40960 * MIB, "8.0", _HGX_A100, _MIG_40),
    Model("NVIDIA A100 80GB PCIe", 81920 * MIB, "8.0", _OCTO, _MIG_80, also=("A100-PCIE-80GB",)),
    # Some drivers leave out what they reserve, so that it is not a whole number of MiB; others say 81920.
    Model("NVIDIA A100-SXM4-80GB", 85_198_045_184, "8.0", _HGX_A100, _MIG_80),
    Model("NVIDIA RTX A6000", 49140 * MIB, "8.6", _OCTO, also=("A6000",)),
    Model("NVIDIA L4", 23034 * MIB, "8.9", _QUAD),
    Model("NVIDIA L40S", 46068 * MIB, "8.9", _OCTO),
    Model("NVIDIA GeForce RTX 4090", 24564 * MIB, "8.9", _OCTO, also=("RTX 4090",)),
    Model("NVIDIA H100 PCIe", 81559 * MIB, "9.0", _OCTO, _MIG_80),
    Model("NVIDIA H100 80GB HBM3", 81559 * MIB, "9.0", _HGX_H100, _MIG_80, also=("H100-SXM5-80GB",)),
    Model("NVIDIA H20", 97871 * MIB, "9.0", _HGX_H100, _MIG_96),
    Model("NVIDIA H200", 143771 * MIB, "9.0", _HGX_H100, _MIG_141),
    Model("NVIDIA B200", 183359 * MIB, "10.0", _HGX_H100, _MIG_180),
)


# Behind the NVLink switch of an HGX board any cards reach each other alike, but only these halves,
# quarters and eighths, by minors, leave whole ones to those who come later.
HALVES_OF_EIGHT: Final = tuple(
    tuple(range(first, first + size)) for size in (1, 2, 4, 8) for first in range(0, 8, size)
)
# Models of whose boards that is taken for granted where a Device has no table. On PCIe they have no switch.
_SWITCHED: Final = re.compile(r"(H100|H800|H20)(?!.*(PCIe|NVL))(-.*)?", re.IGNORECASE)


@functools.lru_cache(maxsize=1024)
def partitions(model: str) -> tuple[tuple[int, ...], ...]:
    """Return the groups of minors in which cards of a model are best given out; none if that is not known."""
    return HALVES_OF_EIGHT if _SWITCHED.fullmatch(normal_model(model)) else ()


def normal_model(name: str) -> str:
    """Return the one spelling of a model: no vendor, no spaces, such as `A100-SXM4-80GB`."""
    return _VENDOR.sub("", "-".join(name.split()), count=1)


def _folded(name: str) -> str:
    return normal_model(name).casefold()


_BY_KEY: Final = {_folded(spelling): model for model in MODELS for spelling in (model.name, *model.also)}


def find(name: str) -> Model | None:
    """Find a model by any of its spellings; case, vendor and spaces are ignored."""
    return _BY_KEY.get(_folded(name))


@functools.lru_cache(maxsize=1024)
def model_key(name: str) -> str:
    """Return what two spellings of one model have in common, for comparing, such as `T4` and `Tesla T4`."""
    known = find(name)
    return _folded(known.name if known else name)
