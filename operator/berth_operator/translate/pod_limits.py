"""How much a pod may say, so that no pod, and no number of them, takes much memory or time.

The API server takes objects of more than a megabyte, and whatever a pod asks for is kept,
compared and tried on every node for as long as it waits. What goes beyond these limits is
refused with a sentence that names the limit, and nothing of it is kept. They are far above
what anybody needs: a node has no more than 64 cards.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from berth_crds import aliases
from berth_operator.scheduling.decisions import Refusal
from berth_operator.translate import raw, refusals

OBJECT: Final = 1 << 20  # Bytes of a whole pod. Etcd takes half as much again, and a bind adds to the pod.
TEXT: Final = 4 << 10  # Characters of an annotation that is no list.
LIST: Final = 32 << 10  # Characters of one that is.
WORD: Final = 128  # Characters of one thing in a list.
LABEL: Final = 400  # Characters of a label with its value, of which Kubernetes allows fewer.
MODELS: Final = 64
UUIDS: Final = 512
LABELS: Final = 64
ASKS: Final = 64  # Each kind of device that a container asks for is one.
FIGURES: Final = 4 * ASKS  # Amounts of devices; an ask has up to four.
PIECES: Final = 256  # Replicas and MIG instances, which are placed one by one.
RESOURCES: Final = 64  # Different names.
NAMES: Final = 256  # Of a bound pod, which cannot be refused.
CONTAINERS: Final = 4096
PORTS: Final = 64  # Of its node.
AMOUNTS: Final = 4096  # Requests and limits of all containers.
SELECTOR: Final = 64
TOLERATIONS: Final = 128
TERMS: Final = 64
EXPRESSIONS: Final = 256  # Of all terms of an affinity together.
VALUES: Final = 1024  # Likewise.
WHERE: Final = 32 << 10  # Characters of selector, affinity and tolerations together.
NODE_LABELS: Final = 1024
NODE_TAINTS: Final = 256
NODE_RESOURCES: Final = 256
NODE_TEXT: Final = 128 << 10  # Characters of labels and taints together.
FAULTS: Final = 16  # More than people read at once.

T = TypeVar("T")


def few(place: str, what: str, found: Sequence[T], most: int) -> Sequence[T]:
    """Return a list that is not too long; raise Refused otherwise."""
    if len(found) > most:
        refusals.refuse(f"{place} names {len(found)} {what}; {most} are the most")
    return found


def short(place: str, text: str, most: int) -> str:
    """Return a text that is not too long; raise Refused otherwise."""
    if len(text) > most:
        refusals.refuse(f"{place} has {len(text)} characters; {most} are the most")
    return text


def told(faults: Iterable[Refusal]) -> tuple[Refusal, ...]:
    """Return the first of many faults, and say that there are others."""
    found = tuple(itertools.islice(faults, FAULTS + 1))
    if len(found) <= FAULTS:
        return found
    return (*found[:FAULTS], refusals.invalid("there is more that is wrong with the pod"))


# ---------------------------------------------------------------- what stands in the spec


Counted = Iterator[tuple[str, int, int]]


def too_long(length: int) -> Refusal | None:
    """Return a fault where a pod is so long that etcd may not take it with its bind."""
    if length <= OBJECT:
        return None
    return refusals.unsupported(
        f"the pod has more than {OBJECT} bytes as an object; Berth binds none that has"
    )


def exceeded(spec: raw.PodSpec) -> Refusal | None:
    """Return what of a pod's spec is more than is read; it is only counted here."""
    if spec.unread:
        return refusals.unsupported(f"the pod says more in its {spec.unread} than Berth reads")
    counted = (_of_containers(spec), _of_names(spec), _of_devices(spec), _of_place(spec), _of_ports(spec))
    return _first(itertools.chain.from_iterable(counted))


def too_many(spec: raw.PodSpec) -> Refusal | None:
    """Return of what a pod asks for too much at once for each of it to be read as a request."""
    return _first(itertools.chain(_of_containers(spec), _of_devices(spec)))


def many_devices(spec: raw.PodSpec) -> bool:
    """Return whether a bound pod, which cannot be refused, has more amounts of devices than are read."""
    return _first(_of_devices(spec)) is not None


def named(spec: raw.PodSpec) -> Iterator[str]:
    """Go through the names of all resources that a pod asks for, each as often as it stands there."""
    return itertools.chain.from_iterable(_lists(spec, *_of_whole_pod(spec)))


def _first(counted: Counted) -> Refusal | None:
    for what, most, count in counted:
        if count > most:
            return refusals.unsupported(f"the pod has {count} {what}; Berth reads {most} at most")
    return None


def _resources(spec: raw.PodSpec) -> list[raw.ContainerResources]:
    return [one.resources for one in (*(spec.init_containers or ()), *spec.containers) if one.resources]


def _of_whole_pod(spec: raw.PodSpec) -> Iterator[raw.ContainerResources]:
    """Return what is set for the pod as a whole, in the form in which containers have it."""
    if spec.resources:
        yield spec.resources
    if spec.overhead:
        yield raw.ContainerResources(spec.overhead)


def _names(one: raw.ContainerResources) -> Iterable[str]:
    """Return what a container names, what is request and limit once."""
    if one.requests and one.limits:
        return one.requests.keys() | one.limits.keys()
    return one.requests or one.limits or ()


def _lists(spec: raw.PodSpec, *more: raw.ContainerResources) -> list[raw.Resources]:
    found = (*_resources(spec), *more)
    return [one for each in found for one in (each.requests, each.limits) if one]


def _of_devices(spec: raw.PodSpec) -> Counted:
    count = sum(sum(map(aliases.is_served, _names(one))) for one in _resources(spec))
    yield "amounts of devices in its containers", FIGURES, count


def _of_containers(spec: raw.PodSpec) -> Counted:
    yield "containers", CONTAINERS, len(spec.init_containers or ()) + len(spec.containers)
    yield "requests and limits in its containers", AMOUNTS, sum(map(len, _lists(spec)))
    whole = sum(len(one.requests or ()) + len(one.limits or ()) for one in _of_whole_pod(spec))
    yield "requests, limits and overheads of its own", AMOUNTS, whole


def _of_names(spec: raw.PodSpec) -> Counted:
    yield "different resources", RESOURCES, len(set(named(spec)))


def _of_place(spec: raw.PodSpec) -> Counted:
    yield "labels in its node selector", SELECTOR, len(spec.node_selector or {})
    yield "tolerations", TOLERATIONS, len(spec.tolerations or ())
    terms, conditions = _affinity(spec)
    yield "terms in its node affinity", TERMS, terms
    yield "expressions in its node affinity", EXPRESSIONS, len(conditions)
    yield "values in its node affinity", VALUES, sum(len(one.values or ()) for one in conditions)
    yield "characters in its node selector, affinity and tolerations", WHERE, sum(map(len, _texts(spec)))


def _of_ports(spec: raw.PodSpec) -> Counted:
    found = (one.ports for one in (*(spec.init_containers or ()), *spec.containers) if one.ports)
    asked = sum(1 for port in itertools.chain.from_iterable(found) if port.host_port)
    yield "host ports", PORTS, asked


def _affinity(spec: raw.PodSpec) -> tuple[int, list[raw.Expression]]:
    node = spec.affinity.node_affinity if spec.affinity else None
    terms = node.required.node_selector_terms or () if node and node.required else ()
    lists = (one for term in terms for one in (term.match_expressions, term.match_fields) if one)
    return len(terms), list(itertools.chain.from_iterable(lists))


def _texts(spec: raw.PodSpec) -> Iterator[str]:
    for key, value in (spec.node_selector or {}).items():
        yield from (key, value)
    for toleration in spec.tolerations or ():
        yield from (toleration.key, toleration.operator, toleration.value, toleration.effect)
    for one in _affinity(spec)[1]:
        yield from (one.key, one.operator, *(one.values or ()))
