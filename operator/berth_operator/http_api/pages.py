"""The pages under /debug: read-only, for people with an incident and for programs that watch one.

Each page finds its values in `views` and writes them as JSON or YAML, or as text where
that is more readable. A question that makes no sense is answered with one sentence. The
writing is done in a thread, because a large cluster is many megabytes and pods wait to
be bound meanwhile.
"""

import asyncio
import dataclasses
import http
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
import yaml
from aiohttp import web

from berth_crds import text
from berth_crds.client import errors
from berth_operator.engine import ledger, records
from berth_operator.http_api import auth, views

FORMATS: Final = {"json": "application/json", "yaml": "application/yaml", "text": "text/plain"}
NODES_AT_ONCE: Final = 64  # So many are read before others get their turn.

Page = Callable[[web.Request], Awaitable[web.Response]]


class Mistake(Exception):
    """A question that cannot be answered, in a sentence for whoever asked."""

    def __init__(self, sentence: str, *, status: http.HTTPStatus = http.HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(text.line(sentence))
        self.status = status


@dataclasses.dataclass(frozen=True, slots=True)
class Sources:
    """What the pages are made of; `snapshot` lists the cluster anew, as one List."""

    book: ledger.Ledger
    notes: records.Records
    clock: Callable[[], float]
    ready: Callable[[], bool]
    said: views.Said
    snapshot: Callable[[], Awaitable[dict[str, Any]]]


def routes(sources: Sources, guard: auth.Guard) -> list[web.RouteDef]:
    """Give all pages, each behind the guard."""
    pages = Pages(sources)
    found: dict[str, Page] = {
        "backlog": pages.backlog,
        "ledger": pages.ledger,
        "explain": pages.explain,
        "decisions": pages.decisions,
        "snapshot": pages.snapshot,
    }
    return [guard.protect(f"/debug/{name}", pages.asked(page)) for name, page in found.items()]


class Pages:
    """Answers questions about the ledger."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def asked(self, page: Page) -> Page:
        """Answer with a sentence what cannot be answered otherwise."""

        async def answer(request: web.Request) -> web.Response:
            try:
                self._check_ready()
                return await page(request)
            except Mistake as mistake:
                return web.Response(text=f"{mistake}\n", status=mistake.status)

        return answer

    def _check_ready(self) -> None:
        if not self._sources.ready():
            raise Mistake(
                "The picture of the cluster is not complete yet.", status=http.HTTPStatus.SERVICE_UNAVAILABLE
            )

    async def backlog(self, request: web.Request) -> web.Response:
        """Tell who waits."""
        src = self._sources
        return await written(request, views.waiting(src.book, src.clock(), src.said))

    async def ledger(self, request: web.Request) -> web.Response:
        """Tell who holds what, on one node or on all."""
        book = self._sources.book
        name = request.query.get("node")
        if name is None:
            return await written(request, await self._all_nodes())
        row = book.picture.row(name)
        if row is None:
            raise Mistake(f"There is no node {name}.", status=http.HTTPStatus.NOT_FOUND)
        return await written(request, views.node(book, row))

    async def _all_nodes(self) -> list[views.Fields]:
        book, found = self._sources.book, []
        for at, row in enumerate(list(book.picture.each()), start=1):
            found.append(views.node(book, row))
            if at % NODES_AT_ONCE == 0:
                await asyncio.sleep(0)
        return found

    async def explain(self, request: web.Request) -> web.Response:
        """Tell why a pod does not fit, or where it would."""
        book, title = self._sources.book, request.query.get("pod", "")
        if not all(title.partition("/")):
            raise Mistake("Say which pod: /debug/explain?pod=NAMESPACE/NAME.")
        form = form_of(request, usual="text")
        candidate = views.find(book, title)
        if candidate is None:
            raise Mistake(views.whereabouts(book, title), status=http.HTTPStatus.NOT_FOUND)
        told = views.why(book, candidate)
        if form == "text":
            return web.Response(text=views.why_in_text(told, candidate))
        return await written(request, views.why_in_fields(told, candidate))

    async def decisions(self, request: web.Request) -> web.Response:
        """Tell what was decided last."""
        return await written(request, views.decided(self._sources.notes))

    async def snapshot(self, request: web.Request) -> web.Response:
        """Give the cluster as manifests, as the simulation reads them."""
        form_of(request)
        try:
            found = await self._sources.snapshot()
        except errors.ClientError as error:
            raise Mistake(
                f"The cluster cannot be listed: {error}.", status=http.HTTPStatus.SERVICE_UNAVAILABLE
            ) from error
        return await written(request, found)


def form_of(request: web.Request, *, usual: str = "json") -> str:
    """Read in which form an answer is wanted."""
    form = request.query.get("format", usual)
    possible = [one for one in FORMATS if one in {usual, "json", "yaml"}]
    if form not in possible:
        raise Mistake(f"There is no format {form}: it is one of {', '.join(possible)}.")
    return form


async def written(request: web.Request, values: Any) -> web.Response:
    """Write values in the form that was asked for."""
    form = form_of(request)
    body = await asyncio.to_thread(_encoded, values, form)
    return web.Response(body=body, content_type=FORMATS[form], charset="utf-8")


def _encoded(values: Any, form: str) -> bytes:
    if form == "json":
        return msgspec.json.format(msgspec.json.encode(values), indent=2) + b"\n"
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # The one in C, where PyYAML was built with it.
    return yaml.dump(values, Dumper=dumper, sort_keys=False, allow_unicode=True).encode()
