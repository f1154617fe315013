"""Keeps the Device of one node as it should be.

It watches that Device, and wakes the loop when somebody deletes or edits it, or writes an
annotation for the agent. The Node that owns it is read once, and again whenever the Device is
gone or may not be written: a Device is deleted with its Node, and the next Node of that name
has another uid.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import msgspec

from berth_agent.publish import object_cache, object_writer
from berth_crds import names, vocabulary, wire
from berth_crds.client import api, errors, informer, resources, store

REFRESH_SECONDS: Final = 10.0

# The conditions of a Device that are the agent's; `Ready` is the operator's.
OWN_CONDITIONS: Final = frozenset(vocabulary.DeviceCondition) - {vocabulary.DeviceCondition.READY}


def _spec(spec: wire.DeviceSpec) -> object:
    # The server keeps a keyed list in an order of its own once several have written to it.
    return msgspec.structs.replace(
        spec, devices=tuple(sorted(spec.devices, key=lambda card: card.uuid)), cordon=()
    )


def _status(status: wire.DeviceStatus) -> object:
    return (
        sorted(status.devices, key=lambda card: card.uuid),
        [each for each in status.conditions if each.type in OWN_CONDITIONS],
    )


DEVICE: Final = object_writer.ManagedKind(
    resources.DEVICES,
    wire.Device,
    owned_by=resources.NODES.kind,
    parts=(
        object_writer.ManagedPart("spec", ("bootID", "driver", "devices", "partitions", "summary"), _spec),
        object_writer.ManagedPart("status", ("devices",), _status),
    ),
)


class DevicePublisher:
    """Publishes the Device of one node."""

    def __init__(self, session: api.Api, node: str, *, on_change: Callable[[], None]) -> None:
        """`on_change` is called when the Device is no longer as it was published."""
        self._session = session
        self._node = node
        self._key: store.Key = ("", node)
        self._astray = on_change
        self._owner: wire.OwnerReference | None = None
        self._repaired = ""  # The annotation, as the last version of the Device had it.
        self._wanted: object_writer.DesiredObject | None = None
        self._mirror: object_cache.ObjectCache[wire.Device] = object_cache.ObjectCache(self._on_change)
        self._writer = object_writer.ObjectWriter(session, DEVICE, self._mirror)
        self.informer = informer.Informer(
            session,
            resources.DEVICES,
            wire.Device,
            self._mirror,
            scope=resources.Scope(fields=f"metadata.name={node}"),
        )

    def device(self) -> wire.Device | None:
        """Return the Device in the API, as far as is known."""
        return self._mirror.get(self._key)

    def annotation(self, annotation: str) -> str:
        """Return an annotation of the Device; empty where there is none."""
        device = self.device()
        return device.metadata.annotations.get(annotation, "") if device else ""

    async def replace_annotation(self, annotation: str, old: str, new: str) -> None:
        """Replace an annotation, or remove it where `new` is empty; unless somebody changed it meanwhile."""
        path = f"/metadata/annotations/{annotation.replace('~', '~0').replace('/', '~1')}"
        steps = [
            {"op": "test", "path": path, "value": old},
            {"op": "replace", "path": path, "value": new} if new else {"op": "remove", "path": path},
        ]
        with contextlib.suppress(errors.Invalid, errors.Conflict, errors.NotFound):
            await self._session.send(
                "PATCH",
                resources.DEVICES.path(self._node),
                params={"fieldManager": names.AGENT_MANAGER},
                body=msgspec.json.encode(steps),
                content=object_writer.JSON_PATCH,
            )

    async def publish(self, spec: wire.DeviceSpec, status: wire.DeviceStatus) -> wire.OwnerReference:
        """Write the Device, and return the Node that owns it."""
        owner = self._owner or await self._find_owner()
        self._wanted = object_writer.DesiredObject(self._key, owner, spec, status)
        await self._refresh()
        try:
            await self._writer.ensure(self._wanted)
        except (errors.NotFound, errors.AmbiguousNotFound, errors.Forbidden):
            # A Device goes with its Node, and a Node that was made again has another uid.
            self._owner = None
            raise
        return owner

    async def _refresh(self) -> None:
        """Read the Device again while its watch is down: a restore may have undone it."""
        if self.informer.live:
            return
        try:
            async with asyncio.timeout(REFRESH_SECONDS):
                await self.informer.resync(join=True)
        except TimeoutError as error:
            raise errors.Unreachable("the Device cannot be read", ambiguous=False) from error

    async def _find_owner(self) -> wire.OwnerReference:
        try:
            node = await self._session.get(resources.NODES, self._node, into=api.WithMetadata)
        except errors.NotFound as error:
            raise errors.ClientError(
                f"there is no Node {self._node} yet that could own the Device"
            ) from error
        self._owner = wire.OwnerReference(
            api_version=resources.NODES.api_version,
            kind=resources.NODES.kind,
            name=self._node,
            uid=node.metadata.uid,
        )
        return self._owner

    def _on_change(self, key: store.Key) -> None:
        if self._mirror.get(key) is None:
            self._owner = None
            self._writer.forget(key)
        # What names no card of the node is left there, and must not wake the loop with each further version.
        before, self._repaired = self._repaired, self.annotation(names.REPAIRED)
        if self._wanted is None:
            return
        if self._repaired not in {"", before} or not self._writer.is_up_to_date(self._wanted):
            self._astray()
