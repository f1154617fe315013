"""Whoever may write an object may nest it as deep as a server takes, and all is read as ever."""

import json
from typing import Any

import msgspec
import pytest
from aiohttp import web

from berth_agent.gpupods import watched_pod
from berth_crds import nesting, wire
from berth_crds.client import api, lease, resources, watch
from berth_operator.translate import raw
from client.scenes import FOR_EVER, PATH, Scene, config_map
from support import deep, mirror, stub

META = {"name": "x", "namespace": "ml", "uid": "u", "resourceVersion": "7"}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "Pod": (raw.Pod, {"spec": {"nodeName": "n1", "containers": []}, "status": {"phase": "Running"}}),
    "Pod of an agent": (watched_pod.Pod, {"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}),
    "Node": (raw.Node, {"spec": {}, "status": {"allocatable": {"cpu": "4"}}}),
    "Lease": (lease.Lease, {"spec": {"holderIdentity": "n1"}}),
    "Device": (wire.Device, {"spec": {"node": "n1"}}),
    "GpuPod": (wire.GpuPod, {"spec": {"node": "n1", "podUID": "u"}}),
    "PlacementPolicy": (wire.PlacementPolicy, {"spec": {"strategy": "fragmentation"}}),
}
CODEC = watch.Codec(mirror.ConfigMap)


@pytest.mark.parametrize(("kind", "body"), KINDS.values(), ids=KINDS)
def test_each_kind_is_read_as_if_it_were_flat(kind: Any, body: dict[str, Any]) -> None:
    """In lists, in watches and alone."""
    flat = {"metadata": META, **body}
    text = deep.managed(flat)
    codec = watch.Codec(kind)
    whole = codec.decode_object(msgspec.Raw(msgspec.json.encode(flat)))
    assert isinstance(whole, kind)

    page = codec.page(deep.page(text, msgspec.json.encode(flat), text))

    assert (page.meta.resource_version, list(page.objects)) == ("9", [whole] * 3)
    assert codec.event(deep.event("MODIFIED", text)) == watch.Event("MODIFIED", whole)
    assert api.decode(text, kind, path="/x") == whole


@pytest.mark.parametrize("levels", [900, 950, 980, 985, 990, 995, 1000, 1010, 1500])
def test_no_depth_is_just_too_deep(levels: int) -> None:
    """Where a reader bears a page and not its objects, or the other way round, they are read all the same."""
    text = deep.managed(config_map("a", "7", k="v"), levels)

    (found,) = CODEC.page(deep.page(text)).objects

    assert isinstance(found, mirror.ConfigMap)
    assert (found.metadata.uid, found.data) == ("uid-a", {"k": "v"})


def test_an_odd_object_that_is_deep_keeps_its_identity() -> None:
    """It is unreadable for what is odd about it, and no other object is."""
    odd = deep.managed({"metadata": META, "data": "x"})

    first, second = CODEC.page(deep.page(odd, deep.managed(config_map("b", "7")))).objects

    assert isinstance(first, watch.Undecodable)
    assert (first.metadata.uid, "$.data" in first.detail) == ("u", True)
    assert isinstance(second, mirror.ConfigMap)


def test_nulls_of_a_deep_object_are_left_out() -> None:
    """Its second look is as good as a flat one's."""
    text = deep.managed({"metadata": META | {"labels": None}, "data": {"k": "v"}})

    found = CODEC.decode_object(msgspec.Raw(text))

    assert isinstance(found, mirror.ConfigMap)
    assert (found.metadata.uid, found.data) == ("u", {"k": "v"})


def test_an_object_that_is_read_whole_is_not_deep_afterwards() -> None:
    """What reads all fields, whatever they are, has all but the depths of them."""
    page = watch.Codec(dict[str, Any]).page(deep.page(deep.managed(config_map("a", "7", k="v"))))
    (found,) = page.objects

    assert isinstance(found, dict)
    assert json.loads(json.dumps(found))["data"] == {"k": "v"}


def test_nothing_is_cut_where_it_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Usual objects are read once, as they are."""
    monkeypatch.setattr(nesting, "cut_deep_values", None)
    body = msgspec.json.encode(config_map("a", "7"))

    page = CODEC.page(deep.page(body))

    assert [CODEC.event(deep.event("ADDED", body))] == [watch.Event("ADDED", one) for one in page.objects]


async def test_the_metadata_of_a_large_object_may_be_deep(
    server: stub.Stub, session: api.Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object that is too large to be read is told by its name, which comes with its managed fields."""
    monkeypatch.setattr(watch, "MOST_COMMAS", 1500)
    large = deep.page(deep.managed(config_map("a", "7", k="," * 90_000)))
    alone = deep.page(deep.managed({"metadata": META}))

    async def answer(request: Any) -> Any:
        partial = "PartialObjectMetadata" in request.headers["Accept"]
        return await stub.raw(alone if partial else large)(request)

    server.on("GET", PATH, answer)
    found = await watch.list_all(session, PATH, CODEC, selectors={}, size=5)
    newest = await watch.latest_revision(session, PATH)

    (odd,) = found.items
    assert isinstance(odd, watch.Undecodable)
    assert (odd.metadata.name, newest) == ("x", "9")


async def test_answers_may_be_deep(server: stub.Stub, session: api.Api) -> None:
    """One object that is asked for is read whatever its managed fields are."""
    path = resources.DEVICES.path("x")
    server.on("GET", path, stub.raw(deep.managed({"metadata": META, "spec": {"node": "n1"}})))
    found = await session.get(resources.DEVICES, "x", into=wire.Device)

    assert found.spec.node == "n1"


async def test_an_informer_follows_what_becomes_deep(scene: Scene) -> None:
    """An object that was listed deep, or becomes so, is told, as are those after it."""
    first, second, third = (config_map(name, str(at)) for at, name in enumerate("abc", start=11))

    async def changes(request: Any) -> Any:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(deep.event("ADDED", deep.managed(second)))
        await response.write(deep.event("ADDED", msgspec.json.encode(third)))
        await FOR_EVER().wait()
        return response

    scene.script([stub.raw(deep.page(deep.managed(first), version="11"))], [changes])

    await scene.follow_until(lambda: len(scene.mirror.things) == 3, "all three")

    assert scene.mirror.names("upserted") == ["a", "b", "c"]
    assert (scene.lists, scene.watches) == (1, 1)
