"""How large a request may be, so that no pod, and no number of them, takes much memory or time.

The API server accepts objects of more than a megabyte, and the request of a pod is kept, compared
and tried on every node for as long as it waits. A pod beyond these limits is refused with a
sentence that names the limit, and nothing of it is kept. The limits are far above what people
need: a node has no more than 64 cards.
"""

import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from berth_crds import aliases
from berth_operator.scheduling.decisions import Refusal
from berth_operator.translate import inter_pod_rules, quantities, raw, refusals

MAX_BYTES: Final = 1 << 20  # Bytes of a whole pod. Etcd takes half as much again, and a bind adds to the pod.
MAX_TEXT: Final = 4 << 10  # Characters of an annotation that is no list.
MAX_LIST_TEXT: Final = 32 << 10  # Characters of one that is.
MAX_ITEM_TEXT: Final = 128  # Characters of one item in a list.
MAX_LABEL_TEXT: Final = 400  # Characters of a label with its value, of which Kubernetes allows fewer.
MAX_MODELS: Final = 64
MAX_UUIDS: Final = 512
MAX_LABELS: Final = 64
MAX_POD_LABELS: Final = 1024  # Of the pod itself.
MAX_ASKS: Final = 64  # Each type of device that a container requests is one.
MAX_DEVICE_AMOUNTS: Final = 4 * MAX_ASKS  # Amounts of devices; an ask has up to four.
MAX_PIECES: Final = 256  # Replicas and MIG instances, which are placed one by one.
MAX_RESOURCES: Final = 64  # Different names.
MAX_BOUND_RESOURCES: Final = 256  # Of a bound pod, which cannot be refused.
MAX_CONTAINERS: Final = 4096
MAX_PORTS: Final = 64  # Of its node.
MAX_CLAIMS: Final = 64
MAX_BOUND_CLAIMS: Final = 1024  # Of a bound pod, which cannot be refused.
MAX_DISKS: Final = 64
MAX_BOUND_DISKS: Final = 1024  # Of a bound pod, which cannot be refused.
MAX_MONITORS: Final = 512  # Of all its disks together.
MAX_BOUND_MONITORS: Final = 1024  # Of a bound pod, which cannot be refused.
MAX_VOLUMES: Final = 4096  # Of a bound pod those beyond are not read.
MAX_BOUND_PORTS: Final = 1024  # Of a bound pod, which cannot be refused.
MAX_AMOUNTS: Final = 4096  # Requests and limits of all containers.
MAX_SELECTOR: Final = 64
MAX_TOLERATIONS: Final = 128
MAX_TERMS: Final = 64
MAX_EXPRESSIONS: Final = 256  # Of all terms of an affinity together.
MAX_VALUES: Final = 1024  # Likewise.
MAX_POD_TERMS: Final = 64  # Of pod affinity, anti-affinity and topology spread together.
MAX_POD_EXPRESSIONS: Final = 256  # Of all their selectors together.
MAX_POD_VALUES: Final = 1024  # Likewise, with the namespaces that they name.
MAX_WHERE_TEXT: Final = 32 << 10  # Characters of selector, affinity and tolerations together.
# The lists of a long pod, as `long_pods` names them.
OF_OTHER_PODS: Final = ("pod anti-affinity", "pod affinity", "topology spread constraints")
MAX_WEIGHT: Final = 100  # Of a preferred term; the API server accepts no more.
MAX_NODE_LABELS: Final = 1024
MAX_NODE_TAINTS: Final = 256
MAX_NODE_RESOURCES: Final = 256
MAX_NODE_TEXT: Final = 128 << 10  # Characters of labels and taints together.
MAX_FAULTS: Final = 16  # More than people read at once.
NOTHING: Final = frozenset({"0", 0})  # As an API server writes it.

T = TypeVar("T")
WeightedTerm = tuple[int, raw.PodAffinityTerm]
Spread = tuple[raw.TopologySpreadConstraint, ...]


def check_count(place: str, what: str, found: Sequence[T], most: int) -> Sequence[T]:
    """Return a list that is not too long; raise RefusalError otherwise."""
    if len(found) > most:
        refusals.refuse(f"{place} names {len(found)} {what}; {most} are the most")
    return found


def check_length(place: str, text: str, most: int) -> str:
    """Return a text that is not too long; raise RefusalError otherwise."""
    if len(text) > most:
        refusals.refuse(f"{place} has {len(text)} characters; {most} are the most")
    return text


def first_faults(faults: Iterable[Refusal]) -> tuple[Refusal, ...]:
    """Return the faults; of very many the first, and one that says there are more."""
    found = tuple(itertools.islice(faults, MAX_FAULTS + 1))
    if len(found) <= MAX_FAULTS:
        return found
    return (*found[:MAX_FAULTS], refusals.invalid("there is more that is wrong with the pod"))


# ---------------------------------------------------------------- limits of a spec


Counted = Iterator[tuple[str, int, int]]


def too_long(length: int) -> Refusal | None:
    """Return a fault if a pod is so long that etcd may not accept it with its bind."""
    if length <= MAX_BYTES:
        return None
    return refusals.unsupported(
        f"the pod has more than {MAX_BYTES} bytes as an object; Berth binds none that has"
    )


def first_volumes(spec: raw.PodSpec) -> Iterable[raw.Volume]:
    """Return the volumes of a pod that are read: each takes time, and there may be tens of thousands."""
    return itertools.islice(spec.volumes or (), MAX_VOLUMES)


def too_many_volumes(spec: raw.PodSpec) -> Refusal | None:
    """Return a fault if a pod has more volumes than are read."""
    return _first(iter([("volumes", MAX_VOLUMES, len(spec.volumes or ()))]))


def has_too_many_labels(labels: Mapping[str, str]) -> bool:
    """Whether a pod has more labels than are read."""
    return len(labels) > MAX_POD_LABELS


def too_large(pod: raw.Pod) -> Refusal | None:
    """Return a fault if a pod is too long, or has too many labels, apart from its spec."""
    if has_too_many_labels(pod.metadata.labels):
        labels = len(pod.metadata.labels)
        return refusals.unsupported(f"the pod has {labels} labels; {MAX_POD_LABELS} are the most")
    return too_long(pod.length)


def exceeded(spec: raw.PodSpec) -> Refusal | None:
    """Return a fault if a spec is beyond any limit; this only counts."""
    if spec.unread_list:
        return refusals.unsupported(f"the pod says more in its {spec.unread_list} than Berth reads")
    places = itertools.chain(_of_place(spec), _of_ports(spec), _of_other_pods(spec))
    counted = (_of_containers(spec), _of_names(spec), _of_devices(spec), places)
    return _first(itertools.chain.from_iterable(counted))


def too_many(spec: raw.PodSpec) -> Refusal | None:
    """Return a fault if a pod has too many amounts to be read as a request."""
    return _first(itertools.chain(_of_containers(spec), _of_devices(spec)))


def many_devices(spec: raw.PodSpec) -> bool:
    """Whether a bound pod, which cannot be refused, has more amounts of devices than are read."""
    counts = _counts_of_devices(spec)
    return quantities.sum_up_to(MAX_DEVICE_AMOUNTS + 1, counts) > MAX_DEVICE_AMOUNTS


def many_terms(spec: raw.PodSpec) -> bool:
    """Whether a bound pod, which cannot be refused, says more about other pods than is read."""
    return spec.unread_list in OF_OTHER_PODS or _first(_of_other_pods(spec)) is not None


def resource_names(spec: raw.PodSpec) -> Iterator[str]:
    """Yield the names of all resources that a pod requests, with repetitions."""
    return itertools.chain.from_iterable(_lists(spec, *_of_whole_pod(spec)))


def requested_names(spec: raw.PodSpec) -> set[str]:
    """Return the names of the resources of which a pod requests more than nothing."""
    lists = _lists(spec, *_of_whole_pod(spec))
    return {name for one in lists for name, amount in one.items() if amount not in NOTHING}


def _first(counted: Counted) -> Refusal | None:
    for what, most, count in counted:
        if count > most:
            return refusals.unsupported(f"the pod has {count} {what}; Berth reads {most} at most")
    return None


def _resources(spec: raw.PodSpec) -> list[raw.ContainerResources]:
    return [one.resources for one in (*(spec.init_containers or ()), *spec.containers) if one.resources]


def _of_whole_pod(spec: raw.PodSpec) -> Iterator[raw.ContainerResources]:
    """Yield what is set for the pod as a whole, in the form that containers have."""
    if spec.resources:
        yield spec.resources
    if spec.overhead:
        yield raw.ContainerResources(spec.overhead)


def _names(one: raw.ContainerResources) -> Iterable[str]:
    """Return the names of a container's resources; one that is request and limit counts once."""
    if one.requests and one.limits:
        return one.requests.keys() | one.limits.keys()
    return one.requests or one.limits or ()


def _lists(spec: raw.PodSpec, *more: raw.ContainerResources) -> list[raw.Resources]:
    found = (*_resources(spec), *more)
    return [one for each in found for one in (each.requests, each.limits) if one]


def _of_devices(spec: raw.PodSpec) -> Counted:
    yield "amounts of devices in its containers", MAX_DEVICE_AMOUNTS, sum(_counts_of_devices(spec))


def _counts_of_devices(spec: raw.PodSpec) -> Iterator[int]:
    """Yield for each amount whether it is of a device."""
    for one in _resources(spec):
        yield from map(aliases.is_served, _names(one))


def _of_containers(spec: raw.PodSpec) -> Counted:
    yield "containers", MAX_CONTAINERS, len(spec.init_containers or ()) + len(spec.containers)
    yield "requests and limits in its containers", MAX_AMOUNTS, sum(map(len, _lists(spec)))
    whole = sum(len(one.requests or ()) + len(one.limits or ()) for one in _of_whole_pod(spec))
    yield "requests, limits and overheads of its own", MAX_AMOUNTS, whole


def _of_names(spec: raw.PodSpec) -> Counted:
    yield "different resources", MAX_RESOURCES, len(set(resource_names(spec)))


def _of_place(spec: raw.PodSpec) -> Counted:
    yield "labels in its node selector", MAX_SELECTOR, len(spec.node_selector or {})
    yield "tolerations", MAX_TOLERATIONS, len(spec.tolerations or ())
    terms, conditions = _affinity(spec)
    yield "terms in its node affinity", MAX_TERMS, terms
    yield "expressions in its node affinity", MAX_EXPRESSIONS, len(conditions)
    yield "values in its node affinity", MAX_VALUES, sum(len(one.values or ()) for one in conditions)
    yield (
        "characters in its node selector, affinity and tolerations",
        MAX_WHERE_TEXT,
        sum(map(len, _texts(spec))),
    )


def _of_ports(spec: raw.PodSpec) -> Counted:
    found = (one.ports for one in (*(spec.init_containers or ()), *spec.containers) if one.ports)
    asked = sum(1 for port in itertools.chain.from_iterable(found) if port.host_port)
    yield "host ports", MAX_PORTS, asked


def _of_other_pods(spec: raw.PodSpec) -> Counted:
    terms = (*inter_pod_rules.affinity_terms(spec), *inter_pod_rules.anti_affinity_terms(spec))
    spread = inter_pod_rules.spread_constraints(spec)
    if not terms and not spread:
        return
    # First, for nothing more is counted if these alone are too many.
    yield "terms about other pods", MAX_POD_TERMS, len(terms) + len(spread)
    listed = (*(one.match_label_keys or () for one in spread), *_lists_of(terms))
    selectors = tuple(inter_pod_rules.selectors(spec))
    pairs = sum(len(one.match_labels or ()) for one in selectors)
    expressions = [each for one in selectors for each in one.match_expressions or ()]
    yield "expressions in its terms about other pods", MAX_POD_EXPRESSIONS, pairs + len(expressions)
    values = sum(map(len, listed)) + sum(len(one.values or ()) for one in expressions)
    yield "values in its terms about other pods", MAX_POD_VALUES, values
    texts = itertools.chain.from_iterable((*listed, *map(_texts_of_selector, selectors)))
    yield "characters in its terms about other pods", MAX_WHERE_TEXT, sum(map(len, texts))


def _lists_of(terms: Iterable[raw.PodAffinityTerm]) -> Iterator[Sequence[str]]:
    for one in terms:
        yield from (one.match_label_keys or (), one.mismatch_label_keys or (), one.namespaces or ())


def _texts_of_selector(selector: raw.LabelSelector) -> Iterator[str]:
    yield from itertools.chain.from_iterable((selector.match_labels or {}).items())
    yield from _texts_of(selector.match_expressions or ())


def _affinity(spec: raw.PodSpec) -> tuple[int, list[raw.Expression]]:
    node = spec.affinity.node_affinity if spec.affinity else None
    terms = node.required.node_selector_terms or () if node and node.required else ()
    lists = (one for term in terms for one in (term.match_expressions, term.match_fields) if one)
    return len(terms), list(itertools.chain.from_iterable(lists))


def preferred_terms(spec: raw.PodSpec) -> Iterator[raw.PreferredTerm]:
    """Yield the preferred terms of a node affinity up to the first that its limits have no room for.

    What the affinity requires comes first. A pod is not refused for what it only prefers: what is beyond the
    limits is passed over.
    """
    node = spec.affinity.node_affinity if spec.affinity else None
    required, conditions = _affinity(spec)
    expressions, values = len(conditions), sum(len(one.values or ()) for one in conditions)
    characters = sum(map(len, _texts_of(conditions)))
    for term in itertools.islice((node.preferred or ()) if node else (), max(0, MAX_TERMS - required)):
        lists = (one for one in (term.preference.match_expressions, term.preference.match_fields) if one)
        found = list(itertools.chain.from_iterable(lists))
        expressions += len(found)
        values += sum(len(one.values or ()) for one in found)
        characters += sum(map(len, _texts_of(found)))
        if expressions > MAX_EXPRESSIONS or values > MAX_VALUES or characters > MAX_WHERE_TEXT:
            return
        if term.weight <= MAX_WEIGHT:
            yield term


def preferred_of_pods(
    spec: raw.PodSpec, terms: Sequence[WeightedTerm], spread: Spread
) -> tuple[Sequence[WeightedTerm], Spread]:
    """Return what a pod prefers of other pods, up to the first that its limits have no room for.

    The limits are those of what it requires of other pods, which comes first; too much of that is not read
    and takes no room.
    """
    if not terms and not spread:
        return (), ()
    required = () if many_terms(spec) else inter_pod_rules.required(spec)
    sums = tuple(map(sum, zip(*map(_sizes, required), strict=True))) or (0, 0, 0)
    most, kept = (MAX_POD_EXPRESSIONS, MAX_POD_VALUES, MAX_WHERE_TEXT), 0
    written: list[raw.PodAffinityTerm | raw.TopologySpreadConstraint] = [*(one for _, one in terms), *spread]
    for one in written[: MAX_POD_TERMS - len(required)]:
        sums = tuple(map(operator.add, sums, _sizes(one)))
        if any(map(operator.gt, sums, most)):
            break
        kept += 1
    return terms[:kept], spread[: max(0, kept - len(terms))]


def _sizes(written: raw.PodAffinityTerm | raw.TopologySpreadConstraint) -> tuple[int, int, int]:
    """Return how many expressions, values and characters a term about other pods has."""
    if isinstance(written, raw.PodAffinityTerm):
        listed = tuple(_lists_of((written,)))
        selectors = [one for one in (written.label_selector, written.namespace_selector) if one is not None]
    else:
        listed = (written.match_label_keys or (),)
        selectors = [written.label_selector] if written.label_selector is not None else []
    found = [each for one in selectors for each in one.match_expressions or ()]
    texts = itertools.chain.from_iterable((*listed, *map(_texts_of_selector, selectors)))
    return (
        len(found) + sum(len(one.match_labels or ()) for one in selectors),
        sum(map(len, listed)) + sum(len(one.values or ()) for one in found),
        len(written.topology_key) + sum(map(len, texts)),
    )


def _texts(spec: raw.PodSpec) -> Iterator[str]:
    for key, value in (spec.node_selector or {}).items():
        yield from (key, value)
    for toleration in spec.tolerations or ():
        yield from (toleration.key, toleration.operator, toleration.value, toleration.effect)
    yield from _texts_of(_affinity(spec)[1])


def _texts_of(expressions: Iterable[raw.Expression]) -> Iterator[str]:
    for one in expressions:
        yield from (one.key, one.operator, *(one.values or ()))
