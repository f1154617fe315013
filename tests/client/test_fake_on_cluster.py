"""The server in memory answers as the real one does."""

import urllib.parse
from typing import Any, Final

import msgspec

from berth_crds import fake
from berth_crds.client import api, errors, resources

CONFIG_MAPS = resources.Resource("", "v1", "configmaps", "ConfigMap")
MERGE = api.MERGE_PATCH
OWNER = "fieldManager=me&force=true"
FIRST = {"metadata": {"name": "one", "labels": {"a": "1"}}, "data": {"k": "v", "gone": "x"}}
# Methods, names and subresources, types of content and bodies, one after the other.
REQUESTS: Final[list[tuple[str, str, str, Any]]] = [
    ("GET", "one", "", None),
    ("POST", "", api.JSON, FIRST),
    ("POST", "", api.JSON, FIRST),
    ("POST", "", api.JSON, {"data": {}}),
    ("GET", "one", "", None),
    ("PATCH", "one", MERGE, {"data": {"gone": None, "more": "y"}}),
    ("PATCH", "two", MERGE, {"data": {}}),
    ("PUT", "one", api.JSON, {"metadata": {"name": "one", "resourceVersion": "1"}, "data": {}}),
    ("PUT", "one", api.JSON, {"metadata": {"name": "one"}, "data": {"k": "w"}}),
    ("PATCH", f"two?{OWNER}", api.APPLY, {"metadata": {"name": "two"}, "data": {"a": "b"}}),
    ("PATCH", f"two?{OWNER}", api.APPLY, {"metadata": {"name": "two"}, "data": {"a": "c"}}),
    ("GET", "?labelSelector=a%3D1", "", None),
    ("GET", "?fieldSelector=metadata.name%3Dtwo", "", None),
    ("DELETE", "one", api.JSON, {"preconditions": {"uid": "another"}}),
    ("DELETE", "one", "", None),
    ("DELETE", "one", "", None),
    ("GET", "", "", None),
]


async def answers(session: api.Api, namespace: str) -> list[object]:
    """Ask all of these, and return what came back but for what no two servers have in common."""
    found: list[object] = []
    for method, name, content, body in REQUESTS:
        word, _, query = name.partition("?")
        where = CONFIG_MAPS.path(word, namespace=namespace)
        raw = None if body is None else msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", **body})
        if method == "DELETE" and body is not None:
            raw = msgspec.json.encode(body)
        try:
            params = dict(urllib.parse.parse_qsl(query))
            answer = await session.send(method, where, params=params, body=raw, content=content or api.JSON)
        except errors.ApiError as error:
            found.append((error.code, error.reason))
        else:
            found.append(_compared(msgspec.json.decode(answer)) if method != "DELETE" else "deleted")
    return found


def _compared(answer: dict[str, object]) -> object:
    """Return of an object or a list what both servers know."""
    items = answer.get("items")
    if isinstance(items, list):
        return [_compared(one) for one in items if one["metadata"]["name"] != "kube-root-ca.crt"]
    meta = answer["metadata"]
    assert isinstance(meta, dict)
    return meta["name"], meta["namespace"], meta.get("labels"), answer.get("data")


async def test_the_fake_answers_as_the_real_one(admin: api.Api, namespace: str) -> None:
    """To reads, writes and refusals of objects without a schema of Berth's."""
    async with fake.serving() as server, api.Api(server.connection, agent="test") as session:
        assert await answers(session, namespace) == await answers(admin, namespace)
