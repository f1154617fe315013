"""The probes: alive as long as the loop turns, ready once the picture is complete, and both in words."""

import asyncio
import socket
from collections.abc import Callable

import aiohttp
import pytest
from aiohttp import web

from berth_crds import http_server
from berth_crds.client import errors
from berth_operator.http_api import server


async def ask(port: int, path: str, *, host: str = "127.0.0.1") -> tuple[int, str]:
    """Ask a probe."""
    async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}{path}") as answer:
        return answer.status, await answer.text()


def free_port(host: str = "127.0.0.1") -> int:
    """Find a port that nobody uses."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
    return port


@pytest.mark.parametrize(
    ("ready", "status"), [(lambda: True, 200), (lambda: False, 503)], ids=["complete", "not yet"]
)
async def test_ready_when_complete(ready: Callable[[], bool], status: int) -> None:
    """Readiness follows the picture, aliveness does not; both tell the state."""
    port = free_port()

    async with server.serve(f"127.0.0.1:{port}", ready=ready, state=lambda: "standing by"):
        assert await ask(port, "/readyz") == (status, "standing by\n")
        assert await ask(port, "/healthz") == (200, "standing by\n")
        assert (await ask(port, "/metrics"))[0] == 404


async def test_its_first_page_lists_the_others() -> None:
    """Whoever opens the address in a browser sees what is served there, and nothing that is not."""
    port = free_port()
    async with server.serve(f"127.0.0.1:{port}", ready=lambda: True, state=str):
        status, listed = await ask(port, "/")

    assert status == 200
    assert [line.split(maxsplit=1) for line in listed.splitlines()] == [
        [path, server.ABOUT[path]] for path in ("/healthz", "/readyz")
    ]


async def test_it_ends_with_the_block() -> None:
    """Afterwards the port is free again."""
    port = free_port()
    async with server.serve(f"127.0.0.1:{port}", ready=lambda: True, state=str):
        pass

    with pytest.raises(aiohttp.ClientConnectorError):
        await ask(port, "/healthz")


async def test_a_long_page_does_not_keep_it_from_ending() -> None:
    """Whoever still waits for an answer at the end gets none, and the end comes soon."""
    port, begun = free_port(), asyncio.Event()

    async def endless(_: web.Request) -> web.Response:
        begun.set()
        await asyncio.sleep(3600)
        return web.Response()

    address, more = f"127.0.0.1:{port}", [web.get("/long", endless)]
    async with asyncio.timeout(http_server.SHUTDOWN_SECONDS + 10):
        async with server.serve(address, ready=lambda: True, state=str, more=more):
            asked = asyncio.ensure_future(ask(port, "/long"))
            await begun.wait()

    with pytest.raises(aiohttp.ClientError):
        await asked


async def test_without_an_address_nothing_is_served() -> None:
    """An empty address is no port at all."""
    before = asyncio.all_tasks()

    async with server.serve("", ready=lambda: True, state=str):
        assert asyncio.all_tasks() == before


async def test_an_address_in_brackets() -> None:
    """IPv6 addresses are written with brackets, as everywhere."""
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    port = free_port("::1")

    async with server.serve(f"[::1]:{port}", ready=lambda: True, state=lambda: "leading"):
        assert await ask(port, "/healthz", host="[::1]") == (200, "leading\n")


async def test_a_port_in_use_is_said() -> None:
    """A port that somebody else listens on is told in one sentence, which ends the program."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        with pytest.raises(
            errors.Unusable, match=f"127.0.0.1:{port} cannot be listened at: Address already in use."
        ):
            async with server.serve(f"127.0.0.1:{port}", ready=lambda: True, state=str):
                pass
