"""A request has one answer, one error, or none in time; the error tells whether it can have had an effect."""

import asyncio
import dataclasses
import json

import msgspec
import pytest

from berth_crds import wire
from berth_crds.client import api, connection, errors, resources
from support import mirror, stub
from testbed import ports

PATH = "/api/v1/namespaces/ml/pods/a/binding"
GET = mirror.CONFIG_MAPS.path("a", namespace="ml")


async def refused_connection() -> connection.Connection:
    """Name a server that is not there."""
    reservation = ports.Reservation()
    reservation.release()
    return connection.Connection(server=f"http://127.0.0.1:{reservation.port}")


async def test_nobody_there_is_known_to_have_done_nothing() -> None:
    """A refused connection is unambiguous: the request never left."""
    async with api.Api(await refused_connection(), agent="test") as session:
        with pytest.raises(errors.Unreachable) as caught:
            await session.send("POST", PATH, body=b"{}")

    assert not caught.value.ambiguous


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(stub.later(asyncio.Event(), stub.thing({})), id="silence"),
        pytest.param(stub.reset(), id="a reset"),
    ],
)
async def test_a_post_without_an_answer_is_ambiguous_and_not_repeated(
    server: stub.Stub, session: api.Api, answer: stub.Answer
) -> None:
    """A POST may have had its effect when no answer comes, so it is not sent again."""
    server.on("POST", PATH, answer)

    with pytest.raises(errors.Unreachable) as caught:
        await session.send("POST", PATH, body=b"{}", deadline=0.1)

    assert caught.value.ambiguous
    assert len(server.requests) == 1


async def test_every_answer_is_counted_and_so_is_silence() -> None:
    """Whoever wants to count is told method, path and status of each request, or that no answer came."""
    seen: list[tuple[str, str, int]] = []

    def tally(method: str, path: str, status: int) -> None:
        seen.append((method, path, status))

    async with stub.Stub() as server, api.Api(server.link, agent="test", count_request=tally) as session:
        server.on("POST", PATH, stub.thing({}, code=201), stub.status(409, "no", reason="Conflict"))
        await session.send("POST", PATH, body=b"{}")
        with pytest.raises(errors.Conflict):
            await session.send("POST", PATH, body=b"{}")
    async with api.Api(await refused_connection(), agent="test", count_request=tally) as session:
        with pytest.raises(errors.Unreachable):
            await session.send("POST", PATH, body=b"{}")

    assert seen == [("POST", PATH, 201), ("POST", PATH, 409), ("POST", PATH, api.NO_ANSWER)]


async def test_a_redirect_is_an_error(server: stub.Stub, session: api.Api) -> None:
    """A redirect comes from somebody else: following it would turn a POST into a GET that succeeds."""
    away = stub.thing({}, code=302, headers={"Location": "/login"})
    server.on("POST", PATH, away)
    server.on("GET", "/login", stub.raw(b"<html>Log in, please</html>"))

    with pytest.raises(errors.ApiError) as caught:
        await session.send("POST", PATH, body=b"{}")

    assert caught.value.code == 302
    assert [one.path for one in server.requests] == [PATH]


async def test_an_object_of_another_shape_is_no_answer(server: stub.Stub, session: api.Api) -> None:
    """A page of words where an object should be is a failed read, not a fault of ours."""
    server.on("GET", GET, stub.raw(b"<html>"))

    with pytest.raises(errors.Unreachable, match="the answer is no ConfigMap"):
        await session.get(mirror.CONFIG_MAPS, "a", into=mirror.ConfigMap, namespace="ml")


async def test_a_login_that_fails_is_the_error_of_the_request() -> None:
    """Without a header nothing is sent, and the caller learns why."""

    async def locked_out() -> str:
        raise errors.Unusable("The token file t cannot be read: Permission denied.")

    async with stub.Stub() as server:
        link = dataclasses.replace(server.link, authorization=locked_out)
        async with api.Api(link, agent="test") as session:
            with pytest.raises(errors.ClientError, match="Permission denied"):
                await session.send("GET", GET)

    assert server.requests == []


async def test_each_request_says_who_and_what() -> None:
    """The header of the moment, the agent's name and the content type travel with each request."""
    headers = iter(["Bearer one", "Bearer two"])

    async def renewed() -> str:
        return next(headers)

    async with stub.Stub() as server:
        server.on("PATCH", GET, stub.thing({}))
        link = dataclasses.replace(server.link, authorization=renewed)
        async with api.Api(link, agent="berth-test") as session:
            for _ in range(2):
                await session.send("PATCH", GET, body=b"{}", content=api.MERGE_PATCH)

    said = [
        (one.headers["Authorization"], one.headers["User-Agent"], one.headers["Content-Type"])
        for one in server.requests
    ]
    assert said == [
        ("Bearer one", "berth-test", api.MERGE_PATCH),
        ("Bearer two", "berth-test", api.MERGE_PATCH),
    ]


async def test_an_apply_names_kind_manager_and_force(server: stub.Stub, session: api.Api) -> None:
    """Server-side apply needs the kind in the body and the manager in the query, and takes fields over."""
    path = resources.DEVICES.path("n1", sub="status")
    server.on("PATCH", path, stub.thing({}))

    thing = {"metadata": {"name": "n1"}, "status": {"summary": {"free": 0}}}
    await session.apply(resources.DEVICES, thing, manager="somebody", sub="status")

    (request,) = server.asked(fieldManager="somebody", force="true")
    assert request.headers["Content-Type"] == api.APPLY
    assert json.loads(server.bodies[0]) == {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "Device",
        "metadata": {"name": "n1"},
        "status": {"summary": {"free": 0}},
    }


async def test_a_silent_stream_ends(server: stub.Stub, session: api.Api) -> None:
    """A stream in which nothing arrives for the agreed time is a failure, however well it went before."""
    frame = stub.event("ADDED", {"metadata": {"name": "a"}})
    server.on("GET", GET, stub.watch(frame, until=asyncio.Event()))

    async with session.stream(GET, params={}, idle_seconds=0.1, head_seconds=5.0) as content:
        first = await content.readline()
        with pytest.raises(TimeoutError):
            await content.readline()

    assert json.loads(first) == frame


def test_meta_is_sent_without_what_is_empty() -> None:
    """An empty resourceVersion is not sent at all: it would not be a precondition but an error."""
    assert msgspec.json.encode(wire.Meta(name="a")) == b'{"name":"a"}'
