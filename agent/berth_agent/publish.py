"""Makes the API agree with what should be: level-based, and silent when it already does.

`Mirror` holds the newest that is known of each object, from a watch or from the answer
to our own write, whichever is later. `Writer` compares the agent's part of that with
what is wanted and applies the difference, so a restarted agent that finds everything in
place writes nothing, and a deleted or hand-edited object is put right. `DevicePublisher`
does this for the one Device of a node, and `Heartbeat` renews the Lease.

Nothing is retried here: a failed write raises, and the loop comes again. When to beat is
the loop's to decide, too.
"""

import dataclasses
import datetime as dt
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from berth_crds import names, vocabulary, wire
from berth_crds.client import api, errors, informer, lease, resources

log = logging.getLogger(__name__)


class Kept(Protocol):
    """An object of ours: metadata, and a spec and a status with parts that are the agent's."""

    @property
    def metadata(self) -> wire.Meta: ...  # noqa: D102
    @property
    def spec(self) -> Any: ...  # noqa: D102
    @property
    def status(self) -> Any: ...  # noqa: D102


B = TypeVar("B", bound=Kept)
Key = tuple[str, str]  # namespace, empty for the whole cluster's, and name


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What one object should say, as far as the agent has a say in it."""

    key: Key
    owner: wire.OwnerReference
    spec: wire.Struct
    status: wire.Struct


# ---------------------------------------------------------------- what is known


class Mirror(Generic[B]):
    """The newest that is known of each object; `stirred` is told when a watch changes it."""

    def __init__(self, stirred: Callable[[Key], None]) -> None:
        self._stirred = stirred
        self._things: dict[Key, B] = {}

    def get(self, key: Key) -> B | None:
        """Give what is known of one object."""
        return self._things.get(key)

    def upserted(self, thing: B, /) -> None:
        """Take what a watch says, unless the answer to a write has been newer."""
        key = key_of(thing.metadata)
        known = self._things.get(key)
        if known is None or not _older(thing.metadata, known.metadata):
            self._things[key] = thing
            self._stirred(key)

    def deleted(self, thing: B, /) -> None:
        """Forget an object, unless another of its name has been made since."""
        key = key_of(thing.metadata)
        known = self._things.get(key)
        if known is not None and known.metadata.uid == thing.metadata.uid:
            self.forget(key)
            self._stirred(key)

    def answered(self, thing: B) -> None:
        """Take the answer to a write."""
        self._things[key_of(thing.metadata)] = thing

    def forget(self, key: Key) -> None:
        """Take it that there is no such object."""
        self._things.pop(key, None)


def key_of(meta: wire.Meta) -> Key:
    """Name an object within its kind."""
    return meta.namespace, meta.name


def _older(one: wire.Meta, other: wire.Meta) -> bool:
    """Compare revisions. Where a server's are not numbers, what comes later counts as newer."""
    first, second = one.resource_version, other.resource_version
    return first.isdecimal() and second.isdecimal() and int(first) < int(second)


# ---------------------------------------------------------------- what is written


@dataclasses.dataclass(frozen=True, slots=True)
class Form(Generic[B]):
    """A kind, and which part of its spec and status is the agent's to compare."""

    resource: resources.Resource
    kind: type[B]
    owned_by: str
    spec: Callable[[Any], wire.Struct]
    status: Callable[[Any], wire.Struct]


# The conditions of a Device that are the agent's; `Ready` beside them is the operator's.
OWN_CONDITIONS: Final = frozenset(
    {vocabulary.DeviceCondition.NVML_READY, vocabulary.DeviceCondition.POD_RESOURCES_READY}
)


def _device_spec(spec: wire.DeviceSpec) -> wire.DeviceSpec:
    # The server keeps a keyed list in an order of its own once several have written to it.
    devices = tuple(sorted(spec.devices, key=lambda card: card.uuid))
    return msgspec.structs.replace(spec, devices=devices, cordon=())


def _device_status(status: wire.DeviceStatus) -> wire.DeviceStatus:
    return wire.DeviceStatus(
        devices=tuple(sorted(status.devices, key=lambda card: card.uuid)),
        conditions=tuple(each for each in status.conditions if each.type in OWN_CONDITIONS),
    )


def _whole(part: wire.Struct) -> wire.Struct:
    return part


DEVICE: Final = Form(resources.DEVICES, wire.Device, "Node", _device_spec, _device_status)
GPU_POD: Final = Form(resources.GPU_PODS, wire.GpuPod, "Pod", _whole, _whole)


class Writer(Generic[B]):
    """Applies what is wanted where the mirror shows something else."""

    def __init__(self, session: api.Api, form: Form[B], mirror: Mirror[B]) -> None:
        self._session = session
        self._form = form
        self._mirror = mirror
        self._decoder = msgspec.json.Decoder(form.kind)
        # What was wanted and what the server made of it. A server that normalises a value
        # (or a newer schema that defaults one) must not be written to for ever.
        self._settled: dict[tuple[Key, str], tuple[object, object]] = {}

    def agrees(self, wanted: Wanted) -> bool:
        """Tell whether nothing is left to write, as far as is known."""
        return self._spec_agrees(wanted) and self._status_agrees(wanted)

    async def make_so(self, wanted: Wanted) -> None:
        """Write what differs: the spec first, because a status needs an object."""
        if not self._spec_agrees(wanted):
            owners = [msgspec.to_builtins(wanted.owner)]
            answer = await self._apply(wanted, {"spec": wanted.spec}, meta={"ownerReferences": owners})
            self._settled[wanted.key, "spec"] = self._wanted_spec(wanted), self._said_spec(answer)
        if not self._status_agrees(wanted):
            answer = await self._apply(wanted, {"status": wanted.status}, sub="status")
            self._settled[wanted.key, "status"] = self._wanted_status(wanted), self._said_status(answer)

    def forget(self, key: Key) -> None:
        """Take it that the object is gone."""
        self._mirror.forget(key)
        self._settled.pop((key, "spec"), None)
        self._settled.pop((key, "status"), None)

    async def _apply(
        self, wanted: Wanted, part: Mapping[str, Any], *, meta: Mapping[str, Any] | None = None, sub: str = ""
    ) -> B:
        namespace, name = wanted.key
        metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **(meta or {})}
        body = await self._session.apply(
            self._form.resource, {"metadata": metadata, **part}, manager=names.AGENT_MANAGER, sub=sub
        )
        answer = self._decoder.decode(body)
        self._mirror.answered(answer)
        return answer

    # What is compared: for the spec also who owns the object.

    def _spec_agrees(self, wanted: Wanted) -> bool:
        seen = self._mirror.get(wanted.key)
        return seen is not None and self._matches(
            (wanted.key, "spec"), self._wanted_spec(wanted), self._said_spec(seen)
        )

    def _status_agrees(self, wanted: Wanted) -> bool:
        seen = self._mirror.get(wanted.key)
        return seen is not None and self._matches(
            (wanted.key, "status"), self._wanted_status(wanted), self._said_status(seen)
        )

    def _matches(self, key: tuple[Key, str], wanted: object, said: object) -> bool:
        return wanted == said or self._settled.get(key) == (wanted, said)

    def _wanted_spec(self, wanted: Wanted) -> object:
        return [wanted.owner.uid], self._form.spec(wanted.spec)

    def _said_spec(self, seen: B) -> object:
        owners = [each.uid for each in seen.metadata.owner_references if each.kind == self._form.owned_by]
        return owners, self._form.spec(seen.spec)

    def _wanted_status(self, wanted: Wanted) -> object:
        return self._form.status(wanted.status)

    def _said_status(self, seen: B) -> object:
        return self._form.status(seen.status)


# ---------------------------------------------------------------- the Device


class _Node(wire.Struct, frozen=True):
    """A Node, of which only the identity matters here."""

    metadata: wire.Meta


class DevicePublisher:
    """Keeps the Device of one node as it should be."""

    def __init__(self, session: api.Api, node: str, *, astray: Callable[[], None]) -> None:
        """Remember whom to tell when somebody else changed the Device: `astray`."""
        self._session = session
        self._key: Key = ("", node)
        self._astray = astray
        self._owner: wire.OwnerReference | None = None
        self._wanted: Wanted | None = None
        self._mirror: Mirror[wire.Device] = Mirror(self._stirred)
        self._writer = Writer(session, DEVICE, self._mirror)
        self.informer = informer.Informer(
            session,
            resources.DEVICES,
            wire.Device,
            self._mirror,
            scope=informer.Scope(fields=f"metadata.name={node}"),
        )

    def seen(self) -> wire.Device | None:
        """Give the Device as it stands in the API."""
        return self._mirror.get(self._key)

    async def publish(self, spec: wire.DeviceSpec, status: wire.DeviceStatus) -> wire.OwnerReference:
        """Make the Device say this, and give the Node that owns it."""
        owner = self._owner or await self._node()
        self._wanted = Wanted(self._key, owner, spec, status)
        try:
            await self._writer.make_so(self._wanted)
        except errors.NotFound:
            # Deleted between the two writes, or its kind is not served (yet).
            self._forget()
            raise
        return owner

    async def _node(self) -> wire.OwnerReference:
        _, name = self._key
        try:
            node = await self._session.get(resources.NODES, name, into=_Node)
        except errors.NotFound as error:
            raise errors.ClientError(f"there is no Node {name} yet that could own the Device") from error
        self._owner = wire.OwnerReference(
            api_version=resources.NODES.api_version,
            kind=resources.NODES.kind,
            name=name,
            uid=node.metadata.uid,
        )
        return self._owner

    def _stirred(self, key: Key) -> None:
        if self._mirror.get(key) is None:
            self._forget()
        if self._wanted is not None and not self._writer.agrees(self._wanted):
            self._astray()

    def _forget(self) -> None:
        # A Device goes when its Node goes, and the next Node of this name has another uid.
        self._owner = None
        self._writer.forget(self._key)


# ---------------------------------------------------------------- the Lease


class Heartbeat:
    """Renews the Lease that says: what you read in this Device is true now."""

    def __init__(
        self, session: api.Api, node: str, *, identity: str, seconds: int, clock: Callable[[], dt.datetime]
    ) -> None:
        self._session = session
        self._node = node
        self._identity = identity
        self._seconds = seconds
        self._clock = clock
        self._acquired = ""
        self._version = ""
        self._rivals: set[str] = set()

    async def beat(self, owner: wire.OwnerReference) -> None:
        """Renew. An agent that finds another one alive says so and goes on: both tell the truth."""
        try:
            await self._apply(owner, version=self._version)
        except (errors.Conflict, errors.NotFound):
            await self._look()
            await self._apply(owner, version="")

    async def _apply(self, owner: wire.OwnerReference, *, version: str) -> None:
        now = lease.stamp(self._clock())
        self._acquired = self._acquired or now
        # Naming the revision of our last write makes the server tell when somebody else wrote since.
        expected = {"resourceVersion": version} if version else {}
        metadata = {"name": self._node, "namespace": names.NODES_NAMESPACE, "ownerReferences": [owner]}
        spec = lease.LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=self._seconds,
            acquire_time=self._acquired,
            renew_time=now,
        )
        thing = {"metadata": metadata | expected, "spec": spec}
        body = await self._session.apply(resources.LEASES, thing, manager=names.AGENT_MANAGER)
        self._version = msgspec.json.decode(body, type=lease.Lease).metadata.resource_version

    async def _look(self) -> None:
        try:
            found = await self._session.get(
                resources.LEASES, self._node, into=lease.Lease, namespace=names.NODES_NAMESPACE
            )
        except errors.NotFound:
            return
        holder = found.spec.holder_identity or ""
        if holder != self._identity and holder not in self._rivals:
            self._rivals.add(holder)
            log.warning(
                "node %s: another live agent, %r, renews the same Lease; run one for each node",
                self._node,
                holder,
            )
