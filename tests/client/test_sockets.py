"""A socket whose descriptor the event loop has closed never touches that number again."""

import asyncio
import contextlib
import gc
import os
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from typing import Final

import aiohttp
import pytest

from berth_crds.client import sockets

RESET: Final = struct.pack("ii", 1, 0)  # Closed with this, a connection is reset.
TLS: Final = ssl.create_default_context()


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Yield a socket that listens."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found


async def connected(server: socket.socket) -> tuple[sockets.OwnSocket, socket.socket]:
    """Return both ends of a connection."""
    address: aiohttp.AddrInfoType = (socket.AF_INET, socket.SOCK_STREAM, 0, "", server.getsockname())
    ours = sockets.new_socket(address)
    ours.setblocking(False)
    await asyncio.get_running_loop().sock_connect(ours, server.getsockname())
    return ours, server.accept()[0]


async def reset_before_tls(server: socket.socket) -> sockets.OwnSocket:
    """Return the socket of a connection that is reset before TLS begins."""
    ours, theirs = await connected(server)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    theirs.close()
    with contextlib.suppress(OSError):
        await asyncio.get_running_loop().create_connection(
            asyncio.Protocol, sock=ours, ssl=TLS, server_hostname="x"
        )
    await asyncio.sleep(0.01)
    assert not ours.is_open
    return ours


def reuse(number: int) -> socket.socket:
    """Return another socket that has this number of a descriptor."""
    other = socket.socket()
    if other.fileno() == number:
        return other
    os.dup2(other.fileno(), number)
    other.close()
    return socket.socket(fileno=number)


@pytest.mark.parametrize(
    "touch",
    [
        pytest.param(sockets.shut_down, id="shut down"),
        pytest.param(sockets.OwnSocket.close, id="closed"),
        pytest.param(lambda _: None, id="forgotten"),
    ],
)
async def test_a_reset_connection_leaves_the_next_one_alone(
    server: socket.socket, touch: Callable[[sockets.OwnSocket], object]
) -> None:
    """Shut down, closed or forgotten: the connection that has its number now goes on."""
    lost = await reset_before_tls(server)
    number = lost.fileno() if lost.fileno() >= 0 else os.dup(0)

    with reuse(number) as other:
        other.connect(server.getsockname())
        touch(lost)
        del lost
        gc.collect()

        other.sendall(b"still here")
        theirs, _ = server.accept()
        with theirs:
            assert theirs.recv(64) == b"still here"


async def test_what_is_open_is_closed_by_its_owner(server: socket.socket) -> None:
    """Once, and a second time does no harm."""
    ours, theirs = await connected(server)
    with theirs:
        assert ours.is_open
        ours.close()
        ours.close()
        assert not ours.is_open
        assert theirs.recv(1) == b""


async def test_what_nobody_closed_is_closed_with_a_warning(server: socket.socket) -> None:
    """As with any socket, so that tests find who forgot it."""
    ours, theirs = await connected(server)
    with theirs:
        with pytest.warns(ResourceWarning, match="unclosed"):
            ours.__del__()
        assert theirs.recv(1) == b""
