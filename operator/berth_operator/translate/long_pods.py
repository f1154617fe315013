"""Pods of any length, some of which are very long.

A pod may be as long as etcd accepts, which is millions of bytes in JSON, and nearly all of it may
be one list of small things. Decoding each of them takes many times as long as skipping them. So
the lists of a long pod are searched as text first and decoded only where it matters: not where
only their presence counts, where nothing in them is read, or where a list is longer than the
limits allow. What containers request is always read.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

import msgspec

from berth_crds import wire
from berth_crds.client import decoding
from berth_operator.translate import pod_limits, raw

T = TypeVar("T")

# Of a list of conditions on nodes: six bytes for each character, and the JSON around each of them.
MAX_LIST_BYTES: Final = 1 << 18
NOTHING: Final = msgspec.Raw()
EMPTY: Final = frozenset({b"", b"null", b"[]"})
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
# In JSON these texts occur only as keys and values: within another string a quote is escaped.
HOST_PORT: Final = b'"hostPort":'
READ_VOLUMES: Final = (
    b'"persistentVolumeClaim":',
    b'"ephemeral":',
    b'"image":',
    b'"iscsi":',
    b'"rbd":',
    b'"gcePersistentDisk":',
    b'"awsElasticBlockStore":',
)
DO_NOT_SCHEDULE: Final = (b'"DoNotSchedule"',)
# What follows tells them from the labels of a selector, which may be called alike.
NAMESPACES: Final = re.compile(rb'"namespaces":\s*\[|"namespaceSelector":\s*\{')


class Pod(raw.Pod, frozen=True):
    """One pod, however long it is."""

    @classmethod
    def of_long(cls, body: bytes | msgspec.Raw) -> "Pod":
        """Return a pod that is long, or raise one of `errors.DECODE_ERRORS`."""
        found = decoding.decode(_pod, body)
        return cls(_meta(found.metadata), _spec(found.spec), found.status)


# ---------------------------------------------------------------- what is decoded


class _Meta(wire.Meta, frozen=True):
    """Metadata; the owners of a pod are not read."""

    owner_references: msgspec.Raw = NOTHING  # type: ignore[assignment]


class _Container(raw.Container, frozen=True):
    """One container, whose ports may be many."""

    ports: msgspec.Raw = NOTHING  # type: ignore[assignment]


class _NodeSelector(wire.Struct, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: msgspec.Raw = NOTHING


class _NodeAffinity(wire.Struct, frozen=True):
    """What is required of nodes, and what is preferred."""

    required: _NodeSelector | None = msgspec.field(default=None, name=REQUIRED)
    preferred: msgspec.Raw = msgspec.field(default=NOTHING, name=PREFERRED)


class _PodAffinity(wire.Struct, frozen=True):
    """What is required of the pods nearby, and what is preferred."""

    required: msgspec.Raw = msgspec.field(default=NOTHING, name=REQUIRED)
    preferred: msgspec.Raw = msgspec.field(default=NOTHING, name=PREFERRED)


class _Affinity(wire.Struct, frozen=True):
    """Node affinity, pod affinity and pod anti-affinity."""

    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


class _PodSpec(raw.ShortFields, frozen=True):
    """What a pod asks of a scheduler."""

    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] | None = None
    node_selector: msgspec.Raw = NOTHING
    affinity: _Affinity | None = None
    tolerations: msgspec.Raw = NOTHING
    topology_spread_constraints: msgspec.Raw = NOTHING
    volumes: msgspec.Raw = NOTHING
    scheduling_gates: msgspec.Raw = NOTHING
    resource_claims: msgspec.Raw = NOTHING


class _Pod(wire.Struct, frozen=True):
    """One pod."""

    metadata: _Meta
    spec: _PodSpec = _PodSpec()
    status: raw.PodStatus = raw.PodStatus()


_pod: Final = msgspec.json.Decoder(_Pod)
_selector: Final = msgspec.json.Decoder(dict[str, str] | None)
_terms: Final = msgspec.json.Decoder(tuple[raw.SelectorTerm, ...] | None)
_preferred: Final = msgspec.json.Decoder(tuple[raw.PreferredTerm, ...] | None)
_tolerations: Final = msgspec.json.Decoder(tuple[raw.Toleration, ...] | None)
_spreads: Final = msgspec.json.Decoder(tuple[raw.TopologySpreadConstraint, ...] | None)
_pod_terms: Final = msgspec.json.Decoder(tuple[raw.PodAffinityTerm, ...] | None)
_weighted_pod_terms: Final = msgspec.json.Decoder(tuple[raw.WeightedPodAffinityTerm, ...] | None)
_volumes: Final = msgspec.json.Decoder(tuple[raw.Volume, ...])
_ports: Final = msgspec.json.Decoder(tuple[raw.Port, ...])


# ---------------------------------------------------------------- the pod that results


def _meta(meta: _Meta) -> wire.Meta:
    fields = msgspec.structs.asdict(meta)
    return wire.Meta(**fields | {"owner_references": ()})


def _spec(spec: _PodSpec) -> raw.PodSpec:
    terms = _terms_of(spec.affinity)
    far, near, spread = pod_limits.OF_OTHER_PODS
    lists = {
        far: _required(spec.affinity.pod_anti_affinity if spec.affinity else None),
        near: _required(spec.affinity.pod_affinity if spec.affinity else None),
        spread: spec.topology_spread_constraints if _mentions(spec, DO_NOT_SCHEDULE) else NOTHING,
        "node selector": spec.node_selector,
        "node affinity": terms,
        "tolerations": spec.tolerations,
    }
    short = {field: getattr(spec, field) for field in raw.ShortFields.__struct_fields__}
    return raw.PodSpec(
        **short,
        containers=_containers(spec.containers),
        init_containers=_containers(spec.init_containers or ()),
        node_selector=_unless_long(_selector, spec.node_selector),
        affinity=_affinity(spec.affinity),
        tolerations=_unless_long(_tolerations, spec.tolerations),
        topology_spread_constraints=_unless_long(_spreads, spec.topology_spread_constraints),
        volumes=_if_mentioned(_volumes, spec.volumes, READ_VOLUMES),
        scheduling_gates=(raw.SchedulingGate(""),) if _any(spec.scheduling_gates) else None,
        resource_claims=_presence(spec.resource_claims),
        unread_list=next((name for name, text in lists.items() if len(text) > MAX_LIST_BYTES), ""),
    )


def _unless_long(decoder: msgspec.json.Decoder[T], text: msgspec.Raw) -> T | None:
    """Return a list, or None if it is longer than the limits allow."""
    return decoder.decode(text) if 0 < len(text) <= MAX_LIST_BYTES else None


def _if_mentioned(decoder: msgspec.json.Decoder[T], text: msgspec.Raw, words: Iterable[bytes]) -> T | None:
    """Return a list, or None if none of these texts occurs in it."""
    body = bytes(text)
    return decoder.decode(body) if any(word in body for word in words) else None


def _mentions(spec: _PodSpec, words: Iterable[bytes]) -> bool:
    body = bytes(spec.topology_spread_constraints)
    return any(word in body for word in words)


def _any(text: msgspec.Raw) -> bool:
    """Whether a list has any element."""
    return bytes(memoryview(text)[:5]) not in EMPTY


def _presence(text: msgspec.Raw) -> tuple[raw.Presence, ...] | None:
    return (raw.Presence(),) if _any(text) else None


# ---------------------------------------------------------------- affinity


def _terms_of(affinity: _Affinity | None) -> msgspec.Raw:
    node = affinity.node_affinity if affinity else None
    return node.required.node_selector_terms if node and node.required else NOTHING


def _affinity(affinity: _Affinity | None) -> raw.Affinity | None:
    if affinity is None:
        return None
    return raw.Affinity(
        _node_affinity(affinity),
        _pod_affinity(affinity.pod_affinity),
        _pod_anti_affinity(affinity.pod_anti_affinity),
    )


def _node_affinity(affinity: _Affinity) -> raw.NodeAffinity | None:
    node = affinity.node_affinity
    if node is None:
        return None
    required = raw.NodeSelector(_unless_long(_terms, _terms_of(affinity))) if node.required else None
    return raw.NodeAffinity(required, _unless_long(_preferred, node.preferred))


def _pod_affinity(affinity: _PodAffinity | None) -> raw.PodAffinity | None:
    if affinity is None:
        return None
    return raw.PodAffinity(
        _unless_long(_pod_terms, affinity.required), _unless_long(_weighted_pod_terms, affinity.preferred)
    )


def _pod_anti_affinity(affinity: _PodAffinity | None) -> raw.PodAffinity | None:
    """Return an anti-affinity; one in place of very many terms means all pods that they might."""
    found = _pod_affinity(affinity)
    if affinity is None or found is None or len(affinity.required) <= MAX_LIST_BYTES:
        return found
    elsewhere = raw.LabelSelector() if NAMESPACES.search(bytes(affinity.required)) else None
    return raw.PodAffinity(
        (raw.PodAffinityTerm(raw.LabelSelector(), namespace_selector=elsewhere),), found.preferred
    )


def _required(affinity: _PodAffinity | None) -> msgspec.Raw:
    return affinity.required if affinity is not None else NOTHING


# ---------------------------------------------------------------- containers


def _containers(found: tuple[_Container, ...]) -> tuple[raw.Container, ...]:
    """Return the containers; of their ports only host ports, and at most one beyond the limit."""
    left = pod_limits.MAX_BOUND_PORTS + 1
    containers = []
    for one in found:
        ports = tuple(itertools.islice(_host_ports(one.ports), left)) if left and one.ports else ()
        left -= len(ports)
        containers.append(
            raw.Container(
                one.name,
                one.resources,
                restart_policy=one.restart_policy,
                restart_policy_rules=one.restart_policy_rules,
                ports=ports or None,
                image=one.image,
            )
        )
    return tuple(containers)


def _host_ports(text: msgspec.Raw) -> Iterator[raw.Port]:
    """Return the host ports in a list of ports."""
    listed = _if_mentioned(_ports, text, (HOST_PORT,))
    return (one for one in listed or () if one.host_port)
