"""How large a Device may be, all its cards together.

An agent writes the Device of its own node. The server refuses one beyond `schema_limits`, but a
server with an older CRD accepts sixty-four groups of functions on each of sixty-four devices, which
are a million. So the limits are checked here again, with some that only the operator has. No pod is
placed on a larger Device, and its summary says why; its cards are kept without details. The limits
are far above what any node has.

The operator cannot write to an object that is almost as large as etcd accepts, so it could not record
there whose the cards are. No pod is placed on such a Device either, and it claims no card.
"""

import itertools
from collections.abc import Iterator
from typing import Final

import msgspec

from berth_crds import schema_limits, wire
from berth_operator.translate import raw

MAX_PROFILES: Final = 64
# Of a whole Device. Etcd takes half as much again, for what the operator adds.
MAX_BYTES: Final = 1 << 20

Counted = Iterator[tuple[str, int, int]]


def excess(spec: wire.DeviceSpec) -> str:
    """Return what a Device has too much of, always in the same words; empty if nothing."""
    return next((f"more than {most} {what}" for what, most, count in _counted(spec) if count > most), "")


def too_large(device: wire.Device) -> str:
    """Return why the operator may be unable to write to a Device; empty if it is small enough."""
    large = isinstance(device, raw.Device) and device.length > MAX_BYTES
    return f"more than {MAX_BYTES} bytes as an object" if large else ""


def without_details(spec: wire.DeviceSpec) -> wire.DeviceSpec:
    """Return the cards of a Device without the lists that may be long."""
    return msgspec.structs.replace(
        spec, devices=tuple(map(_card_without_details, spec.devices)), partitions=()
    )


def _card_without_details(card: wire.Card) -> wire.Card:
    return msgspec.structs.replace(
        card, links=(), mig=wire.Mig(card.mig.enabled) if card.mig else None, vf_groups=(), labels={}
    )


def _instances(spec: wire.DeviceSpec) -> list[wire.MigInstance]:
    return [one for card in spec.devices if card.mig for one in card.mig.instances]


def _counted(spec: wire.DeviceSpec) -> Counted:
    """Yield what is counted, its limit and its number, lazily: callers stop at the first excess."""
    cards = spec.devices
    instances = _instances(spec)
    yield "uuids of cards and MIG instances", schema_limits.TOTAL_UUIDS, len(cards) + len(instances)
    yield "MIG profiles", MAX_PROFILES, len({one.profile for one in instances})
    groups = [group for card in cards for group in card.vf_groups]
    yield "virtual functions", schema_limits.TOTAL_FUNCTIONS, sum(len(group.vfs) for group in groups)
    labels = [*(card.labels for card in cards), *(group.labels for group in groups)]
    yield "labels", schema_limits.TOTAL_LABELS, sum(map(len, labels))
    yield (
        "labels of virtual functions, counted for each of them",
        schema_limits.TOTAL_FUNCTION_LABELS,
        sum(len(group.vfs) * len(group.labels) for group in groups),
    )
    yield (
        "characters in labels",
        schema_limits.TOTAL_LABEL_TEXT,
        sum(map(len, itertools.chain.from_iterable(pair for one in labels for pair in one.items()))),
    )
