"""The ways between cards: NVLinks from the cards themselves, PCIe from the driver's topology.

An NVLink leads to another card or to a switch. Cards on switches reach each other through
all links that both of them have there. For pairs without NVLink the driver tells their
nearest common ancestor; where it does not, what the kernel says of their places stands in.
"""

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from berth_agent import probe, sysfs
from berth_agent.nvml import calls
from berth_crds import vocabulary

SWITCH: Final = "switch"  # Where an NVLink leads that leads to no card; otherwise a PCI address.
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

Ends = Mapping[str, int]  # How many active NVLinks lead where.


@dataclass(frozen=True, slots=True)
class End:
    """One card, as its links need it: who it is, where it sits, and where its NVLinks lead."""

    uuid: str
    place: probe.Place
    ends: Ends


# ---------------------------------------------------------------- NVLinks of one card


def nvlinks(handle: Any, remote: Callable[[int], str | None]) -> Ends:
    """Count the NVLinks of a card that are up, by where they lead; `remote` may remember that."""
    counts: collections.Counter[str] = collections.Counter()
    for number in range(MOST_NVLINKS):
        try:
            up = calls.ask(pynvml.nvmlDeviceGetNvLinkState, handle, number)
        except calls.Failed as failure:
            if failure.code in _NO_MORE:
                break
            raise
        if up and (end := remote(number)):
            counts[end] += 1
    return counts


def remote_end(handle: Any, number: int) -> str | None:
    """Say where one NVLink leads; None where the driver does not know."""
    kind = calls.known(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, number)
    if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
        return SWITCH
    pci = calls.known(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, number)
    return address(pci) if pci else None


def address(pci: Any) -> str | None:
    """Spell a PCI address as sysfs does, 0000:3b:00.0 for NVML's 00000000:3B:00.0; None for what is none."""
    found = f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"
    return found if sysfs.is_address(found) else None


# ---------------------------------------------------------------- ways between cards


def between(
    one: End, peers: Sequence[End], ancestor: Callable[[str, str], int | None]
) -> Iterator[probe.Link]:
    """Name a card's nearest way to each of its peers."""
    for peer in peers:
        if peer.uuid == one.uuid:
            continue
        if count := _joined(one, peer):
            yield probe.Link(peer.uuid, vocabulary.LinkKind.NVLINK, count)
        elif kind := KINDS.get(ancestor(one.uuid, peer.uuid)) or _by_place(one.place, peer.place):
            yield probe.Link(peer.uuid, kind)


def _joined(one: End, peer: End) -> int:
    switched = min(one.ends.get(SWITCH, 0), peer.ends.get(SWITCH, 0))
    return switched + one.ends.get(peer.place.bus_id or "", 0)


def common_ancestor(one: Any, peer: Any) -> int | None:
    """Ask how far up the PCIe tree two cards meet; None where the driver does not say."""
    try:
        return int(calls.ask(pynvml.nvmlDeviceGetTopologyCommonAncestor, one, peer))
    except calls.Failed:
        # Whether a card is lost is found out by reading it, not by asking for its neighbours.
        return None


def _by_place(one: probe.Place, other: probe.Place) -> vocabulary.LinkKind | None:
    if one.pcie_root is not None and one.pcie_root == other.pcie_root:
        return vocabulary.LinkKind.PCIE_HOST
    if one.numa_node is None or other.numa_node is None:
        return None
    same = one.numa_node == other.numa_node
    return vocabulary.LinkKind.NUMA if same else vocabulary.LinkKind.SYSTEM
