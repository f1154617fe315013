"""Statuses where the server fails, or where nobody tells that something is gone."""

import json
from collections.abc import Iterable

import pytest

from berth_crds.client import api, resources
from berth_operator.engine import node_summaries, rate_limiter
from berth_operator.kube import kind_statuses
from support import clock, stub


def due(session: api.Api, nodes: Iterable[str]) -> kind_statuses.KindStatuses:
    """Return what writes statuses, with one due for the Device of each of these nodes."""
    statuses = kind_statuses.KindStatuses(session, rate_limiter.unlimited(), wall=clock.Clock().wall)
    for name in nodes:
        statuses.device_seen(name, {})
    statuses.update([node_summaries.NodeSummary(name, 1, 0, 1, silent=False) for name in nodes])
    return statuses


async def test_devices_of_which_nobody_tells_that_they_are_gone_are_forgotten() -> None:
    """They take no memory, and one that comes back is told of by its own summary alone."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("PATCH", resources.DEVICES.path("a", sub="status"), stub.thing({}))
        statuses = due(session, "ab")

        statuses.keep_only({"a"})
        statuses.device_seen("b", {})
        await statuses.flush()

    assert [json.loads(body)["metadata"]["name"] for body in server.bodies] == ["a"]


@pytest.mark.parametrize(
    "trouble", [stub.status(500, "no"), stub.status(409, "no"), stub.reset()], ids=["500", "409", "reset"]
)
async def test_what_failed_stays_due(trouble: stub.Answer) -> None:
    """A write that failed is made at a later flush, and keeps nobody else waiting."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        for name in "ab":
            server.on("PATCH", resources.DEVICES.path(name, sub="status"), trouble, stub.thing({}))
        statuses = due(session, "ab")

        for _ in range(4):
            await statuses.flush()

    assert sorted(json.loads(body)["metadata"]["name"] for body in server.bodies) == ["a", "a", "b", "b"]


async def test_everybodys_trouble_is_tried_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """While the server or our login is away one Device is tried at each flush, and one line says so."""
    nodes = [f"n{at}" for at in range(20)]
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        for name in nodes:
            away = [stub.status(401, "who?")] * 3
            server.on("PATCH", resources.DEVICES.path(name, sub="status"), *away, stub.thing({}))
        statuses = due(session, nodes)

        for _ in range(3):
            await statuses.flush()
        asked = len(server.requests)
        for name in nodes:
            server.on("PATCH", resources.DEVICES.path(name, sub="status"), stub.thing({}))
        await statuses.flush()

    assert asked == 3
    assert len(server.requests) == 3 + len(nodes)
    assert len([one for one in caplog.records if one.levelname == "WARNING"]) == 1


async def test_a_device_at_which_the_server_fails_keeps_nobody_waiting() -> None:
    """One Device may be too much for the server each time; the others are written at the next flush."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        for name in "bcd":
            server.on("PATCH", resources.DEVICES.path(name, sub="status"), stub.thing({}))
        server.on("PATCH", resources.DEVICES.path("a", sub="status"), *[stub.status(401, "who?")] * 9)
        statuses = due(session, "abcd")

        for _ in range(2):
            await statuses.flush()

    assert [json.loads(body)["metadata"]["name"] for body in server.bodies] == ["a", "b", "c", "d", "a"]
