"""Compares desired objects with the cache, and writes the difference.

It writes by server-side apply, so others keep their fields: people the cordon, the operator its
condition. But an apply leaves what somebody else set where the agent has nothing to say, and a card
that does not exist would be given out. So when the answer is not the desired state, or the server refuses the
merged object, the fields that are the agent's alone are replaced by a JSON Patch.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic

import msgspec

from berth_agent.publish import object_cache
from berth_crds import names, wire
from berth_crds.client import api, errors, resources, store
from berth_crds.client.store import B

JSON_PATCH: Final = "application/json-patch+json"


@dataclasses.dataclass(frozen=True, slots=True)
class DesiredObject:
    """An object as it should be, as far as the agent writes it."""

    key: store.Key
    owner: wire.OwnerReference
    spec: wire.Struct
    status: wire.Struct


@dataclasses.dataclass(frozen=True, slots=True)
class ManagedPart:
    """The spec or the status of a kind: which fields are the agent's alone, and what is compared."""

    name: str
    exclusive_fields: tuple[str, ...]
    compared: Callable[[Any], object] = lambda part: part

    @property
    def subresource(self) -> str:
        """The subresource through which it is written."""
        return "" if self.name == "spec" else self.name


@dataclasses.dataclass(frozen=True, slots=True)
class ManagedKind(Generic[B]):
    """A kind of object, the kind of its owners, and its parts in the order of writing."""

    resource: resources.Resource
    kind: type[B]
    owned_by: str
    parts: tuple[ManagedPart, ...]


class ObjectWriter(Generic[B]):
    """Writes objects of one kind."""

    def __init__(self, session: api.Api, kind: ManagedKind[B], cache: object_cache.ObjectCache[B]) -> None:
        self._session = session
        self._kind = kind
        self._cache = cache
        # The desired state and what the server made of it. A server that changes a value (say, a
        # newer schema with a default) is not written to again and again.
        self._settled: dict[tuple[store.Key, str], tuple[object, object]] = {}

    def is_up_to_date(self, desired_object: DesiredObject) -> bool:
        """Whether nothing is left to write, as far as is known."""
        return all(self._is_part_up_to_date(desired_object, part) for part in self._kind.parts)

    async def ensure(self, desired_object: DesiredObject) -> None:
        """Write what differs from the desired object; forget one that turns out to be gone."""
        try:
            for part in self._kind.parts:
                if not self._is_part_up_to_date(desired_object, part):
                    await self._write(desired_object, part)
        except (errors.NotFound, errors.AmbiguousNotFound):
            # Deleted between the two writes, or its kind is not served (yet).
            self.forget(desired_object.key)
            raise

    def forget(self, key: store.Key) -> None:
        """Forget an object that is gone."""
        self._cache.forget(key)
        for part in self._kind.parts:
            self._settled.pop((key, part.name), None)

    # ------------------------------------------------------------ comparing

    def _is_part_up_to_date(self, desired_object: DesiredObject, part: ManagedPart) -> bool:
        if (seen := self._cache.get(desired_object.key)) is None:
            return False
        desired, actual = self._desired(desired_object, part), self._actual(seen, part)
        return desired == actual or self._settled.get((desired_object.key, part.name)) == (desired, actual)

    def _desired(self, desired_object: DesiredObject, part: ManagedPart) -> object:
        return [desired_object.owner.uid], part.compared(getattr(desired_object, part.name))

    def _actual(self, item: B, part: ManagedPart) -> object:
        owners = [each.uid for each in item.metadata.owner_references if each.kind == self._kind.owned_by]
        return owners, part.compared(getattr(item, part.name))

    # ------------------------------------------------------------ writing

    async def _write(self, desired_object: DesiredObject, part: ManagedPart) -> None:
        desired = self._desired(desired_object, part)
        answer = await self._applied(desired_object, part)
        if answer is None or self._actual(answer, part) != desired:
            answer = await self._corrected(desired_object, part)
        self._settled[desired_object.key, part.name] = desired, self._actual(answer, part)

    async def _applied(self, desired_object: DesiredObject, part: ManagedPart) -> B | None:
        """Apply, and return the answer; None if the server refuses the merged object."""
        namespace, name = desired_object.key
        metadata: dict[str, Any] = {"name": name, **({"namespace": namespace} if namespace else {})}
        if not part.subresource:
            metadata |= {"ownerReferences": [msgspec.to_builtins(desired_object.owner)]}
        item = {"metadata": metadata, part.name: getattr(desired_object, part.name)}
        deletions = self._cache.deletions
        try:
            body = await self._session.apply(
                self._kind.resource, item, manager=names.AGENT_MANAGER, sub=part.subresource
            )
        except errors.Invalid:
            if self._cache.get(desired_object.key) is None:
                raise
            return None
        return self._answer(body, deletions)

    async def _corrected(self, desired_object: DesiredObject, part: ManagedPart) -> B:
        """Replace the agent's own fields, in the very revision that was read for that."""
        namespace, name = desired_object.key
        deletions = self._cache.deletions
        found = await self._session.get(self._kind.resource, name, into=self._kind.kind, namespace=namespace)
        steps = corrections(
            part, desired=getattr(desired_object, part.name), actual=getattr(found, part.name)
        )
        if not steps:
            return found
        same = {"op": "test", "path": "/metadata/resourceVersion", "value": found.metadata.resource_version}
        body = await self._session.send(
            "PATCH",
            self._kind.resource.path(name, namespace=namespace, sub=part.subresource),
            params={"fieldManager": names.AGENT_MANAGER},
            body=msgspec.json.encode([same, *steps]),
            content=JSON_PATCH,
        )
        return self._answer(body, deletions)

    def _answer(self, body: bytes, deletions: int) -> B:
        answer = api.decode(body, self._kind.kind, path=str(self._kind.resource))
        self._cache.write_answered(answer, deletions=deletions)
        return answer


def corrections(
    part: ManagedPart, *, desired: wire.Struct, actual: wire.Struct
) -> Sequence[Mapping[str, Any]]:
    """Return the JSON Patch that sets the agent's fields as desired, and touches no other."""
    wanted, found = msgspec.to_builtins(desired), msgspec.to_builtins(actual)
    return [
        {"op": "add", "path": f"/{part.name}/{field}", "value": wanted[field]}
        if field in wanted
        else {"op": "remove", "path": f"/{part.name}/{field}"}
        for field in part.exclusive_fields
        if wanted.get(field) != found.get(field)
    ]
