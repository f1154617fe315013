"""The kinds of object that the simulation reads, and what makes one of them unreadable.

Each row of the table turns the body of an object into the struct that the operator itself
decodes, and raises a Mistake where the API server would have refused it. For Berth's own
kinds the schema's models say so; the rules that the schema states in CEL and on which the
ledger relies are repeated here.
"""

import collections
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
import pydantic

from berth_crds import device, gpupod, names, policy, wire
from berth_crds.client import lease
from berth_operator.simulation import mistakes, moments
from berth_operator.simulation.mistakes import Mistake
from berth_operator.translate import policies, quantities, raw

# The classes that every cluster has.
SYSTEM_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class PriorityClass(wire.Struct, frozen=True):
    """One scheduling.k8s.io PriorityClass."""

    metadata: wire.Meta
    value: int
    global_default: bool = False


class NodeStatus(raw.NodeStatus, frozen=True):
    """What a node can give, and what it has, which people write who leave the former out."""

    capacity: raw.Resources | None = None


class Node(raw.Node, frozen=True):
    """One node."""

    status: NodeStatus = NodeStatus()


Body = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One kind: how it is named, and how its objects are read."""

    name: str
    version: str
    into: type
    namespaced: bool = False
    model: type[pydantic.BaseModel] | None = None
    faults: Callable[[Any], Iterator[str]] = lambda _: iter(())

    @property
    def group(self) -> str:
        """The API group; empty for the core."""
        return self.version.rpartition("/")[0]

    def read(self, body: Body) -> Any:
        """Read an object of this kind, or say what is wrong with it."""
        thing: Any
        try:
            thing = msgspec.convert(body, self.into)
        except msgspec.ValidationError:
            body = without_nulls(body)
            thing = self._read_strictly(body)
        if self.model is not None:
            _validate(self.model, body)
        for fault in itertools.chain(_of_meta(thing.metadata), self.faults(thing)):
            raise Mistake(fault)
        return thing

    def _read_strictly(self, body: Body) -> Any:
        try:
            return msgspec.convert(body, self.into)
        except msgspec.ValidationError as error:
            raise Mistake(mistakes.of_shape(error, body)) from None


# To the API server a field that is null is not there; a label without a value is empty.
OF_STRINGS: Final = frozenset({"labels", "annotations", "nodeSelector", "matchLabels"})


def without_nulls(value: Any, key: str = "") -> Any:
    """Leave out the fields that are null."""
    if isinstance(value, list):
        return [without_nulls(one) for one in value]
    if not isinstance(value, dict):
        return "" if value is None and key in OF_STRINGS else value
    inside = key if key in OF_STRINGS else ""
    found = {name: without_nulls(one, inside or _container(name, one)) for name, one in value.items()}
    return {name: one for name, one in found.items() if one is not None}


def _container(name: str, value: Any) -> str:
    return name if isinstance(value, dict) else ""


def _validate(model: type[pydantic.BaseModel], body: Body) -> None:
    try:
        model.model_validate(body)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in first["loc"])
        said = first["msg"][:1].lower() + first["msg"][1:]
        raise Mistake(f"{where.removeprefix('.')}: {said}, found {mistakes.shown(first['input'])}") from None


# ---------------------------------------------------------------- what the schema cannot say


def _of_meta(meta: wire.Meta) -> Iterator[str]:
    yield from _moment("metadata.creationTimestamp", meta.creation_timestamp or None)
    yield from _moment("metadata.deletionTimestamp", meta.deletion_timestamp)


def _moment(place: str, text: str | None) -> Iterator[str]:
    if text is not None and moments.read(text) is None:
        yield f"{place}: expected a time such as 2026-03-02T08:00:00Z, found {mistakes.shown(text)}"


def _of_lease(thing: lease.Lease) -> Iterator[str]:
    yield from _moment("spec.renewTime", thing.spec.renew_time)


def _of_class(thing: PriorityClass) -> Iterator[str]:
    yield from _in_32_bits("value", thing.value)


def _in_32_bits(place: str, value: int | None) -> Iterator[str]:
    if value is not None and not -(2**31) <= value < 2**31:
        yield f"{place}: expected a whole number of 32 bits, found {mistakes.shown(value)}"


def _of_device(thing: wire.Device) -> Iterator[str]:
    if thing.spec.node != thing.metadata.name:
        yield f"spec.node must be the name of the Device, found {mistakes.shown(thing.spec.node)}"
    for what, seen in (
        ("the uuid {}", [uuid for card in thing.spec.devices for uuid in _uuids(card)]),
        ("the minor {} of type {}", [(card.minor, card.type) for card in thing.spec.devices]),
    ):
        for one in _twice(seen):
            said = what.format(*(one if isinstance(one, tuple) else (one,)))
            yield f"spec.devices: {said} is given twice"
    for card in thing.spec.devices:
        if card.type == "gpu" and not card.memory:
            yield f"spec.devices: {card.uuid}: memory must be given for a device of type gpu"


def _uuids(card: wire.Card) -> list[str]:
    return [card.uuid, *(one.uuid for one in (card.mig.instances if card.mig else ()))]


def _twice(values: list[Any]) -> list[Any]:
    return [value for value, count in collections.Counter(values).items() if count > 1]


def _of_policy(thing: wire.PlacementPolicy) -> Iterator[str]:
    policy = policies.rules(thing)
    if isinstance(policy, str):
        yield policy


def _of_node(thing: Node) -> Iterator[str]:
    yield from _quantities("status.capacity", thing.status.capacity)
    yield from _quantities("status.allocatable", thing.status.allocatable)


def _of_pod(thing: raw.Pod) -> Iterator[str]:
    spec = thing.spec
    yield from _in_32_bits("spec.priority", spec.priority)
    if not spec.containers:
        yield "spec.containers is missing or empty"
    both = (("initContainers", spec.init_containers or ()), ("containers", spec.containers))
    for field, containers in both:
        for at, container in enumerate(containers):
            yield from _of_container(f"spec.{field}[{at}]", container)
    for name in _twice([one.name for _, containers in both for one in containers]):
        yield f"spec: two containers are named {mistakes.shown(name)}"
    yield from _of_resources("spec.resources", spec.resources)
    yield from _quantities("spec.overhead", spec.overhead)


def _of_container(place: str, container: raw.Container) -> Iterator[str]:
    if not container.name:
        yield f"{place}.name is missing"
    yield from _of_resources(f"{place}.resources", container.resources)
    if container.resources is not None:
        limits, requests = container.resources.limits or {}, container.resources.requests or {}
        for name, request in requests.items():
            yield from _within(f"{place}.resources", name, request, limits.get(name))


def _within(place: str, name: str, request: raw.Quantity, limit: raw.Quantity | None) -> Iterator[str]:
    """Compare a request with its limit as the API server does: what cannot be overcommitted must be equal."""
    at, strict = f"{place}.requests.{name}: {mistakes.shown(request)}", not _overcommitted(name)
    if limit is None:
        if strict:
            yield f"{at} stands there without a limit; the API server wants an equal limit of {name}"
        return
    asked, most = quantities.exact(str(request)), quantities.exact(str(limit))
    if strict and asked != most:
        yield f"{at} differs from the limit, {mistakes.shown(limit)}; the API server wants them to be equal"
    elif asked > most:
        yield f"{at} is more than the limit, {mistakes.shown(limit)}"


def _overcommitted(name: str) -> bool:
    """Return whether the request may be less than the limit: so with Kubernetes' own but for huge pages."""
    return ("/" not in name or "kubernetes.io/" in name) and not name.startswith("hugepages-")


def _of_resources(place: str, resources: raw.ContainerResources | None) -> Iterator[str]:
    if resources is not None:
        yield from _quantities(f"{place}.limits", resources.limits)
        yield from _quantities(f"{place}.requests", resources.requests)


def _quantities(place: str, amounts: Mapping[str, raw.Quantity] | None) -> Iterator[str]:
    for name, value in (amounts or {}).items():
        try:
            amount = quantities.exact(str(value))
        except ValueError:
            yield f"{place}.{name}: {mistakes.shown(value)} is not a quantity"
            continue
        if amount < 0:
            yield f"{place}.{name}: expected no less than 0, found {mistakes.shown(value)}"


KINDS: Final = (
    Kind("Node", "v1", Node, faults=_of_node),
    Kind("Pod", "v1", raw.Pod, namespaced=True, faults=_of_pod),
    Kind("PriorityClass", "scheduling.k8s.io/v1", PriorityClass, faults=_of_class),
    Kind("Lease", "coordination.k8s.io/v1", lease.Lease, namespaced=True, faults=_of_lease),
    Kind("Device", names.API_VERSION, wire.Device, model=device.Device, faults=_of_device),
    Kind("GpuPod", names.API_VERSION, wire.GpuPod, namespaced=True, model=gpupod.GpuPod),
    Kind(
        "PlacementPolicy",
        names.API_VERSION,
        wire.PlacementPolicy,
        model=policy.PlacementPolicy,
        faults=_of_policy,
    ),
)
READ: Final = {(kind.group, kind.name): kind for kind in KINDS}
