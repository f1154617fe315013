"""Keeps the Device of one node as it should be.

It follows that one Device by a watch, so a Device that somebody deletes or edits is
noticed at once and told to the loop, and so is a person's word to the agent. The Node that
owns it is read once, and again whenever the Device is gone or may not be written: it goes with
its Node, and the next Node of that name has another uid.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import msgspec

from berth_agent.publish import mirror, writer
from berth_crds import names, vocabulary, wire
from berth_crds.client import api, errors, informer, resources

SEE_SECONDS: Final = 10.0

# The conditions of a Device that are the agent's; `Ready` beside them is the operator's.
OWN_CONDITIONS: Final = frozenset(
    {vocabulary.DeviceCondition.NVML_READY, vocabulary.DeviceCondition.POD_RESOURCES_READY}
)


def _spec(spec: wire.DeviceSpec) -> object:
    # The server keeps a keyed list in an order of its own once several have written to it.
    devices = tuple(sorted(spec.devices, key=lambda card: card.uuid))
    return msgspec.structs.replace(spec, devices=devices, cordon=())


def _status(status: wire.DeviceStatus) -> object:
    return (
        sorted(status.devices, key=lambda card: card.uuid),
        [each for each in status.conditions if each.type in OWN_CONDITIONS],
    )


FORM: Final = writer.Form(
    resources.DEVICES,
    wire.Device,
    owned_by=resources.NODES.kind,
    parts=(
        writer.Part("spec", _spec, ("bootID", "driver", "devices", "partitions", "summary")),
        writer.Part("status", _status, ("devices",)),
    ),
)


class Node(wire.Struct, frozen=True):
    """A Node, of which only the identity matters here."""

    metadata: wire.Meta


class Publisher:
    """Publishes one Device."""

    def __init__(self, session: api.Api, node: str, *, astray: Callable[[], None]) -> None:
        """Remember whom to tell when somebody else changed the Device: `astray`."""
        self._session = session
        self._node = node
        self._key: mirror.Key = ("", node)
        self._astray = astray
        self._owner: wire.OwnerReference | None = None
        self._wanted: writer.Wanted | None = None
        self._mirror: mirror.Mirror[wire.Device] = mirror.Mirror(self._on_change)
        self._writer = writer.Writer(session, FORM, self._mirror)
        self.informer = informer.Informer(
            session,
            resources.DEVICES,
            wire.Device,
            self._mirror,
            scope=informer.Scope(fields=f"metadata.name={node}"),
        )

    def seen(self) -> wire.Device | None:
        """Return the Device as it stands in the API."""
        return self._mirror.get(self._key)

    def note(self, annotation: str) -> str:
        """Return what people wrote to the agent; empty where they wrote nothing."""
        seen = self.seen()
        return seen.metadata.annotations.get(annotation, "") if seen else ""

    async def heed(self, annotation: str, text: str, rest: str) -> None:
        """Take what was heeded out of an annotation, unless somebody wrote another word meanwhile."""
        at = f"/metadata/annotations/{annotation.replace('~', '~0').replace('/', '~1')}"
        steps = [
            {"op": "test", "path": at, "value": text},
            {"op": "replace", "path": at, "value": rest} if rest else {"op": "remove", "path": at},
        ]
        with contextlib.suppress(errors.Invalid, errors.Conflict, errors.NotFound):
            await self._session.send(
                "PATCH",
                resources.DEVICES.path(self._node),
                params={"fieldManager": names.AGENT_MANAGER},
                body=msgspec.json.encode(steps),
                content=writer.JSON_PATCH,
            )

    async def publish(self, spec: wire.DeviceSpec, status: wire.DeviceStatus) -> wire.OwnerReference:
        """Make the Device say this, and give the Node that owns it."""
        owner = self._owner or await self._find_owner()
        self._wanted = writer.Wanted(self._key, owner, spec, status)
        await self._see()
        try:
            await self._writer.make_so(self._wanted)
        except errors.NotFound:
            # Deleted between the two writes, or its kind is not served (yet).
            self._forget()
            raise
        except errors.Forbidden:
            # A Node that was made again meanwhile has another uid, which the refusal may be about.
            self._owner = None
            raise
        return owner

    async def _see(self) -> None:
        """Make sure that what is known of the Device is what the API has: a restore may have undone it."""
        if self.informer.live:
            return
        try:
            async with asyncio.timeout(SEE_SECONDS):
                await self.informer.retell()
        except TimeoutError as error:
            raise errors.Unreachable("the Device cannot be read", ambiguous=False) from error

    async def _find_owner(self) -> wire.OwnerReference:
        try:
            node = await self._session.get(resources.NODES, self._node, into=Node)
        except errors.NotFound as error:
            sentence = f"there is no Node {self._node} yet that could own the Device"
            raise errors.ClientError(sentence) from error
        self._owner = wire.OwnerReference(
            api_version=resources.NODES.api_version,
            kind=resources.NODES.kind,
            name=self._node,
            uid=node.metadata.uid,
        )
        return self._owner

    def _on_change(self, key: mirror.Key) -> None:
        if self._mirror.get(key) is None:
            self._forget()
        if self._wanted is None:
            return
        if self.note(names.REPAIRED) or not self._writer.agrees(self._wanted):
            self._astray()

    def _forget(self) -> None:
        self._owner = None
        self._writer.forget(self._key)
