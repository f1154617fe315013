"""Serves objects as an API server does: reading, writing and watching them, over HTTP."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from berth_crds import wire
from berth_crds.client import connection
from berth_crds.client.resources import DEVICES, GPU_PODS, POLICIES, Resource
from berth_crds.fake import objects
from berth_crds.fake.objects import Objects, Place, StatusError

Kind = wire.Device | wire.GpuPod | wire.PlacementPolicy
RESOURCES: Final[Mapping[type, Resource]] = {
    wire.Device: DEVICES,
    wire.GpuPod: GPU_PODS,
    wire.PlacementPolicy: POLICIES,
}
LONGEST_WATCH_SECONDS: Final = 600.0


class Server:
    """A server that runs, and what it keeps."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._objects = Objects(self._wake)
        self.url = ""

    @property
    def connection(self) -> connection.Connection:
        """The way to this server, for `Api`."""
        return connection.Connection(server=self.url)

    def put(self, *things: Kind) -> None:
        """Create these objects, or replace what has their names."""
        for thing in things:
            resource, raw = RESOURCES[type(thing)], msgspec.to_builtins(thing)
            kind = {"apiVersion": resource.api_version, "kind": resource.kind}
            raw["metadata"].pop("resourceVersion", None)
            path = resource.path(thing.metadata.name, namespace=thing.metadata.namespace)
            self._objects.put(objects.place_of(path), {**kind, **raw})

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        try:
            place = objects.place_of(request.path)
            if request.method != "GET":
                return web.json_response(self._written(request, place, await _body(request)))
            if place.name:
                return web.json_response(self._objects.get(place))
            if request.query.get("watch") in {"1", "true"}:
                return await self._watch(request, place)
            return web.json_response(self._list(request, place))
        except StatusError as refusal:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": f"{refusal}"}
            more = {"reason": refusal.reason, "code": refusal.code}
            return web.json_response({**status, **more}, status=refusal.code)

    def _written(self, request: web.Request, place: Place, body: Any) -> Any:
        """Write what is asked for, and return what came of it."""
        kept = self._objects
        match request.method, bool(place.name), request.content_type:
            case "POST", False, _:
                return kept.create(place, body)
            case "POST", True, _ if place.sub == objects.BINDING:
                return kept.bind(place, body)
            case "PUT", True, _:
                return kept.replace(place, body)
            case "PATCH", True, "application/apply-patch+yaml":
                return kept.apply(place, body)
            case "PATCH", True, "application/merge-patch+json" | "application/strategic-merge-patch+json":
                return kept.patch(place, body)
            case "DELETE", True, _:
                return kept.delete(place, ((body or {}).get("preconditions") or {}).get("uid", ""))
        raise StatusError(
            405,
            "MethodNotAllowed",
            f"the fake server knows no {request.method} of {request.content_type} here",
        )

    def _list(self, request: web.Request, place: Place) -> Any:
        """Return all at once: a page may have more than it was asked for."""
        found = [one for one in self._objects.under(place) if _is_selected(request, one)]
        meta = {"resourceVersion": f"{self._objects.revision}"}
        return {"kind": "List", "apiVersion": place.api_version, "metadata": meta, "items": found}

    async def _watch(self, request: web.Request, place: Place) -> web.StreamResponse:
        """Send what changes until the time that was asked for is over, and then up to which revision."""
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        told = int(request.query.get("resourceVersion") or self._objects.revision)
        seconds = min(
            float(request.query.get("timeoutSeconds") or LONGEST_WATCH_SECONDS), LONGEST_WATCH_SECONDS
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    changed = self._changed
                    for change in tuple(self._objects.changes(place, told)):
                        told = change.revision
                        if _is_selected(request, change.thing):
                            await answer.write(_line(change.kind, change.thing))
                    await changed.wait()
        meta = {"resourceVersion": f"{self._objects.revision}"}
        await answer.write(_line("BOOKMARK", {"metadata": meta}))
        return answer


@contextlib.asynccontextmanager
async def serving(*things: Kind) -> AsyncIterator[Server]:
    """Serve these objects at a free port of this machine while the block runs."""
    server = Server()
    server.put(*things)
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.handle)
    # A watch that nobody reads any more must not keep the block waiting.
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        await runner.cleanup()


def _is_selected(request: web.Request, thing: Mapping[str, Any]) -> bool:
    labels, fields = (request.query.get(name, "") for name in ("labelSelector", "fieldSelector"))
    return objects.selected(thing, labels=labels, fields=fields)


async def _body(request: web.Request) -> Any:
    try:
        body = json.loads(await request.read() or b"null")
    except ValueError as error:
        raise StatusError(400, "BadRequest", f"the body is no JSON: {error}") from error
    if body is not None and not isinstance(body, dict):
        raise StatusError(400, "BadRequest", "the body is no object")
    return body


def _line(kind: str, thing: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": thing}, separators=(",", ":")).encode() + b"\n"
