"""The kinds of object that the simulation reads, and how invalid objects are found.

Each row of the table turns the body of an object into the struct that the operator itself
decodes, and raises an InputError where the API server would have refused the object. Berth's own
kinds are validated by the models of their schema; the rules of the schema in CEL on which the
ledger relies are repeated here.
"""

import collections
import dataclasses
import datetime as dt
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
import pydantic

from berth_crds import device, gpupod, names, policy, wire
from berth_crds.client import lease
from berth_operator.simulation import input_errors
from berth_operator.simulation.input_errors import InputError
from berth_operator.translate import devices, policies, quantities, raw, raw_volumes

# The PriorityClasses that every cluster has.
SYSTEM_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class PriorityClass(wire.Struct, frozen=True):
    """One scheduling.k8s.io PriorityClass."""

    metadata: wire.Meta
    value: int
    global_default: bool = False


class NodeStatus(raw.NodeStatus, frozen=True):
    """What a node supplies, and its capacity, which people may write instead."""

    capacity: raw.Resources | None = None


class Node(raw.Node, frozen=True):
    """One node."""

    status: NodeStatus = NodeStatus()


Body = dict[str, Any]


def group(api_version: str) -> str:
    """Return the API group; empty for the core."""
    return api_version.rpartition("/")[0]


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One kind: its name, and how its objects are read."""

    name: str
    version: str
    into: type
    namespaced: bool = False
    model: type[pydantic.BaseModel] | None = None
    faults: Callable[[Any], Iterator[str]] = lambda _: iter(())

    def read(self, body: Body) -> Any:
        """Return an object of this kind; raise InputError if it is invalid."""
        value: Any
        try:
            value = msgspec.convert(body, self.into)
        except msgspec.ValidationError:
            body = without_nulls(body)
            try:
                value = msgspec.convert(body, self.into)
            except msgspec.ValidationError as error:
                raise InputError(input_errors.of_shape(error, body)) from None
        if self.model is not None:
            _validate(self.model, body)
        for fault in itertools.chain(_of_meta(value.metadata), self.faults(value)):
            raise InputError(fault)
        return value


# To the API server a null field is absent; a label without a value is empty.
OF_STRINGS: Final = frozenset({"labels", "annotations", "nodeSelector", "matchLabels"})


def without_nulls(value: Any, key: str = "") -> Any:
    """Return a value without the fields that are null."""
    if isinstance(value, list):
        return [without_nulls(one) for one in value]
    if not isinstance(value, dict):
        return "" if value is None and key in OF_STRINGS else value
    inside = key if key in OF_STRINGS else ""
    found = {
        name: without_nulls(one, inside or (name if isinstance(one, dict) else ""))
        for name, one in value.items()
    }
    return {name: one for name, one in found.items() if one is not None}


def _validate(model: type[pydantic.BaseModel], body: Body) -> None:
    try:
        model.model_validate(body)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in first["loc"])
        message = first["msg"][:1].lower() + first["msg"][1:]
        raise InputError(
            f"{where.removeprefix('.')}: {message}, found {input_errors.shown(first['input'])}"
        ) from None


# ---------------------------------------------------------------- rules beyond the schema


def _of_meta(meta: wire.Meta) -> Iterator[str]:
    yield from _timestamp("metadata.creationTimestamp", meta.creation_timestamp or None)
    yield from _timestamp("metadata.deletionTimestamp", meta.deletion_timestamp)


# Times as the API writes them, in RFC 3339, with or without a fraction of a second.
TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


def time_of(text: str) -> dt.datetime | None:
    """Return a time; None if the text is none."""
    try:
        return dt.datetime.fromisoformat(text) if TIME.fullmatch(text) else None
    except ValueError:
        return None


def _timestamp(place: str, text: str | None) -> Iterator[str]:
    if text is not None and time_of(text) is None:
        yield f"{place}: expected a time such as 2026-03-02T08:00:00Z, found {input_errors.shown(text)}"


def _in_32_bits(place: str, value: int | None) -> Iterator[str]:
    if value is not None and not -(2**31) <= value < 2**31:
        yield f"{place}: expected a whole number of 32 bits, found {input_errors.shown(value)}"


def _of_device(device: wire.Device) -> Iterator[str]:
    if device.spec.node != device.metadata.name:
        yield f"spec.node must be the name of the Device, found {input_errors.shown(device.spec.node)}"
    cards = device.spec.devices
    uuids = [f"the uuid {uuid}" for card in cards for uuid in devices.uuids_of(card)]
    minors = [f"the minor {card.minor} of type {card.type}" for card in cards]
    for duplicate in _duplicates([*uuids, *minors]):
        yield f"spec.devices: {duplicate} is given twice"
    for card in cards:
        if card.type == "gpu" and not card.memory:
            yield f"spec.devices: {card.uuid}: memory must be given for a device of type gpu"


def _duplicates(values: list[str]) -> list[str]:
    return [value for value, count in collections.Counter(values).items() if count > 1]


def _of_policy(manifest: wire.PlacementPolicy) -> Iterator[str]:
    policy = policies.read(manifest)
    if isinstance(policy, str):
        yield policy


def _of_node(node: Node) -> Iterator[str]:
    yield from _quantities("status.capacity", node.status.capacity)
    yield from _quantities("status.allocatable", node.status.allocatable)


def _of_pod(pod: raw.Pod) -> Iterator[str]:
    spec = pod.spec
    yield from _in_32_bits("spec.priority", spec.priority)
    if not spec.containers:
        yield "spec.containers is missing or empty"
    both = (("initContainers", spec.init_containers or ()), ("containers", spec.containers))
    for field, containers in both:
        for at, container in enumerate(containers):
            yield from _of_container(f"spec.{field}[{at}]", container)
    for name in _duplicates([one.name for _, containers in both for one in containers]):
        yield f"spec: two containers are named {input_errors.shown(name)}"
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
    """Yield faults of a request and its limit: where overcommitment is not allowed they must be equal."""
    at, strict = f"{place}.requests.{name}: {input_errors.shown(request)}", not _overcommitted(name)
    if limit is None:
        if strict:
            yield f"{at} stands there without a limit; the API server wants an equal limit of {name}"
        return
    asked, most = quantities.exact(str(request)), quantities.exact(str(limit))
    if strict and asked != most:
        limit_shown = input_errors.shown(limit)
        yield f"{at} differs from the limit, {limit_shown}; the API server wants them to be equal"
    elif asked > most:
        yield f"{at} is more than the limit, {input_errors.shown(limit)}"


def _overcommitted(name: str) -> bool:
    """Whether the request may be below the limit: it may for Kubernetes' own resources except huge pages."""
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
            yield f"{place}.{name}: {input_errors.shown(value)} is not a quantity"
            continue
        if amount < 0:
            yield f"{place}.{name}: expected no less than 0, found {input_errors.shown(value)}"


KINDS: Final = (
    Kind("Namespace", "v1", raw.Namespace),
    Kind("Node", "v1", Node, faults=_of_node),
    Kind("Pod", "v1", raw.Pod, namespaced=True, faults=_of_pod),
    Kind(
        "PriorityClass",
        "scheduling.k8s.io/v1",
        PriorityClass,
        faults=lambda found: _in_32_bits("value", found.value),
    ),
    Kind(
        "Lease",
        "coordination.k8s.io/v1",
        lease.Lease,
        namespaced=True,
        faults=lambda found: _timestamp("spec.renewTime", found.spec.renew_time),
    ),
    Kind("Device", names.API_VERSION, wire.Device, model=device.Device, faults=_of_device),
    Kind("GpuPod", names.API_VERSION, wire.GpuPod, namespaced=True, model=gpupod.GpuPod),
    Kind(
        "PlacementPolicy",
        names.API_VERSION,
        wire.PlacementPolicy,
        model=policy.PlacementPolicy,
        faults=_of_policy,
    ),
    Kind("PersistentVolumeClaim", "v1", raw_volumes.Claim, namespaced=True),
    Kind("PersistentVolume", "v1", raw_volumes.Volume),
    Kind("StorageClass", "storage.k8s.io/v1", raw_volumes.StorageClass),
    Kind("CSIDriver", "storage.k8s.io/v1", raw_volumes.CsiDriver),
    Kind("CSINode", "storage.k8s.io/v1", raw_volumes.CsiNode),
    Kind("CSIStorageCapacity", "storage.k8s.io/v1", raw_volumes.Capacity, namespaced=True),
)
BY_GROUP_AND_NAME: Final = {(group(kind.version), kind.name): kind for kind in KINDS}
