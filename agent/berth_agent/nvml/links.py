"""The links between cards: NVLinks from the cards themselves, PCIe from the driver's topology.

An NVLink leads to another card or to a switch. Cards on switches reach each other through all links
that both have to it. For pairs without NVLink the driver knows the closest common ancestor; where it
does not, their locations from the kernel are used.
"""

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from berth_agent import probe
from berth_agent.nvml import calls
from berth_crds import schema_limits, vocabulary, wire

SWITCH: Final = "switch"  # The target of an NVLink that leads to no card; otherwise a PCI address.
MOST_NVLINKS: Final = pynvml.NVML_NVLINK_MAX_LINKS

KINDS: Final = {
    pynvml.NVML_TOPOLOGY_INTERNAL: vocabulary.LinkKind.PCIE_SWITCH,
    pynvml.NVML_TOPOLOGY_SINGLE: vocabulary.LinkKind.PCIE_SWITCH,
    pynvml.NVML_TOPOLOGY_MULTIPLE: vocabulary.LinkKind.PCIE_SWITCH,
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: vocabulary.LinkKind.PCIE_HOST,
    pynvml.NVML_TOPOLOGY_NODE: vocabulary.LinkKind.NUMA,
    pynvml.NVML_TOPOLOGY_SYSTEM: vocabulary.LinkKind.SYSTEM,
}

# Links beyond those that the card has are an invalid argument.
_NO_MORE: Final = calls.ABSENT | {pynvml.NVML_ERROR_INVALID_ARGUMENT}

NvlinkCounts = Mapping[str, int]  # The number of active NVLinks by target.


@dataclass(frozen=True, slots=True)
class CardReading:
    """One card that answered, still without its links, and its NVLinks by target."""

    handle: Any
    card: probe.Card
    nvlinks: NvlinkCounts


# ---------------------------------------------------------------- NVLinks of one card


def nvlinks(handle: Any, target_of: Callable[[int], str | None]) -> NvlinkCounts:
    """Return the number of active NVLinks of a card by target; `target_of` may cache that."""
    counts: collections.Counter[str] = collections.Counter()
    for number in range(MOST_NVLINKS):
        up = calls.ask_or(None, pynvml.nvmlDeviceGetNvLinkState, handle, number, expected=_NO_MORE)
        if up is None:
            break
        if up and (target := target_of(number)):
            counts[target] += 1
    return counts


def nvlink_target(handle: Any, number: int) -> str | None:
    """Return the target of one NVLink; None where the driver does not know it."""
    kind = calls.ask_or_none(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, number)
    if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
        return SWITCH
    pci = calls.ask_or_none(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, number)
    return address(pci) if pci else None


def address(pci: Any) -> str | None:
    """Return a PCI address as in sysfs, 0000:3b:00.0 for NVML's 00000000:3B:00.0; None for no address."""
    found = f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"
    return found if schema_limits.BUS_ID.matches(found) else None


# ---------------------------------------------------------------- links between cards


def between(
    one: CardReading, peers: Sequence[CardReading], ancestor: Callable[[CardReading, CardReading], int | None]
) -> Iterator[wire.Link]:
    """Yield the closest link of a card to each of its peers."""
    for peer in peers:
        if peer.card.uuid == one.card.uuid:
            continue
        if count := _nvlink_count(one, peer):
            yield wire.Link(peer.card.uuid, vocabulary.LinkKind.NVLINK, count)
        elif kind := KINDS.get(ancestor(one, peer)) or _by_location(one.card.location, peer.card.location):
            yield wire.Link(peer.card.uuid, kind)


def _nvlink_count(one: CardReading, peer: CardReading) -> int:
    switched = min(one.nvlinks.get(SWITCH, 0), peer.nvlinks.get(SWITCH, 0))
    return switched + one.nvlinks.get(peer.card.location.bus_id or "", 0)


def common_ancestor(one: Any, peer: Any) -> int | None:
    """Return where two cards meet in the PCIe tree; None where the driver does not say."""
    # A failure means nothing here: only reading a card finds out whether it is lost.
    found: int | None = calls.ask_or_nothing(pynvml.nvmlDeviceGetTopologyCommonAncestor, one, peer)
    return found


def _by_location(one: wire.Topology, other: wire.Topology) -> vocabulary.LinkKind | None:
    if one.pcie_root is not None and one.pcie_root == other.pcie_root:
        return vocabulary.LinkKind.PCIE_HOST
    if one.numa_node is None or other.numa_node is None:
        return None
    same = one.numa_node == other.numa_node
    return vocabulary.LinkKind.NUMA if same else vocabulary.LinkKind.SYSTEM
