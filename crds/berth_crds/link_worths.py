"""What it is worth that two cards are joined: the scheduler and the agents choose sets of cards by it. Pure.

One NVLink outweighs all paths through PCIe between the cards of a set, and each further NVLink counts again.
"""

from collections.abc import Mapping
from typing import Final

from berth_crds.vocabulary import LinkKind

NVLINK: Final = 10_000
PATHS: Final[Mapping[str, int]] = {
    LinkKind.PCIE_SWITCH: 50,
    LinkKind.PCIE_HOST: 30,
    LinkKind.NUMA: 20,
    LinkKind.SYSTEM: 10,
}


def of_link(kind: str, count: int | None) -> int:
    """Return what a link is worth; an unknown kind is worth nothing."""
    return NVLINK * (count or 1) if kind == LinkKind.NVLINK else PATHS.get(kind, 0)


def of_pair(link: int, nearness: int) -> int:
    """Return what a pair is worth: NVLink and nearness added, otherwise the better of the two."""
    return link + nearness if link >= NVLINK else max(link, nearness)
