"""A second API server on the etcd of a cluster, as a highly available control plane has it.

    async with second_apiserver.SecondApiServer(cluster) as other:
        other.freeze()

Each server keeps its own copy of what it needs for admission, and both write to one etcd.
This one can be frozen as a machine that pauses, and its way to etcd can be cut, held up or
made one-way, so that its copies grow old while the other server goes on.
"""

import asyncio
import contextlib
import signal
from types import TracebackType
from typing import Self

from testbed import cluster, ports, processes, proxy


class SecondApiServer:
    """A second API server; use it as an asynchronous context manager."""

    def __init__(self, original: cluster.Cluster) -> None:
        self._original = original
        self._reservation = ports.Reservation()
        self.etcd = proxy.Proxy(original.etcd_port)
        self.port = self._reservation.port
        self._close = contextlib.AsyncExitStack()
        self._program: processes.Program

    @property
    def server(self) -> str:
        """The URL of this server."""
        return f"https://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        """Start the server, and wait until it is ready."""
        self._close.callback(self._reservation.release)
        await self._close.enter_async_context(self.etcd)
        # In a thread, because the way to etcd needs this loop.
        self._program = await asyncio.to_thread(
            self._original.start_another_apiserver, port=self.port, etcd_port=self.etcd.port
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the server."""
        self.thaw()
        self._program.kill()
        await self._close.aclose()

    def freeze(self) -> None:
        """Stop the server amid whatever it does; its connections stay open."""
        self._program.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on where it was."""
        with contextlib.suppress(ProcessLookupError):
            self._program.process.send_signal(signal.SIGCONT)
