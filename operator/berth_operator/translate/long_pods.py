"""Pods as they come, of which some are long.

A pod may be as long as etcd takes it, which is millions of bytes in JSON, and nearly all of it
one list of the least things. To make a value of each of them takes many times as long as to
pass over them. So the lists of a long pod are looked at as text first, and no value is made
where it only counts whether there is anything, where there is nothing that is read, and where
a list is longer than any is within the limits. What containers ask for is always read.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

import msgspec

from berth_crds import wire
from berth_crds.client import decoding
from berth_operator.translate import pod_limits, raw, read_memory

T = TypeVar("T")

# Bytes of a list of conditions on nodes: six for each character, and what is written around each of them.
LONGEST: Final = 1 << 18
NOTHING: Final = msgspec.Raw()
EMPTY: Final = frozenset({b"", b"null", b"[]"})
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
# Words that stand there exactly where they mean something: within another word a quote is escaped.
HOST_PORT: Final = b'"hostPort":'
CLAIMS: Final = (b'"persistentVolumeClaim":', b'"ephemeral":')
BINDING: Final = (b'"DoNotSchedule"',)
LABELS: Final = tuple(sorted(read_memory.LABELS))
OURS: Final = f'"{read_memory.GROUP}'.encode()


class Pod(raw.Pod, frozen=True):
    """One pod, however long it is."""

    @classmethod
    def of_long(cls, body: bytes | msgspec.Raw) -> "Pod":
        """Read a pod that is long, or raise one of `errors.DECODE_ERRORS`."""
        found = decoding.decode(_pod, body)
        return cls(_meta(found.metadata), _spec(found.spec), found.status)


# ---------------------------------------------------------------- what is made values of


class _Meta(wire.Struct, frozen=True):
    """Metadata; who owns a pod is not read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: msgspec.Raw = NOTHING
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class _Container(wire.Struct, frozen=True):
    """One container, whose ports may be many."""

    name: str = ""
    resources: raw.ContainerResources | None = None
    restart_policy: str | None = None
    ports: msgspec.Raw = NOTHING


class _NodeSelector(wire.Struct, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: msgspec.Raw = NOTHING


class _NodeAffinity(wire.Struct, frozen=True):
    """Only what is required."""

    required: _NodeSelector | None = msgspec.field(default=None, name=REQUIRED)


class _PodAffinity(wire.Struct, frozen=True):
    """Only whether something is required."""

    required: msgspec.Raw = msgspec.field(default=NOTHING, name=REQUIRED)


class _Affinity(wire.Struct, frozen=True):
    """Where the pod wants to be, near what, and far from what."""

    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


class _PodSpec(wire.Struct, frozen=True):
    """What a pod asks of a scheduler."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str | None = None
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] | None = None
    resources: raw.ContainerResources | None = None
    overhead: raw.Resources | None = None
    node_selector: msgspec.Raw = NOTHING
    affinity: _Affinity | None = None
    tolerations: msgspec.Raw = NOTHING
    topology_spread_constraints: msgspec.Raw = NOTHING
    volumes: msgspec.Raw = NOTHING
    scheduling_gates: msgspec.Raw = NOTHING
    resource_claims: msgspec.Raw = NOTHING
    os: raw.System | None = None


class _Pod(wire.Struct, frozen=True):
    """One pod."""

    metadata: _Meta
    spec: _PodSpec = _PodSpec()
    status: raw.PodStatus = raw.PodStatus()


def _known(keys: Iterable[str]) -> type[msgspec.Struct]:
    """Make a kind that has some of all labels."""
    named = ((f"label{at}", msgspec.field(default=None, name=key)) for at, key in enumerate(keys))
    return msgspec.defstruct("Labels", [(field, str | None, given) for field, given in named])


_pod: Final = msgspec.json.Decoder(_Pod)
_labels: Final = msgspec.json.Decoder(_known(LABELS))
_all_labels: Final = msgspec.json.Decoder(dict[str, str])
_selector: Final = msgspec.json.Decoder(dict[str, str] | None)
_terms: Final = msgspec.json.Decoder(tuple[raw.SelectorTerm, ...] | None)
_tolerations: Final = msgspec.json.Decoder(tuple[raw.Toleration, ...] | None)
_spreads: Final = msgspec.json.Decoder(tuple[raw.Spread, ...])
_volumes: Final = msgspec.json.Decoder(tuple[raw.Volume, ...])
_port: Final = msgspec.json.Decoder(raw.Port)


# ---------------------------------------------------------------- what is read of it


def _meta(meta: _Meta) -> wire.Meta:
    return wire.Meta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
        labels=_read_labels(meta.labels),
        annotations=meta.annotations,
    )


def _read_labels(text: msgspec.Raw) -> dict[str, str]:
    if OURS in bytes(text):
        found = _all_labels.decode(text)
        return {key: value for key, value in found.items() if read_memory.labelled(key)}
    values = msgspec.structs.astuple(_labels.decode(text)) if text else ()
    return {key: value for key, value in zip(LABELS, values, strict=False) if value is not None}


def _spec(spec: _PodSpec) -> raw.PodSpec:
    terms = _terms_of(spec.affinity)
    lists = {"node selector": spec.node_selector, "node affinity": terms, "tolerations": spec.tolerations}
    return raw.PodSpec(
        node_name=spec.node_name,
        scheduler_name=spec.scheduler_name,
        priority=spec.priority,
        priority_class_name=spec.priority_class_name,
        containers=_containers(spec.containers),
        init_containers=_containers(spec.init_containers or ()),
        resources=spec.resources,
        overhead=spec.overhead,
        node_selector=_short(_selector, spec.node_selector),
        affinity=_affinity(spec.affinity),
        tolerations=_short(_tolerations, spec.tolerations),
        topology_spread_constraints=_with(_spreads, spec.topology_spread_constraints, BINDING),
        volumes=_with(_volumes, spec.volumes, CLAIMS),
        scheduling_gates=(raw.Gate(""),) if _any(spec.scheduling_gates) else None,
        resource_claims=_something(spec.resource_claims),
        os=spec.os,
        unread=next((name for name, text in lists.items() if len(text) > LONGEST), ""),
    )


def _short(decoder: msgspec.json.Decoder[T], text: msgspec.Raw) -> T | None:
    """Read a list, unless it is longer than any within the limits."""
    return decoder.decode(text) if 0 < len(text) <= LONGEST else None


def _with(decoder: msgspec.json.Decoder[T], text: msgspec.Raw, words: Iterable[bytes]) -> T | None:
    """Read a list, unless it has none of these words."""
    body = bytes(text)
    return decoder.decode(body) if any(word in body for word in words) else None


def _any(text: msgspec.Raw) -> bool:
    """Return whether there is anything in a list."""
    return bytes(memoryview(text)[:5]) not in EMPTY


def _something(text: msgspec.Raw) -> tuple[raw.Something, ...] | None:
    return (raw.Something(),) if _any(text) else None


# ---------------------------------------------------------------- affinity


def _terms_of(affinity: _Affinity | None) -> msgspec.Raw:
    node = affinity.node_affinity if affinity else None
    return node.required.node_selector_terms if node and node.required else NOTHING


def _affinity(affinity: _Affinity | None) -> raw.Affinity | None:
    if affinity is None:
        return None
    return raw.Affinity(
        _node_affinity(affinity), _near(affinity.pod_affinity), _near(affinity.pod_anti_affinity)
    )


def _node_affinity(affinity: _Affinity) -> raw.NodeAffinity | None:
    if affinity.node_affinity is None or affinity.node_affinity.required is None:
        return None
    return raw.NodeAffinity(raw.NodeSelector(_short(_terms, _terms_of(affinity))))


def _near(near: _PodAffinity | None) -> raw.PodAffinity | None:
    return raw.PodAffinity(_something(near.required)) if near is not None else None


# ---------------------------------------------------------------- containers


def _containers(found: tuple[_Container, ...]) -> tuple[raw.Container, ...]:
    """Read containers; of all their ports those of the node, and no more than it takes to be too many."""
    left = pod_limits.PORTS + 1
    containers = []
    for one in found:
        ports = tuple(itertools.islice(_host_ports(one.ports), left)) if left and one.ports else ()
        left -= len(ports)
        containers.append(raw.Container(one.name, one.resources, one.restart_policy, ports or None))
    return tuple(containers)


def _host_ports(text: msgspec.Raw) -> Iterator[raw.Port]:
    """Find the ports of a node in a list of ports, none of which has braces within it."""
    body = bytes(text)
    at = body.find(HOST_PORT)
    while at >= 0:
        end = body.index(b"}", at)
        yield _port.decode(body[body.rindex(b"{", 0, at) : end + 1])
        at = body.find(HOST_PORT, end)
