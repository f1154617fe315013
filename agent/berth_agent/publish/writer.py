"""Compares what is wanted with what the mirror shows, and writes the difference.

Writing is by server-side apply, so that others keep what is theirs: people their cordon,
the operator its condition. An apply has one weakness: what somebody else added to a list
of ours stays there, and a card that does not exist would be given out. So whenever the
answer is not what was meant, or the server finds that the sum makes no sense, the fields
that are the agent's alone are set outright.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic

import msgspec

from berth_agent.publish import mirror
from berth_agent.publish.mirror import B
from berth_crds import names, wire
from berth_crds.client import api, errors, resources

JSON_PATCH: Final = "application/json-patch+json"


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What one object should say, as far as the agent has a say in it."""

    key: mirror.Key
    owner: wire.OwnerReference
    spec: wire.Struct
    status: wire.Struct


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """The spec or the status of a kind: what of it is the agent's to compare, and to set outright."""

    name: str
    own: Callable[[Any], object]
    alone: tuple[str, ...]

    @property
    def subresource(self) -> str:
        """Where in the API it is written."""
        return "" if self.name == "spec" else self.name


@dataclasses.dataclass(frozen=True, slots=True)
class Form(Generic[B]):
    """A kind, the kind of its owner, and its parts in the order in which they are written."""

    resource: resources.Resource
    kind: type[B]
    owned_by: str
    parts: tuple[Part, ...]


class Writer(Generic[B]):
    """Writes objects of one kind."""

    def __init__(self, session: api.Api, form: Form[B], known: mirror.Mirror[B]) -> None:
        self._session = session
        self._form = form
        self._mirror = known
        # What was meant and what the server made of it. A server that keeps a value in
        # another way (say, a newer schema that defaults one) is not written to for ever.
        self._settled: dict[tuple[mirror.Key, str], tuple[object, object]] = {}

    def agrees(self, wanted: Wanted) -> bool:
        """Return whether nothing is left to write, as far as is known."""
        return all(self._agrees(wanted, part) for part in self._form.parts)

    async def make_so(self, wanted: Wanted) -> None:
        """Write what differs."""
        for part in self._form.parts:
            if not self._agrees(wanted, part):
                await self._write(wanted, part)

    def forget(self, key: mirror.Key) -> None:
        """Record that the object is gone."""
        self._mirror.forget(key)
        for part in self._form.parts:
            self._settled.pop((key, part.name), None)

    # ------------------------------------------------------------ comparing

    def _agrees(self, wanted: Wanted, part: Part) -> bool:
        seen = self._mirror.get(wanted.key)
        if seen is None:
            return False
        meant, said = self._meant(wanted, part), self._said(seen, part)
        return meant == said or self._settled.get((wanted.key, part.name)) == (meant, said)

    def _meant(self, wanted: Wanted, part: Part) -> object:
        return [wanted.owner.uid], part.own(getattr(wanted, part.name))

    def _said(self, seen: B, part: Part) -> object:
        owners = [each.uid for each in seen.metadata.owner_references if each.kind == self._form.owned_by]
        return owners, part.own(getattr(seen, part.name))

    # ------------------------------------------------------------ writing

    async def _write(self, wanted: Wanted, part: Part) -> None:
        meant = self._meant(wanted, part)
        answer = await self._applied(wanted, part)
        if answer is None or self._said(answer, part) != meant:
            answer = await self._corrected(wanted, part)
        self._settled[wanted.key, part.name] = meant, self._said(answer, part)

    async def _applied(self, wanted: Wanted, part: Part) -> B | None:
        """Apply; None when what stands there and what is meant cannot stand together."""
        namespace, name = wanted.key
        metadata: dict[str, Any] = {"name": name, **({"namespace": namespace} if namespace else {})}
        if not part.subresource:
            metadata |= {"ownerReferences": [msgspec.to_builtins(wanted.owner)]}
        thing = {"metadata": metadata, part.name: getattr(wanted, part.name)}
        deletions = self._mirror.deletions
        try:
            body = await self._session.apply(
                self._form.resource, thing, manager=names.AGENT_MANAGER, sub=part.subresource
            )
        except errors.Invalid:
            if self._mirror.get(wanted.key) is None:
                raise
            return None
        return self._answer(body, deletions)

    async def _corrected(self, wanted: Wanted, part: Part) -> B:
        """Set the agent's own fields outright, in the very revision that was read for it."""
        namespace, name = wanted.key
        deletions = self._mirror.deletions
        found = await self._session.get(self._form.resource, name, into=self._form.kind, namespace=namespace)
        steps = corrections(part, meant=getattr(wanted, part.name), said=getattr(found, part.name))
        if not steps:
            return found
        same = {"op": "test", "path": "/metadata/resourceVersion", "value": found.metadata.resource_version}
        body = await self._session.send(
            "PATCH",
            self._form.resource.path(name, namespace=namespace, sub=part.subresource),
            params={"fieldManager": names.AGENT_MANAGER},
            body=msgspec.json.encode([same, *steps]),
            content=JSON_PATCH,
        )
        return self._answer(body, deletions)

    def _answer(self, body: bytes, deletions: int) -> B:
        answer = api.decode(body, self._form.kind, path=str(self._form.resource))
        self._mirror.answered(answer, deletions=deletions)
        return answer


def corrections(part: Part, *, meant: wire.Struct, said: wire.Struct) -> Sequence[Mapping[str, Any]]:
    """Return the JSON Patch that makes the agent's fields be what is meant, and touches no other."""
    wants, has = msgspec.to_builtins(meant), msgspec.to_builtins(said)
    differing = [field for field in part.alone if wants.get(field) != has.get(field)]
    return [
        {"op": "add", "path": f"/{part.name}/{field}", "value": wants[field]}
        if field in wants
        else {"op": "remove", "path": f"/{part.name}/{field}"}
        for field in differing
    ]
