"""The HTTP extender that kube-scheduler calls with the nodes that passed all its filters.

It answers that no node will do: so nothing is bound, and the cluster stays as it was drawn.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

import msgspec
from aiohttp import web

VERB: Final = "filter"
NO_NODE: Final = b'{"nodenames":[]}'


class _Metadata(msgspec.Struct):
    uid: str


class _Pod(msgspec.Struct):
    metadata: _Metadata


class _Arguments(msgspec.Struct):
    """The arguments of a call; the names of nodes come in place of the nodes (`nodeCacheCapable`)."""

    Pod: _Pod
    NodeNames: list[str] | None = None


_decoder: Final = msgspec.json.Decoder(_Arguments)


@contextlib.asynccontextmanager
async def serving(passed: Callable[[str, frozenset[str]], None]) -> AsyncIterator[int]:
    """Serve on a port, and call `passed` with the uid of each pod and the nodes that passed."""

    async def answer(request: web.Request) -> web.Response:
        arguments = _decoder.decode(await request.read())
        passed(arguments.Pod.metadata.uid, frozenset(arguments.NodeNames or ()))
        return web.Response(body=NO_NODE, content_type="application/json")

    program = web.Application(client_max_size=1 << 26)
    program.router.add_post(f"/{VERB}", answer)
    runner = web.AppRunner(program, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
