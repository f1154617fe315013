"""A request has one answer, one error, or none in time; the error tells whether it can have had an effect."""

import asyncio
import dataclasses
import json
from unittest import mock

import msgspec
import pytest
from aiohttp import web

from berth_crds import wire
from berth_crds.client import api, connection, errors, resources
from client.informers import CONFIG_MAPS, ConfigMap
from support import stub
from testbed import ports

PATH = "/api/v1/namespaces/ml/pods/a/binding"
GET = CONFIG_MAPS.path("a", namespace="ml")


async def test_where_nobody_listens_nothing_was_done() -> None:
    """A refused connection is unambiguous, for the request never left, and counts as no answer."""
    link, count = connection.Connection(server=f"http://127.0.0.1:{ports.free()}"), mock.Mock()

    async with api.Api(link, agent="test", count_request=count) as session:
        with pytest.raises(errors.Unreachable) as caught:
            await session.send("POST", PATH, body=b"{}")

    assert not caught.value.ambiguous
    assert count.mock_calls == [mock.call("POST", PATH, api.NO_ANSWER)]


async def silence(_: web.Request) -> web.StreamResponse:
    """Answer too late."""
    await asyncio.sleep(60)
    return web.Response()


@pytest.mark.parametrize(
    ("answer", "kind", "status"),
    [
        pytest.param(stub.status(409, "no"), errors.Conflict, 409, id="an error"),
        # To follow it would turn a POST into a GET that succeeds.
        pytest.param(
            stub.thing({}, code=302, headers={"Location": GET}), errors.ApiError, 302, id="a redirect"
        ),
        pytest.param(silence, errors.Unreachable, 0, id="silence"),
        pytest.param(stub.reset(), errors.Unreachable, 0, id="a reset"),
    ],
)
@pytest.mark.parametrize("body", [b"{}", None], ids=["with a body", "without a body"])
async def test_a_post_that_fails_is_not_sent_again(
    server: stub.Stub, answer: stub.Answer, kind: type[errors.ClientError], status: int, body: bytes | None
) -> None:
    """It is counted by its status, or as one without an answer: then it may have had its effect."""
    server.on("POST", PATH, stub.thing({}, code=201), answer)
    server.on("GET", GET, stub.thing({}))
    count = mock.Mock()

    async with api.Api(server.link, agent="test", count_request=count) as session:
        await session.send("POST", PATH, body=body)
        with pytest.raises(kind) as caught:
            await session.send("POST", PATH, body=body, deadline=0.2)

    assert getattr(caught.value, "ambiguous", True)
    assert [request.path for request in server.requests] == [PATH] * 2
    assert count.mock_calls == [mock.call("POST", PATH, 201), mock.call("POST", PATH, status)]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("body", [b"{}", None], ids=["with a body", "without a body"])
@pytest.mark.parametrize("by_proxy", [False, True], ids=["directly", "by a proxy"])
async def test_nothing_is_sent_twice(
    server: stub.Stub, method: str, body: bytes | None, *, by_proxy: bool
) -> None:
    """Though HTTP holds it to be harmless: a delete that was carried out would be told as not found."""
    server.on(method, GET, stub.thing({}), stub.reset(), stub.status(404, "it is gone", reason="NotFound"))
    link = dataclasses.replace(server.link, proxy=server.link.server if by_proxy else None)

    async with api.Api(link, agent="test") as session:
        await session.send(method, GET, body=body)
        with pytest.raises(errors.Unreachable) as caught:
            await session.send(method, GET, body=body)

    assert caught.value.ambiguous
    assert [request.method for request in server.requests] == [method] * 2


async def test_an_object_of_another_shape_is_no_answer(server: stub.Stub, session: api.Api) -> None:
    """A page of words where an object should be is a failed read, not a fault of ours."""
    server.on("GET", GET, stub.raw(b"<html>"))

    with pytest.raises(errors.Unreachable, match="the answer is no ConfigMap"):
        await session.get(CONFIG_MAPS, "a", into=ConfigMap, namespace="ml")


async def test_a_login_that_fails_is_the_error_of_the_request(server: stub.Stub) -> None:
    """Without a header nothing is sent, and the caller learns why."""
    failing = mock.AsyncMock(side_effect=errors.Unusable("The token file t cannot be read."))

    async with api.Api(dataclasses.replace(server.link, authorization=failing), agent="test") as session:
        with pytest.raises(errors.Unusable, match="cannot be read"):
            await session.send("GET", GET)

    assert server.requests == []


async def test_the_headers_of_a_request(server: stub.Stub) -> None:
    """The token of the moment, the agent's name and the content type travel with each request."""
    server.on("PATCH", GET, stub.thing({}))
    renewed = mock.AsyncMock(side_effect=["Bearer one", "Bearer two"])

    async with api.Api(dataclasses.replace(server.link, authorization=renewed), agent="me") as session:
        for _ in range(2):
            await session.send("PATCH", GET, body=b"{}", content=api.MERGE_PATCH)

    names = ("Authorization", "User-Agent", "Content-Type")
    assert [[request.headers[name] for name in names] for request in server.requests] == [
        ["Bearer one", "me", api.MERGE_PATCH],
        ["Bearer two", "me", api.MERGE_PATCH],
    ]


async def test_an_apply_names_kind_manager_and_force(server: stub.Stub, session: api.Api) -> None:
    """Server-side apply needs the kind in the body and the manager in the query, and takes fields over."""
    server.on("PATCH", resources.DEVICES.path("n1", sub="status"), stub.thing({}))
    thing = {"metadata": {"name": "n1"}, "status": {"summary": {"free": 0}}}

    await session.apply(resources.DEVICES, thing, manager="somebody", sub="status")

    (request,) = server.asked(fieldManager="somebody", force="true")
    assert request.headers["Content-Type"] == api.APPLY
    assert json.loads(server.bodies[0]) == {"apiVersion": "berth.dev/v1alpha1", "kind": "Device", **thing}


def test_meta_is_sent_without_what_is_empty() -> None:
    """An empty resourceVersion is not sent at all: it would not be a precondition but an error."""
    assert msgspec.json.encode(wire.Meta(name="a")) == b'{"name":"a"}'
