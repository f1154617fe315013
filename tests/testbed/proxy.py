"""A wire that tests can cut: a TCP proxy between a client and the API server.

    async with proxy.Proxy(cluster.port) as wire:
        config = cluster.kubeconfig_for(namespace, "default", server=wire.server)
        wire.hold()

It forwards bytes and looks at none of them, so TLS passes through. Three troubles of real networks can be
made: `cut` resets what is connected, `hold` lets every connection hang in silence as a partition does, and
`refuse` turns new connections away. Holding only the answers makes the nastiest case: the server did it,
and the client never learns.
"""

import asyncio
import socket
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from testbed import listening_socket, ports

# With this option closing a socket sends a reset at once instead of a polite end: (on, seconds to linger).
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Link:
    """One live connection: its two ends, and the two tasks that carry bytes between them."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    pumps: tuple[asyncio.Task[None], asyncio.Task[None]]

    def cut(self) -> None:
        """Reset both ends; what was held back is lost."""
        _reset(self.client)
        _reset(self.server)
        for pump in self.pumps:
            pump.cancel()


class Proxy:
    """Forwards connections on `port` to one port of this machine."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._reservation = ports.Reservation()
        self._listener: asyncio.Server | None = None
        self._listening: listening_socket.ListeningSocket
        self._closing: set[asyncio.Task[None]] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._links: list[Link] = []
        self._requests_flow = asyncio.Event()
        self._answers_flow = asyncio.Event()
        self.port = self._reservation.port
        self.connections = 0

    @property
    def server(self) -> str:
        """The URL under which clients reach the API server through this proxy."""
        return f"https://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        """Listen and forward."""
        self.resume()
        await self.accept()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening, reset what is left, and give the port back."""
        self.refuse()
        self.resume()
        await self._closed()
        self.cut()
        await asyncio.gather(*self._serving)
        self._reservation.release()

    def cut(self) -> None:
        """Reset all live connections; new ones are welcome."""
        for link in self._links:
            link.cut()

    def hold(self, *, answers_only: bool = False) -> None:
        """Forward nothing from now on, or only what clients send; connections stay open and silent."""
        self._answers_flow.clear()
        if not answers_only:
            self._requests_flow.clear()

    def resume(self) -> None:
        """Forward again, beginning with what was held back."""
        self._answers_flow.set()
        self._requests_flow.set()

    def refuse(self) -> None:
        """Turn new connections away, as a server that is not running does; live ones go on."""
        if self._listener:
            self._listening.stop()
            task = asyncio.create_task(self._close(self._listener, self._listening))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
            self._listener = None

    async def _close(self, listener: asyncio.Server, listening: listening_socket.ListeningSocket) -> None:
        """Close a listener once it has what was accepted last, which asyncio would lose otherwise."""
        await listening.stop_accepting()
        listener.close()

    async def _closed(self) -> None:
        await asyncio.gather(*self._closing)

    async def accept(self) -> None:
        """Welcome new connections again."""
        await self._closed()
        if self._listener is None:
            self._listening = listening_socket.ListeningSocket()
            self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            self._listening.bind(("127.0.0.1", self.port))
            self._listener = await asyncio.start_server(self._welcome, sock=self._listening)

    def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Return a connection a task of its own, which nobody cancels: a cut ends what the task waits for."""
        self.connections += 1
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        """Pump both ways until one side ends."""
        try:
            answers, server = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            _reset(client)
            return
        forth = asyncio.create_task(_pump(reader, server, self._requests_flow))
        back = asyncio.create_task(_pump(answers, client, self._answers_flow))
        link = Link(client=client, server=server, pumps=(forth, back))
        self._links.append(link)
        try:
            await asyncio.wait(link.pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._links.remove(link)
            link.cut()
            await asyncio.gather(*link.pumps, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flow: asyncio.Event) -> None:
    """Copy what arrives, while it may flow; the end of the source is held back like everything else."""
    while chunk := await reader.read(64 * 1024):
        await flow.wait()
        writer.write(chunk)
        await writer.drain()
    await flow.wait()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection with a TCP reset."""
    if not writer.is_closing():
        peer = writer.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        writer.transport.abort()
