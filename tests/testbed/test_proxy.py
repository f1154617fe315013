"""The proxy makes the troubles that it promises, and none while it is not asked to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from testbed import cluster as clusters
from testbed import proxy, waiting

SOON = 5.0
SILENCE = 0.2


@dataclass(slots=True)
class Echo:
    """A server that answers every line with the same line, and remembers what it heard."""

    port: int = 0
    heard: list[bytes] = field(default_factory=list)
    busy: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.busy += 1
        try:
            while line := await reader.readline():
                self.heard.append(line)
                writer.write(line)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()
            self.busy -= 1

    async def idle(self) -> bool:
        """Whether every connection has ended."""
        return self.busy == 0


@dataclass(frozen=True, slots=True)
class Caller:
    """One connection through the proxy."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def say(self, line: bytes) -> None:
        """Send a line."""
        self.writer.write(line)

    def hang_up(self) -> None:
        """End the connection."""
        self.writer.transport.abort()

    async def hear(self) -> bytes:
        """Return the next line, or nothing when the other side has ended the connection."""
        return await asyncio.wait_for(self.reader.readline(), SOON)


@pytest.fixture
async def echo() -> AsyncIterator[Echo]:
    """Yield an echo server."""
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    echo.port = server.sockets[0].getsockname()[1]
    yield echo
    server.close()
    await waiting.eventually(echo.idle, what="the echo server to be idle")


@pytest.fixture
async def wire(echo: Echo) -> AsyncIterator[proxy.Proxy]:
    """Yield a proxy in front of the echo server."""
    async with proxy.Proxy(echo.port) as wire:
        yield wire


@pytest.fixture
async def caller(wire: proxy.Proxy) -> AsyncIterator[Caller]:
    """Yield a connection that has already been used once."""
    caller = await _call(wire)
    yield caller
    caller.hang_up()


async def test_forwards(wire: proxy.Proxy, caller: Caller) -> None:
    """What one side says the other side hears."""
    caller.say(b"again\n")

    assert await caller.hear() == b"again\n"
    assert wire.connections == 1


async def test_cut_resets(wire: proxy.Proxy, caller: Caller) -> None:
    """A cut resets what is connected, and new connections work."""
    wire.cut()

    with pytest.raises(ConnectionResetError):
        await caller.hear()
    (await _call(wire)).hang_up()


async def test_hold_is_silent(wire: proxy.Proxy, caller: Caller, echo: Echo) -> None:
    """A held connection stays open, carries nothing, and after the resume delivers what was held."""
    wire.hold()
    caller.say(b"held\n")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(caller.reader.readline(), SILENCE)
    assert b"held\n" not in echo.heard

    wire.resume()

    assert await caller.hear() == b"held\n"


async def test_held_answers(wire: proxy.Proxy, caller: Caller, echo: Echo) -> None:
    """With only the answers held, the server hears the request and the client learns nothing of it."""
    wire.hold(answers_only=True)
    caller.say(b"done?\n")

    async def heard() -> bool:
        return b"done?\n" in echo.heard

    await waiting.eventually(heard, what="the request at the server")
    wire.cut()
    with pytest.raises(ConnectionResetError):
        await caller.hear()


async def test_refuse_turns_away(wire: proxy.Proxy, caller: Caller) -> None:
    """New connections are refused while live ones go on, until the proxy accepts again."""
    wire.refuse()
    with pytest.raises(ConnectionRefusedError):
        await _call(wire)
    caller.say(b"still here\n")
    assert await caller.hear() == b"still here\n"

    await wire.accept()

    (await _call(wire)).hang_up()


async def test_cluster_through_the_proxy(cluster: clusters.Cluster, namespace: str) -> None:
    """Through the proxy a client reaches the API server with TLS intact, until the wire is held."""
    async with proxy.Proxy(cluster.port) as wire:
        config = await asyncio.to_thread(cluster.kubeconfig_for, namespace, "default", server=wire.server)
        words = ("--kubeconfig", str(config), "--request-timeout=1s", "auth", "whoami")

        before = await asyncio.to_thread(cluster.kubectl, *words)
        wire.hold()
        with pytest.raises(clusters.KubectlFailed):
            await asyncio.to_thread(cluster.kubectl, *words)

    assert f"system:serviceaccount:{namespace}:default" in before


async def _call(wire: proxy.Proxy) -> Caller:
    """Connect through the proxy and make sure that the connection works."""
    caller = Caller(*await asyncio.open_connection("127.0.0.1", wire.port))
    caller.say(b"hello\n")
    assert await caller.hear() == b"hello\n"
    return caller
