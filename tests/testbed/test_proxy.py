"""The proxy makes the troubles that it promises, and none while it is not asked to."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from testbed import proxy, waiting

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
def heard() -> list[bytes]:
    """Yield the lines that the server behind the proxy has heard."""
    return []


@pytest.fixture
async def wire(heard: list[bytes]) -> AsyncIterator[proxy.Proxy]:
    """Yield a proxy before a server that answers each line with the same line."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                heard.append(line)
                writer.write(line)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with proxy.Proxy(server.sockets[0].getsockname()[1]) as made:
        yield made
    server.close()


@pytest.fixture
async def connect(wire: proxy.Proxy) -> AsyncIterator[Callable[[], Awaitable[Connection]]]:
    """Yield a way to connect through the proxy, which makes sure that the connection works."""
    made: list[Connection] = []

    async def connected() -> Connection:
        made.append(await asyncio.open_connection("127.0.0.1", wire.port))
        await says(made[-1], b"hello\n")
        return made[-1]

    yield connected
    for _, writer in made:
        writer.transport.abort()
    await asyncio.sleep(0)


async def says(connection: Connection, line: bytes) -> None:
    """Send a line, and wait for its echo."""
    reader, writer = connection
    writer.write(line)
    assert await asyncio.wait_for(reader.readline(), 5) == line


Connect = Callable[[], Awaitable[Connection]]


async def test_cut_resets(wire: proxy.Proxy, connect: Connect) -> None:
    """A cut resets what is connected, and new connections work."""
    reader, _ = await connect()

    wire.cut()

    with pytest.raises(ConnectionResetError):
        await reader.readline()
    await connect()
    assert wire.connections == 2


async def test_hold_is_silent(wire: proxy.Proxy, connect: Connect, heard: list[bytes]) -> None:
    """A held connection stays open, carries nothing, and after the resume delivers what was held."""
    reader, writer = await connect()
    wire.hold()
    writer.write(b"held\n")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.readline(), 0.2)
    assert b"held\n" not in heard

    wire.resume()

    assert await asyncio.wait_for(reader.readline(), 5) == b"held\n"


async def test_held_answers(wire: proxy.Proxy, connect: Connect, heard: list[bytes]) -> None:
    """With only the answers held, the server hears the request and the client learns nothing of it."""
    reader, writer = await connect()
    wire.hold(answers_only=True)
    writer.write(b"done?\n")

    await waiting.eventually(lambda: b"done?\n" in heard, what="the request at the server")
    wire.cut()
    with pytest.raises(ConnectionResetError):
        await reader.readline()


async def test_refuse_turns_away(wire: proxy.Proxy, connect: Connect) -> None:
    """New connections are refused while live ones go on, until the proxy accepts again."""
    live = await connect()
    wire.refuse()
    with pytest.raises(ConnectionRefusedError):
        await connect()
    await says(live, b"still here\n")

    await wire.accept()

    await connect()
