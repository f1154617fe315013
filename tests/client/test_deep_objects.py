"""Whoever may write an object may nest it as deep as a server takes, and all is read as ever."""

import json
from typing import Any

import msgspec
import pytest
from aiohttp import web

from berth_agent.gpupods import watched_pod
from berth_crds import nesting, wire
from berth_crds.client import api, lease, watch
from berth_operator.translate import raw
from client import informers
from client.informers import PATH, ConfigMap, config_map
from support import deep, stub

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
CODEC = watch.Codec(ConfigMap)


@pytest.mark.parametrize(("kind", "body"), KINDS.values(), ids=KINDS)
def test_each_kind_is_read_as_if_it_were_flat(kind: Any, body: dict[str, Any]) -> None:
    """In lists, in watches and alone."""
    flat = {"metadata": META, **body}
    text = deep.managed(flat)
    codec = watch.Codec(kind)
    whole = msgspec.convert(flat, kind)

    found = informers.listed(codec, deep.page(text, msgspec.json.encode(flat), text))

    assert found == [whole] * 3
    assert codec.event(deep.event("MODIFIED", text)) == watch.Event("MODIFIED", whole)
    assert api.decode(text, kind, path="/x") == whole


@pytest.mark.parametrize("levels", [900, 950, 980, 985, 990, 995, 1000, 1010, 1500])
def test_no_depth_is_just_too_deep(levels: int) -> None:
    """Where a reader bears a page and not its objects, or the other way round, they are read all the same."""
    flat = config_map("a", "7", k="v")

    (found,) = informers.listed(CODEC, deep.page(deep.managed(flat, levels)))

    assert found == msgspec.convert(flat, ConfigMap)


def test_an_undecodable_object_that_is_deep_keeps_its_identity() -> None:
    """It is unreadable for what else is wrong with it, and no other object is."""
    first = deep.managed({"metadata": META, "data": "x"})

    undecodable, readable = informers.listed(CODEC, deep.page(first, deep.managed(config_map("b", "7"))))

    assert isinstance(undecodable, watch.Undecodable)
    assert (undecodable.metadata.uid, "$.data" in undecodable.detail) == ("u", True)
    assert isinstance(readable, ConfigMap)


def test_nulls_of_a_deep_object_are_left_out() -> None:
    """Its second look is as good as a flat one's."""
    text = deep.managed({"metadata": META | {"labels": None}, "data": {"k": "v"}})

    found = CODEC.decode_object(msgspec.Raw(text))

    assert found == msgspec.convert({"metadata": META, "data": {"k": "v"}}, ConfigMap)


def test_an_object_that_is_read_whole_is_not_deep_afterwards() -> None:
    """What reads all fields, whatever they are, has all but the depths of them."""
    thing = watch.Codec(dict[str, Any]).decode_object(msgspec.Raw(deep.managed(config_map("a", "7", k="v"))))

    assert json.loads(json.dumps(thing))["data"] == {"k": "v"}


def test_nothing_is_cut_where_it_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Usual objects are read once, as they are."""
    monkeypatch.setattr(nesting, "cut_deep_values", None)
    body = msgspec.json.encode(config_map("a", "7"))

    found = informers.listed(CODEC, deep.page(body))

    assert [CODEC.event(deep.event("ADDED", body))] == [watch.Event("ADDED", thing) for thing in found]


async def test_the_metadata_of_a_large_object_may_be_deep(
    server: stub.Stub, session: api.Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an object that is too large to be read the name is, which comes with its managed fields."""
    monkeypatch.setattr(watch, "MOST_COMMAS", 1500)
    large = deep.page(deep.managed(config_map("a", "7", k="," * 90_000)))
    alone = deep.page(deep.managed({"metadata": META}))

    async def answer(request: web.Request) -> web.StreamResponse:
        partial = "PartialObjectMetadata" in request.headers["Accept"]
        return await stub.raw(alone if partial else large)(request)

    server.on("GET", PATH, answer)
    (found,) = (await informers.list_all(session, PATH, CODEC, selectors={}, size=5)).items

    assert isinstance(found, watch.Undecodable)
    assert found.metadata.name == "x"
    assert await watch.latest_revision(session, PATH) == "9"
