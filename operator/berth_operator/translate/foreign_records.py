"""Koordinator's record of which devices a pod has: read of its pods and, by policy, written into ours.

Koordinator's scheduler writes the minors of the devices that it chose into an annotation of the pod before it
binds it, and its own agent hands them out, so the kubelet knows nothing of them. Anybody who may edit the
pod may edit that annotation: the policy says whose records are believed, and `foreign_allocations` how far.
Where its agent still runs on the nodes, or other programs read that annotation, our pods have it too.
"""

import collections
import itertools
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from berth_crds import aliases, card_part, device_types, schema_limits, vocabulary
from berth_crds.client import decoding, errors
from berth_operator.scheduling import decisions, foreign_allocations
from berth_operator.scheduling.devices import device_facts
from berth_operator.translate import quantities, raw

MAX_LENGTH: Final = 1 << 16  # Koordinator writes some 200 characters for each device.
PREFIX: Final = "koordinator.sh"
TYPES: Final = frozenset(map(str, vocabulary.DeviceType))
NO_MINOR: Final = -1  # As Koordinator's agent counts virtual functions, which have bus ids.


Entries = dict[str, msgspec.Raw]  # By type of device.


class Card(msgspec.Struct):
    """A card in Koordinator's record."""

    minor: int


class Function(msgspec.Struct):
    """A virtual function in Koordinator's record."""

    bus: str = msgspec.field(name="busID")


class Extension(msgspec.Struct):
    """What Koordinator writes of some devices beside their resources."""

    vfs: tuple[Function, ...] = ()


class Part(msgspec.Struct):
    """A device of another type in Koordinator's record, and how much of it the pod has."""

    minor: int
    resources: dict[str, raw.Quantity] = {}
    extension: Extension | None = None


def read(pod: raw.Pod) -> foreign_allocations.ForeignRecord | None:
    """Return the record of a pod and whose it is; None if the pod has none."""
    text = pod.metadata.annotations.get(aliases.KOORDINATOR_RECORD)
    if text is None:
        return None
    entries = _entries(text)
    others = itertools.chain.from_iterable(_parts(kind, entries or {}) for kind in device_types.BY_NAME)
    return foreign_allocations.ForeignRecord(
        sys.intern(pod.adopted_from or pod.spec.scheduler_name), _minors(entries), tuple(others)
    )


def minors(text: str) -> frozenset[int] | None:
    """Return the minors of the cards that a record names; None if it cannot be read."""
    return _minors(_entries(text))


def _entries(text: str) -> Entries | None:
    """Return what a record has of each type of device; None if it cannot be read."""
    if len(text) > MAX_LENGTH:
        return None
    try:
        return decoding.decode(_records, text.encode())
    except errors.DECODE_ERRORS:
        return None


def _minors(entries: Entries | None) -> frozenset[int] | None:
    if entries is None:
        return None
    try:
        found = frozenset(
            card.minor for card in decoding.decode(_cards, entries.get(device_facts.GPU, NOTHING))
        )
    except errors.DECODE_ERRORS:
        return None
    return found if len(found) <= schema_limits.MOST_DEVICES else None


def _parts(kind: str, entries: Entries) -> tuple[foreign_allocations.ForeignPart, ...]:
    """Return the parts of devices of a type; nothing if any of them cannot be read."""
    try:
        listed = decoding.decode(_others, entries.get(kind, NOTHING))
    except errors.DECODE_ERRORS:
        return ()
    found = [_part(kind, part) for part in listed[: schema_limits.MOST_DEVICES]]
    parts = tuple(part for part in found if part is not None)
    return parts if len(parts) == len(listed) else ()


def _part(kind: str, part: Part) -> foreign_allocations.ForeignPart | None:
    """Return a part of a device; None if its amount makes no sense, or is below 1 % for each function."""
    core = _percent(kind, part.resources)
    functions = tuple(one.bus for one in part.extension.vfs) if part.extension is not None else ()
    if not 0 < core <= card_part.WHOLE or len(functions) > core:
        return None
    return foreign_allocations.ForeignPart(kind, part.minor, core, functions)


def _percent(kind: str, amounts: Mapping[str, raw.Quantity]) -> int:
    """Return how much of a device a record says a pod has; of a type that is not shared it has all."""
    described = device_types.BY_NAME[kind]
    found = [amount for name, amount in amounts.items() if aliases.type_of(name) == kind]
    most = max((quantities.supply(amount) for amount in found), default=0)
    return most if described.shared else card_part.WHOLE * min(most, 1)


NOTHING: Final = msgspec.Raw(b"[]")
_records: Final = msgspec.json.Decoder(Entries)
_cards: Final = msgspec.json.Decoder(tuple[Card, ...])
_others: Final = msgspec.json.Decoder(tuple[Part, ...])


# ---------------------------------------------------------------- writing


def of_koordinator(placement: decisions.Placement) -> dict[str, str]:
    """Return the annotation with a pod's devices in Koordinator's words, if it has words for any."""
    entries: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for (kind, _, _), shares in sorted(_by_device(placement).items()):
        entries[kind].append(_entry(shares))
    return {aliases.KOORDINATOR_RECORD: msgspec.json.encode(entries).decode()} if entries else {}


def _by_device(
    placement: decisions.Placement,
) -> dict[tuple[str, int, str], list[tuple[decisions.Share, bool]]]:
    """Return the shares of each device, each with whether its container keeps running."""
    found = collections.defaultdict(list)
    for grant in placement.grants:
        for share in grant.shares:
            if share.type in TYPES and not share.profile:
                found[share.type, share.minor, share.uuid].append((share, grant.runs))
    return found


def _entry(shares: list[tuple[decisions.Share, bool]]) -> dict[str, Any]:
    """Return what a pod has of one device, as one entry for all its containers."""
    first = shares[0][0]
    functions = sorted({share.function for share, _ in shares if share.function})
    extension = {"vfs": [{"minor": NO_MINOR, "busID": bus} for bus in functions]}
    return {
        "minor": first.minor,
        "id": first.uuid,
        "resources": _resources(first, shares),
        **({"extension": extension} if functions else {}),
    }


def _resources(device: decisions.Share, shares: Iterable[tuple[decisions.Share, bool]]) -> dict[str, str]:
    core = _most((share.core, runs) for share, runs in shares)
    if device.type != device_facts.GPU:
        return {f"{PREFIX}/{device.type}": str(core)}
    memory = _most((share.memory, runs) for share, runs in shares)
    ratio = -(-100 * memory // device.card_memory) if device.card_memory else 0
    named = {"gpu-core": core, "gpu-memory": memory, "gpu-memory-ratio": ratio}
    return {f"{PREFIX}/{name}": str(amount) for name, amount in named.items() if amount}


def _most(amounts: Iterable[tuple[int, bool]]) -> int:
    """Return the most that is held at once: init containers end before those that keep running start."""
    listed = list(amounts)
    running = sum(amount for amount, runs in listed if runs)
    return max(itertools.chain((running,), (amount for amount, runs in listed if not runs)))
