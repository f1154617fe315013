"""Koordinator's record of which devices a pod has: read of its pods and, by policy, written into ours.

Koordinator's scheduler writes the minors of the cards that it chose into an annotation of the pod before it
binds it, and its own agent hands them out, so the kubelet knows nothing of them. Anybody who may edit the
pod may edit that annotation: the policy says whose records are believed, and `allocation_recovery` how far.
Where its agent still runs on the nodes, or other programs read that annotation, our pods have it too.
"""

import collections
import itertools
import sys
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from berth_crds import aliases, schema_limits, vocabulary
from berth_crds.client import decoding, errors
from berth_operator.scheduling import allocation_recovery, decisions
from berth_operator.scheduling.devices import facts
from berth_operator.translate import raw

MAX_LENGTH: Final = 1 << 16  # Koordinator writes some 200 characters for each device.
PREFIX: Final = "koordinator.sh"
TYPES: Final = frozenset(map(str, vocabulary.DeviceType))
NO_MINOR: Final = -1  # As Koordinator's agent counts virtual functions, which have bus ids.


class Card(msgspec.Struct):
    """A card in Koordinator's record."""

    minor: int


class Record(msgspec.Struct):
    """Koordinator's record, as far as it is read: other types of devices are not."""

    gpu: tuple[Card, ...] = ()


def read(pod: raw.Pod) -> allocation_recovery.ForeignRecord | None:
    """Return the record of a pod and whose it is; None if the pod has none."""
    text = pod.metadata.annotations.get(aliases.KOORDINATOR_RECORD)
    if text is None:
        return None
    return allocation_recovery.ForeignRecord(
        sys.intern(pod.adopted_from or pod.spec.scheduler_name), minors(text)
    )


def minors(text: str) -> frozenset[int] | None:
    """Return the minors that a record names; None if it cannot be read."""
    if len(text) > MAX_LENGTH:
        return None
    try:
        record = decoding.decode(_records, text.encode())
    except errors.DECODE_ERRORS:
        return None
    found = frozenset(card.minor for card in record.gpu)
    return found if len(found) <= schema_limits.MOST_DEVICES else None


_records: Final = msgspec.json.Decoder(Record)


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
    if device.type != facts.GPU:
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
