"""The probes: alive as long as the loop turns, ready once the picture is complete, and both in words."""

import asyncio
import socket

import aiohttp
import pytest
from aiohttp import web

from berth_crds import http_server
from berth_crds.client import errors
from berth_operator.http_api import server
from testbed import ports


async def ask(address: str, path: str) -> tuple[int, str]:
    """Ask a probe."""
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}{path}") as answer:
        return answer.status, await answer.text()


@pytest.mark.parametrize(
    ("host", "ready", "status"),
    [
        pytest.param("127.0.0.1", True, 200, id="complete"),
        pytest.param("127.0.0.1", False, 503, id="not yet"),
        pytest.param(
            "[::1]",
            True,
            200,
            id="at an IPv6 address",
            marks=pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6"),
        ),
    ],
)
async def test_ready_when_complete(host: str, ready: bool, status: int) -> None:  # noqa: FBT001
    """Readiness follows the picture, aliveness does not, both tell the state; what is served is listed."""
    address = f"{host}:{ports.free()}"

    async with server.serve(address, ready=lambda: ready, state=lambda: "standing by"):
        assert await ask(address, "/readyz") == (status, "standing by\n")
        assert await ask(address, "/healthz") == (200, "standing by\n")
        assert (await ask(address, "/metrics"))[0] == 404
        _, listed = await ask(address, "/")

    assert [tuple(line.split(maxsplit=1)) for line in listed.splitlines()] == [
        (path, server.ABOUT[path]) for path in ("/healthz", "/readyz")
    ]
    with pytest.raises(aiohttp.ClientConnectorError):
        await ask(address, "/healthz")


async def test_a_long_page_does_not_keep_it_from_ending() -> None:
    """Whoever still waits for an answer at the end gets none, and the end comes soon."""
    address, begun = f"127.0.0.1:{ports.free()}", asyncio.Event()

    async def endless(_: web.Request) -> web.Response:
        begun.set()
        await asyncio.sleep(3600)
        return web.Response()

    async with asyncio.timeout(http_server.SHUTDOWN_SECONDS + 10):
        async with server.serve(address, ready=bool, state=str, more=[web.get("/long", endless)]):
            asked = asyncio.ensure_future(ask(address, "/long"))
            await begun.wait()

    with pytest.raises(aiohttp.ClientError):
        await asked


async def test_without_an_address_nothing_is_served() -> None:
    """An empty address is no port at all."""
    before = asyncio.all_tasks()

    async with server.serve("", ready=bool, state=str):
        assert asyncio.all_tasks() == before


async def test_a_port_in_use_is_an_error() -> None:
    """A port that somebody else listens on is one sentence, which ends the program."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(
            errors.Unusable, match=f"{address} cannot be listened at: Address already in use."
        ):
            await server.serve(address, ready=bool, state=str).__aenter__()
