"""An agent publishes before it vouches: after a restore of the server, and for the Node that is there."""

import asyncio
import contextlib
import datetime as dt
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import msgspec
import pytest
from aiohttp import web

from berth_agent.publish import device_publisher, heartbeat
from berth_crds import card_load, names, wire
from berth_crds.client import api, errors, informer, resources
from support import stub, timeless

NODE: Final = "n1"
LEASE: Final = resources.LEASES.path(NODE, namespace=names.NODES_NAMESPACE)
OWNER: Final = wire.OwnerReference("v1", "Node", NODE, "node-uid")
SPEC: Final = wire.DeviceSpec(NODE, summary=wire.SpecSummary("T4 x1", 1))
SICK: Final = wire.DeviceStatus(devices=(wire.CardStatus("GPU-1", "Unhealthy"),))
HEALTHY: Final = wire.DeviceStatus()
AWAY: Final = stub.status(503, "away")


@pytest.fixture
async def server() -> AsyncIterator[stub.Stub]:
    """Lend an API server with a Node."""
    async with stub.Stub() as server:
        server.on("GET", resources.NODES.path(NODE), stub.thing({"metadata": {"uid": "node-uid"}}))
        yield server


@pytest.fixture
async def session(server: stub.Stub) -> AsyncIterator[api.Api]:
    """Lend a client of it."""
    async with api.Api(server.link, agent="test") as session:
        yield session


def lease(version: str) -> stub.Answer:
    """Return the answer with the Lease in a revision."""
    meta = {"name": NODE, "resourceVersion": version}
    return stub.thing({"metadata": meta, "spec": {"holderIdentity": "me"}})


@pytest.mark.parametrize(
    ("read", "written", "restores"),
    [
        pytest.param("7", "9", 1, id="the server was restored"),
        pytest.param("25", "26", 0, id="somebody else has written"),
    ],
)
async def test_a_lease_that_went_back_is_not_renewed_at_once(
    server: stub.Stub, session: api.Api, read: str, written: str, restores: int
) -> None:
    """The Device may have gone back, too: it is looked at before the agent vouches for it again."""
    server.on("PATCH", LEASE, lease("20"), stub.status(409, "no"), lease(written))
    server.on("GET", LEASE, lease(read))
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    heart = heartbeat.Heartbeat(session, NODE, identity="me", seconds=40, clock=lambda: moment)
    await heart.renew(OWNER)

    if restores:
        with pytest.raises(errors.Unreachable, match="at revision 7, after 20"):
            await heart.renew(OWNER)
    await heart.renew(OWNER)

    assert session.history.restores == restores
    assert [request.method for request in server.requests] == ["PATCH", "PATCH", "GET", "PATCH"]


def heart_of(session: api.Api) -> heartbeat.Heartbeat:
    """Return what renews the Lease."""
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return heartbeat.Heartbeat(session, NODE, identity="me", seconds=40, clock=lambda: moment)


def loads_written(server: stub.Stub) -> list[str]:
    """Return the load in each renewal that the server was asked for."""
    written = (json.loads(body)["metadata"].get("annotations", {}) for body in server.bodies)
    return [card_load.measured_by(annotations.get(names.LOAD, ""), "me") for annotations in written]


async def test_the_load_of_cards_costs_no_request(server: stub.Stub, session: api.Api) -> None:
    """Each renewal is one request with it as without; where nothing is measured, it is left out."""
    server.on("PATCH", LEASE, lease("20"))
    heart = heart_of(session)

    for load in ("", "v1 0:5,0,0,0,0", "v1 0:95,0,0,0,0", ""):
        await heart.renew(OWNER, load)

    assert loads_written(server) == ["", "v1 0:5,0,0,0,0", "v1 0:95,0,0,0,0", ""]
    assert {request.method for request in server.requests} == {"PATCH"}


async def test_a_load_that_is_refused_does_not_cost_the_lease(
    server: stub.Stub, session: api.Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Policies of an earlier version refuse it: the Lease is renewed without, and later it is tried again."""
    monkeypatch.setattr(heartbeat, "RENEWALS_WITHOUT_LOAD", 3)
    server.on("PATCH", LEASE, stub.status(403, "no", reason="Forbidden"), lease("20"))
    heart = heart_of(session)

    for _ in range(4):
        await heart.renew(OWNER, "v1 0:5,0,0,0,0")

    assert loads_written(server) == ["v1 0:5,0,0,0,0", "", "", "", "v1 0:5,0,0,0,0"]


async def test_a_lease_that_is_refused_without_a_load_is_an_error(
    server: stub.Stub, session: api.Api
) -> None:
    """What is wrong is not the load; the second time it was asked for as an earlier version would."""
    server.on("PATCH", LEASE, stub.status(403, "no", reason="Forbidden"))

    with pytest.raises(errors.Forbidden):
        await heart_of(session).renew(OWNER)

    managers = [request.query["fieldManager"] for request in server.requests]
    assert managers == [names.AGENT_LOAD_MANAGER, names.AGENT_MANAGER]


def device(version: str, status: wire.DeviceStatus, *, owner: str = "node-uid") -> dict[str, Any]:
    """Return the Device as the server shows it."""
    owners = [{"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": owner}]
    meta = {"name": NODE, "uid": "d", "resourceVersion": version, "ownerReferences": owners}
    spec = {"node": NODE, "devices": [], "summary": {"models": "T4 x1", "gpus": 1}}
    devices = [{"uuid": one.uuid, "health": one.health} for one in status.devices]
    return {"metadata": meta, "spec": spec, "status": {"devices": devices}}


@contextlib.asynccontextmanager
async def publishing(
    server: stub.Stub,
    session: api.Api,
    *lists: stub.Answer,
    on_change: Callable[[], None] = lambda: None,
) -> AsyncIterator[device_publisher.DevicePublisher]:
    """Run a publisher whose watch is down, and that reads these lists one after the other."""
    listed = stub.by_query("watch", {"": stub.in_turn(lists), "true": AWAY})
    server.on("GET", resources.DEVICES.path(), listed)
    publisher = device_publisher.DevicePublisher(session, NODE, on_change=on_change)
    async with timeless.beside(publisher.informer.run()):
        await publisher.informer.wait_synced()
        yield publisher


async def test_a_verdict_that_was_undone_is_published_again(
    server: stub.Stub, session: api.Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server was away and came back with an older Device, in which the card is well."""
    monkeypatch.setattr(informer, "OUTAGE_SECONDS", 0.05)
    lists = stub.page(device("20", SICK), version="20"), stub.page(device("7", HEALTHY), version="8")
    server.on("PATCH", resources.DEVICES.path(NODE, sub="status"), stub.thing(device("9", SICK)))
    async with publishing(server, session, *lists) as publisher:
        await asyncio.sleep(0.1)

        await publisher.publish(SPEC, SICK)

    patches = [
        json.loads(body)
        for one, body in zip(server.requests, server.bodies, strict=True)
        if one.method == "PATCH"
    ]
    assert [one["status"]["devices"] for one in patches] == [[{"uuid": "GPU-1", "health": "Unhealthy"}]]


async def test_a_device_that_was_deleted_unseen_is_published_again(
    server: stub.Stub, session: api.Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made and deleted while the watch was down, as with CRDs that go and come twice."""
    monkeypatch.setattr(informer, "OUTAGE_SECONDS", 0.05)
    server.on("PATCH", resources.DEVICES.path(NODE), stub.thing(device("9", HEALTHY)))
    async with publishing(server, session, stub.page(version="5"), stub.page(version="12")) as publisher:
        await publisher.publish(SPEC, HEALTHY)
        await asyncio.sleep(0.1)
        await publisher.publish(SPEC, HEALTHY)

    assert [one.method for one in server.requests].count("PATCH") == 2


async def test_nothing_is_published_while_the_device_cannot_be_seen(
    server: stub.Stub, session: api.Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who does not know how the Device stands must not renew the Lease that vouches for it."""
    monkeypatch.setattr(informer, "OUTAGE_SECONDS", 0.05)
    monkeypatch.setattr(device_publisher, "REFRESH_SECONDS", 0.2)

    async def never(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with publishing(server, session, stub.page(device("20", SICK), version="20"), never) as publisher:
        await asyncio.sleep(0.1)

        with pytest.raises(errors.Unreachable, match="cannot be read"):
            await publisher.publish(SPEC, SICK)


@pytest.mark.parametrize(
    ("annotations", "count"),
    [
        pytest.param(["", "", ""], 0, id="none"),
        pytest.param(["GPU-typo"] * 3, 1, id="one that stays"),
        pytest.param(["0", "", "0"], 2, id="one that was heeded, and is written again"),
        pytest.param(["GPU-typo", "GPU-typo,0", "GPU-typo,1"], 3, id="others"),
    ],
)
async def test_each_annotation_of_people_wakes_the_loop_once(
    server: stub.Stub, session: api.Api, annotations: list[str], count: int
) -> None:
    """One that names no card of the node stays, and the Device has versions without end."""
    wakes: list[None] = []
    listed = stub.page(device("5", HEALTHY), version="5")
    async with publishing(server, session, listed, on_change=lambda: wakes.append(None)) as publisher:
        await publisher.publish(SPEC, HEALTHY)
        for version, text in enumerate(annotations, start=6):
            shown = device(f"{version}", HEALTHY)
            shown["metadata"] |= {"annotations": {names.REPAIRED: text} if text else {}}
            publisher._mirror.upserted(msgspec.convert(shown, wire.Device))

    assert len(wakes) == count


async def test_a_list_that_takes_longer_than_a_tick_has_patience_is_read(
    server: stub.Stub, session: api.Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tick waits for the list that the first one asked for: else none would ever end."""
    monkeypatch.setattr(informer, "OUTAGE_SECONDS", 0.05)
    server.on("PATCH", resources.DEVICES.path(NODE), stub.thing(device("9", HEALTHY)))
    answered = asyncio.Event()
    lists = stub.page(version="5"), stub.later(answered, stub.page(version="12"))
    async with publishing(server, session, *lists) as publisher:
        monkeypatch.setattr(device_publisher, "REFRESH_SECONDS", 0.1)
        for _ in range(3):
            await asyncio.sleep(0.1)
            with pytest.raises(errors.Unreachable, match="cannot be read"):
                await publisher.publish(SPEC, HEALTHY)
        monkeypatch.setattr(device_publisher, "REFRESH_SECONDS", 10.0)
        path = resources.DEVICES.path()
        asked = [one for one in server.requests if one.path == path and "watch" not in one.query]
        answered.set()
        await publisher.publish(SPEC, HEALTHY)

    assert len(asked) == 2
    assert "PATCH" in [one.method for one in server.requests]


async def test_a_node_made_again_is_read_anew_when_its_former_uid_is_refused(
    server: stub.Stub, session: api.Api
) -> None:
    """Not only the end of a Device tells that its Node may be another one now: a refusal does, too."""
    nodes = (stub.thing({"metadata": {"uid": uid}}) for uid in ("former", "new"))
    server.on("GET", resources.NODES.path(NODE), *nodes)
    refusal = stub.status(403, "the Node has another uid", reason="Forbidden")
    server.on("PATCH", resources.DEVICES.path(NODE), refusal, stub.thing(device("9", HEALTHY, owner="new")))
    async with publishing(server, session, stub.page(version="5")) as publisher:
        with pytest.raises(errors.Forbidden):
            await publisher.publish(SPEC, HEALTHY)
        owner = await publisher.publish(SPEC, HEALTHY)

    assert owner.uid == "new"
