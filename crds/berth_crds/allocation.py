"""The annotation protocol: how the cards of a pod are written on it, and read back.

The Binding that gives a pod its node also writes, in the same revision, which devices
each of its containers holds. This module is the only one that knows the text of that
record. What it promises: `decode(encode(a)) == a`; the same allocation always gives the
same text; and `decode` never raises, whatever the text. A record that cannot be trusted
to the last field comes back as `Unreadable`, because the ledger must fail closed on it:
a share that was skipped would look free and be promised twice.

Order is meaning here (containers as in the pod, devices in the order in which the
container sees them), so it is kept both ways. Fields that a newer Berth may add within
version 1 are ignored; anything else unexpected is not. Whether the cards exist, and
whether the node is the pod's, is for the reader of the allocation to judge.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple, NoReturn

import msgspec

from berth_crds import names, vocabulary

FORMAT: Final = 1

WHOLE_DEVICE: Final = 100
MOST_MINOR: Final = 2**31 - 1
MOST_BYTES: Final = 2**63 - 1

# No commas, spaces or quotes: these words are joined by commas and land in environments.
_UUID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}", re.ASCII)
_NODE: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_OPTIONAL: Final = re.compile(r"[A-Za-z0-9._:+-]{0,64}", re.ASCII)


class Share(msgspec.Struct, frozen=True, gc=False):
    """What one container holds of one device."""

    uuid: str
    """Of the device; of the MIG instance where `profile` is set."""
    minor: int
    """Of the device, for people; a MIG instance has that of its card."""
    core: int
    """Whole percent of the device's compute: 100 is all of it."""
    memory: int
    """Bytes of the device's memory; 0 for devices that have none."""
    profile: str = ""
    """MIG profile of the instance; empty for a device that is not cut."""
    vf: str = ""
    """Bus id of the virtual function; empty where the device itself is given."""


type_ = str  # a device type, as in `vocabulary.DeviceType`, open for plug-ins
Types = tuple[tuple[str, tuple[Share, ...]], ...]


class Entry(NamedTuple):
    """One share, with the container that holds it and the type of its device."""

    container: str
    type: str
    share: Share


class Allocation(msgspec.Struct, frozen=True):
    """Which devices of which node the containers of one pod hold."""

    node: str
    containers: tuple[tuple[str, Types], ...]
    """Container name, then device type, then shares; `of` builds it from mappings."""

    def __iter__(self) -> Iterator[Entry]:
        """Walk over every share, in the order written."""
        for container, types in self.containers:
            for kind, shares in types:
                for share in shares:
                    yield Entry(container, kind, share)

    def shares(self, kind: str) -> tuple[Share, ...]:
        """Give the pod's shares of one device type, over all containers."""
        return tuple(entry.share for entry in self if entry.type == kind)
