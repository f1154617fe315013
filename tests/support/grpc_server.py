"""What programs that are played to a kubelet have in common: they serve gRPC while a test runs."""

from __future__ import annotations

from types import TracebackType

import grpc.aio


class GrpcServer:
    """Serves until the end of a block; what it serves is its own."""

    _server: grpc.aio.Server | None = None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving."""
        if self._server is not None:
            await self._server.stop(None)
