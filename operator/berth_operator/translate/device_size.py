"""How much a Device may say, all its cards together.

An agent writes the Device of its own node. The server refuses one that says more than
`schema_limits` has, but one with an older CRD takes sixty-four groups of functions on each of
sixty-four devices, which are a million. So it is counted here again, and what only the operator
adds up besides. A Device that says more gets no pod, and its summary says why; of its cards only
what they are is kept. The limits are far above what any node has.

Into an object that is almost as large as etcd takes the operator cannot write any more, so nobody could
read there whose its cards are. Such a Device gets no pod either, and claims no card.
"""

import itertools
from collections.abc import Iterator
from typing import Final

import msgspec

from berth_crds import schema_limits, wire
from berth_operator.translate import raw

PROFILES: Final = 64
OBJECT: Final = 1 << 20  # Bytes of a whole Device. Etcd takes half as much again, for what the operator adds.

Counted = Iterator[tuple[str, int, int]]


def of(spec: wire.DeviceSpec) -> str:
    """Return what a Device says too much of, always in the same words; nothing where it can be read."""
    found = (f"more than {most} {what}" for what, most, count in _counted(spec) if count > most)
    return next(found, "")


def too_large(thing: wire.Device) -> str:
    """Return how much larger a Device is than one into which the operator can surely write."""
    large = isinstance(thing, raw.Device) and thing.length > OBJECT
    return f"more than {OBJECT} bytes as an object" if large else ""


def bare(spec: wire.DeviceSpec) -> wire.DeviceSpec:
    """Return the cards of a Device without all that may be said of them at length."""
    return msgspec.structs.replace(spec, devices=tuple(map(_bare, spec.devices)), partitions=())


def _bare(card: wire.Card) -> wire.Card:
    mig = wire.Mig(card.mig.enabled) if card.mig else None
    return msgspec.structs.replace(card, links=(), mig=mig, vf_groups=(), labels={})


def _counted(spec: wire.DeviceSpec) -> Counted:
    """Count one thing after the other: each is asked for only if those before are within their limits."""
    cards = spec.devices
    instances = [one for card in cards if card.mig for one in card.mig.instances]
    yield "uuids of cards and MIG instances", schema_limits.TOTAL_UUIDS, len(cards) + len(instances)
    yield "MIG profiles", PROFILES, len({one.profile for one in instances})
    groups = [group for card in cards for group in card.vf_groups]
    yield "virtual functions", schema_limits.TOTAL_FUNCTIONS, sum(len(group.vfs) for group in groups)
    labels = [*(card.labels for card in cards), *(group.labels for group in groups)]
    yield "labels", schema_limits.TOTAL_LABELS, sum(map(len, labels))
    each = sum(len(group.vfs) * len(group.labels) for group in groups)
    yield "labels of virtual functions, counted for each of them", schema_limits.TOTAL_FUNCTION_LABELS, each
    texts = itertools.chain.from_iterable(pair for one in labels for pair in one.items())
    yield "characters in labels", schema_limits.TOTAL_LABEL_TEXT, sum(map(len, texts))
