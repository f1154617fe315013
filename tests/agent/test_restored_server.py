"""An agent whose API server's data were restored publishes anew before it vouches for anything."""

import asyncio
import datetime as dt
import json
from typing import Any, Final

import pytest
from aiohttp import web

from berth_agent.publish import device_publisher, heartbeat, object_cache
from berth_crds import names, wire
from berth_crds.client import api, errors, informer, resources
from support import stub, timeless

NODE: Final = "n1"
LEASE: Final = resources.LEASES.path(NODE, namespace=names.NODES_NAMESPACE)
DEVICES: Final = resources.DEVICES.path()
OWNER: Final = wire.OwnerReference("v1", "Node", NODE, "node-uid")
SPEC: Final = wire.DeviceSpec(NODE, summary=wire.SpecSummary("T4 x1", 1))
SICK: Final = wire.DeviceStatus(devices=(wire.CardStatus("GPU-1", "Unhealthy"),))


def beating(session: api.Api) -> heartbeat.Heartbeat:
    """Make what renews the Lease."""
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return heartbeat.Heartbeat(session, NODE, identity="me", seconds=40, clock=lambda: moment)


def lease(version: str) -> dict[str, Any]:
    """Make the Lease as the server shows it."""
    return {"metadata": {"name": NODE, "resourceVersion": version}, "spec": {"holderIdentity": "me"}}


async def test_a_lease_that_went_back_is_not_renewed_at_once() -> None:
    """The Device may have gone back, too: it is looked at before the agent vouches for it again."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("PATCH", LEASE, stub.thing(lease("20")), stub.status(409, "no"), stub.thing(lease("9")))
        server.on("GET", LEASE, stub.thing(lease("7")))
        heart = beating(session)
        await heart.renew(OWNER)

        with pytest.raises(errors.Unreachable, match="at revision 7, after 20"):
            await heart.renew(OWNER)
        await heart.renew(OWNER)

    assert session.history.restores == 1
    assert [request.method for request in server.requests] == ["PATCH", "PATCH", "GET", "PATCH"]


async def test_somebody_elses_write_is_no_restore() -> None:
    """A Lease in a later revision is renewed as ever."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("PATCH", LEASE, stub.thing(lease("20")), stub.status(409, "no"), stub.thing(lease("26")))
        server.on("GET", LEASE, stub.thing(lease("25")))
        heart = beating(session)
        await heart.renew(OWNER)

        await heart.renew(OWNER)

    assert session.history.restores == 0


def as_stored(version: str, status: wire.DeviceStatus) -> dict[str, Any]:
    """Make the Device as the server shows it."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": "node-uid"}
    meta = {"name": NODE, "uid": "d", "resourceVersion": version, "ownerReferences": [owner]}
    spec = {"node": NODE, "devices": [], "summary": {"models": "T4 x1", "gpus": 1}}
    devices = [{"uuid": one.uuid, "health": one.health} for one in status.devices]
    return {"metadata": meta, "spec": spec, "status": {"devices": devices}}


async def test_a_verdict_that_was_undone_is_published_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server was away and came back with an older Device, in which the card is well."""
    monkeypatch.setattr(informer, "OUTAGE_SECONDS", 0.05)
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("GET", resources.NODES.path(NODE), stub.thing({"metadata": {"uid": "node-uid"}}))
        listed = [
            stub.page(as_stored("20", SICK), version="20"),
            stub.page(as_stored("7", wire.DeviceStatus()), version="8"),
        ]
        away = stub.status(503, "away")
        server.on("GET", DEVICES, stub.by_query("watch", {"": stub.in_turn(listed), "true": away}))
        server.on("PATCH", resources.DEVICES.path(NODE, sub="status"), stub.thing(as_stored("9", SICK)))
        publisher = device_publisher.DevicePublisher(session, NODE, on_change=lambda: None)
        async with timeless.beside(publisher.informer.run()):
            await publisher.informer.wait_synced()
            await asyncio.sleep(0.1)

            await publisher.publish(SPEC, SICK)

    patches = [
        json.loads(body)
        for one, body in zip(server.requests, server.bodies, strict=True)
        if one.method == "PATCH"
    ]
    assert [one["status"]["devices"] for one in patches] == [[{"uuid": "GPU-1", "health": "Unhealthy"}]]


async def test_nothing_is_published_while_the_device_cannot_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not know how the Device stands must not renew the Lease that vouches for it."""
    monkeypatch.setattr(informer, "OUTAGE_SECONDS", 0.05)
    monkeypatch.setattr(device_publisher, "REFRESH_SECONDS", 0.2)
    first = stub.page(as_stored("20", SICK), version="20")

    async def never(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return await first(request)

    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("GET", resources.NODES.path(NODE), stub.thing({"metadata": {"uid": "node-uid"}}))
        lists = stub.in_turn([first, never])
        server.on("GET", DEVICES, stub.by_query("watch", {"": lists, "true": stub.status(503, "away")}))
        publisher = device_publisher.DevicePublisher(session, NODE, on_change=lambda: None)
        async with timeless.beside(publisher.informer.run()):
            await publisher.informer.wait_synced()
            await asyncio.sleep(0.1)

            with pytest.raises(errors.Unreachable, match="cannot be read"):
                await publisher.publish(SPEC, SICK)


def test_the_cache_believes_an_earlier_revision_after_a_restore() -> None:
    """Once: after that the later one counts again."""
    told: list[object_cache.Key] = []
    known: object_cache.ObjectCache[wire.Device] = object_cache.ObjectCache(told.append)

    def at(version: str) -> wire.Device:
        return wire.Device(wire.Meta(name=NODE, uid="d", resource_version=version), SPEC)

    known.upserted(at("20"))
    known.restored()
    known.upserted(at("7"))
    known.upserted(at("6"))

    seen = known.get(("", NODE))
    assert seen is not None
    assert seen.metadata.resource_version == "7"
