"""Attempts to write something with somebody's token: what they send, and what they are refused with.

Who may write what stands in tables of attempts, one for each account. What an attempt writes names
objects by what they are for, such as `<mine>`; the ground on which it is made knows their names.
"""

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pytest

from berth_crds import names
from berth_crds.client import api, errors, resources
from e2e.stage import Stage

PLACE: Final = re.compile(r"<([\w-]+)>")
JSON_PATCH: Final = "application/json-patch+json"
MERGE, APPLY = api.MERGE_PATCH, api.APPLY
WORKS: Final = "This works."


@dataclasses.dataclass(frozen=True, slots=True)
class Ground:
    """A namespace and objects to write to, by what they are for; and the session of whoever tries to."""

    stage: Stage
    session: api.Api
    names: Mapping[str, str]
    spaces: Mapping[resources.Resource, str]

    @property
    def admin(self) -> api.Api:
        """The session of the administrator."""
        return self.stage.admin

    def by(self, session: api.Api) -> "Ground":
        """Return the same ground, for somebody else."""
        return dataclasses.replace(self, session=session)

    def path(self, resource: resources.Resource, which: str, sub: str = "") -> str:
        """Return where an object is."""
        namespace = self.spaces.get(resource, self.stage.namespace if resource.namespaced else "")
        return resource.path(self.names.get(which, which), namespace=namespace, sub=sub)

    def filled(self, body: object) -> Any:
        """Return what an attempt would write, with the names of the objects."""
        text = msgspec.json.encode(body).decode()
        return json.loads(PLACE.sub(lambda match: self.names.get(match[1], match[1]), text))

    async def read(self, resource: resources.Resource, which: str) -> Any:
        """Return an object without what every write changes; None if it is not there, or has no name."""
        if not which:
            return None
        try:
            return _content(await self.admin.send("GET", self.path(resource, which)))
        except errors.NotFound:
            return None


def _content(answer: bytes) -> Any:
    """Return an object, or a status, without what every write changes."""
    found = json.loads(answer)
    for key in ("managedFields", "resourceVersion", "generation"):
        found["metadata"].pop(key, None)
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """A request, and a part of what it is refused with; another namespace than usual is named."""

    resource: resources.Resource
    which: str
    body: object = None
    content: str = MERGE
    sub: str = ""
    verb: str = "PATCH"
    words: str = WORKS
    namespace: str = ""
    manager: str = "test"

    async def make(self, ground: Ground, *, dry_run: bool = False) -> bytes:
        """Send it and return the answer; what replaces an object names the revision that it has."""
        body: Any = None if self.body is None else ground.filled(self.body)
        if self.verb == "PUT":
            now = json.loads(await ground.admin.send("GET", ground.path(self.resource, self.which)))
            body["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"]
        params = {"fieldManager": self.manager, "force": "true"} if self.content == APPLY else {}
        params |= {"dryRun": "All"} if dry_run else {}
        which = "" if self.verb == "POST" and not self.sub else self.which
        if self.namespace:
            spaces = {**ground.spaces, self.resource: self.namespace}
            ground = dataclasses.replace(ground, spaces=spaces)
        return await ground.session.send(
            self.verb,
            ground.path(self.resource, which, self.sub),
            params=params,
            body=None if body is None else msgspec.json.encode(body),
            content=self.content if self.verb == "PATCH" else api.JSON,
        )


def replaced(path: str, value: object) -> list[Mapping[str, object]]:
    """Write a JSON Patch that sets one thing."""
    return [{"op": "add", "path": path, "value": value}]


async def works(ground: Ground, attempt: Attempt) -> None:
    """Check that an attempt is let through, and changes something."""
    before = await ground.read(attempt.resource, attempt.which)

    answer = await attempt.make(ground)

    if attempt.verb == "POST":
        # The garbage collector may have removed it again: its owner is made up.
        assert before is None
        assert json.loads(answer)["metadata"]["uid"]
    else:
        assert await ground.read(attempt.resource, attempt.which) != before


async def would_work(ground: Ground, attempts: Mapping[str, Attempt], subtests: pytest.Subtests) -> None:
    """Check that each of these attempts would be let through, and would change something.

    They are dry runs, in which the server asks its policies all the same, so that one ground will do.
    """
    for title, attempt in attempts.items():
        with subtests.test(title):
            before = await ground.read(attempt.resource, attempt.which)

            answer = _content(await attempt.make(ground, dry_run=True))

            assert (before is None) is (attempt.verb == "POST")
            if attempt.verb == "DELETE":
                assert answer["status"] == "Success"
            else:
                assert answer["metadata"]["uid"]
                assert answer != before
            assert await ground.read(attempt.resource, attempt.which) == before


async def is_refused(ground: Ground, attempt: Attempt) -> None:
    """Check that an attempt is refused, in the sentence that it names, and changes nothing."""
    before = await ground.read(attempt.resource, attempt.which)

    with pytest.raises((errors.Forbidden, errors.Invalid), match=re.escape(attempt.words)):
        await attempt.make(ground)

    assert await ground.read(attempt.resource, attempt.which) == before


async def are_refused(ground: Ground, attempts: Mapping[str, Attempt], subtests: pytest.Subtests) -> None:
    """Check a table of attempts one by one; as none of them changes anything, one ground will do."""
    for title, attempt in attempts.items():
        with subtests.test(title):
            await is_refused(ground, attempt)


def owned(*owners: Mapping[str, object]) -> dict[str, object]:
    """Write a change of owners."""
    return {"metadata": {"ownerReferences": list(owners)}}


READY: Final = {
    "type": "Ready",
    "status": "True",
    "reason": "AgentAlive",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
NVML: Final = READY | {"type": "NVMLReady", "status": "False", "reason": "Test"}
SUMMARY: Final = {"free": 1, "used": 0, "healthy": 1, "reason": ""}


def device(which: str, **spec: object) -> dict[str, Any]:
    """Make a Device of one card."""
    card = {"uuid": f"GPU-<{which}>", "type": "gpu", "vendor": "nvidia", "minor": 0, "model": "T4"}
    told = {
        "node": f"<{which}>",
        "devices": [card | {"memory": 1 << 30}],
        "summary": {"models": "", "gpus": 1},
    }
    return named("Device", which, spec=told | spec)


def gpupod(which: str, node: str = "", *, uid: str = "u", owner: str = "", **meta: object) -> dict[str, Any]:
    """Make a GpuPod that holds nothing, of a pod with this uid, owned by one with that uid."""
    made = named("GpuPod", which, spec={"node": f"<{node or which}>", "podUID": uid, "containers": []})
    if owner:
        made["metadata"]["ownerReferences"] = [POD_OWNER | {"name": f"<{which}>", "uid": owner}]
    made["metadata"] |= meta
    return made


POD_OWNER: Final = {"apiVersion": "v1", "kind": "Pod"}


def named(kind: str, which: str, **rest: object) -> dict[str, Any]:
    """Make an object of ours."""
    return {"apiVersion": names.API_VERSION, "kind": kind, "metadata": {"name": f"<{which}>"}, **rest}
