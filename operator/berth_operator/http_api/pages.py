"""The pages under /debug: read-only, for people with an incident and for programs that watch one.

Each page finds its values in `views`, and has them written as JSON or YAML, or as text where
that is more readable. A question that makes no sense is answered with one sentence. However
many ask: one long answer is made after the other, by `writing`, so that pods are bound
meanwhile, and few wait to be read at one time, so that the memory suffices.
"""

import asyncio
import contextlib
import dataclasses
import http
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from aiohttp import web

from berth_crds import http_server, text
from berth_crds.client import errors
from berth_operator.engine import decision_records
from berth_operator.engine.ledger import Ledger
from berth_operator.http_api import auth, long_answers, views
from berth_operator.scheduling import queued_pods

ABOUT: Final = {
    "/debug/backlog": "each pod without a node: why it waits, and for what",
    "/debug/ledger": "the cards of all nodes and who holds them; ?node=NAME for one node",
    "/debug/explain": "?pod=NAMESPACE/NAME: why a pod does not fit, card by card, and what would help",
    "/debug/decisions": "the last decisions",
    "/debug/snapshot": "the cluster as manifests, for the simulation; ?format=yaml",
}
PARAMETERS: Final = {"ledger": ("node", "format"), "explain": ("pod", "format")}
USUAL_PARAMETERS: Final = ("format",)
LONG_ANSWERS: Final = 4  # Of half a cluster each, made and not yet read.

Page = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Mistake(Exception):
    """A question that cannot be answered, in a sentence for whoever asked."""

    def __init__(self, sentence: str, *, status: http.HTTPStatus = http.HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(text.line(sentence))
        self.status = status


@dataclasses.dataclass(frozen=True, slots=True)
class Sources:
    """What the pages are made of; `snapshot` lists the cluster anew, some objects at a time."""

    ledger: Ledger
    records: decision_records.DecisionRecords
    clock: Callable[[], float]
    ready: Callable[[], bool]
    said: views.Said
    snapshot: Callable[[], AsyncGenerator[list[dict[str, Any]]]]


def routes(sources: Sources, guard: auth.Guard) -> list[web.RouteDef]:
    """Return all pages, each behind the guard, and the open list of them."""
    pages = Pages(sources)
    found: dict[str, Page] = {
        "backlog": pages.backlog,
        "ledger": pages.ledger,
        "explain": pages.explain,
        "decisions": pages.decisions,
        "snapshot": pages.snapshot,
    }
    guarded = [guard.protect(f"/debug/{name}", pages.asked(name, page)) for name, page in found.items()]
    return [*guarded, *(http_server.listing(path, ABOUT) for path in ("/debug", "/debug/"))]


class Pages:
    """Answers questions about the ledger."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._turn = asyncio.Lock()
        self._places = asyncio.Semaphore(LONG_ANSWERS)
        self._explaining = asyncio.Lock()

    def asked(self, name: str, page: Page) -> Page:
        """Answer with a sentence what cannot be answered otherwise."""
        parameters = PARAMETERS.get(name, USUAL_PARAMETERS)

        async def answer(request: web.Request) -> web.StreamResponse:
            try:
                check_parameters(request, parameters)
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

    async def backlog(self, request: web.Request) -> web.StreamResponse:
        """Return who waits."""
        src = self._sources
        return await self._list(request, views.waiting(src.ledger, src.clock(), src.said))

    async def ledger(self, request: web.Request) -> web.StreamResponse:
        """Return who holds what, on one node or on all."""
        ledger = self._sources.ledger
        name = request.query.get("node")
        if name is None:
            return await self._list(request, views.nodes(ledger))
        info = ledger.inventory.row(name)
        if info is None:
            raise Mistake(f"There is no node {name}.", status=http.HTTPStatus.NOT_FOUND)
        return written(request, views.node(ledger, info))

    async def explain(self, request: web.Request) -> web.StreamResponse:
        """Report why a pod does not fit, or where it would."""
        ledger, title = self._sources.ledger, request.query.get("pod", "")
        if not all(title.partition("/")):
            raise Mistake("Say which pod: /debug/explain?pod=NAMESPACE/NAME.")
        form = form_of(request, usual="text")
        candidate = views.find(ledger, title)
        if candidate is None:
            raise Mistake(views.whereabouts(ledger, title), status=http.HTTPStatus.NOT_FOUND)
        async with self._explaining:
            began = self._sources.clock()
            told = views.why(ledger, candidate, self._sources.clock)
            # However many ask, half of the time is for others.
            await asyncio.sleep(self._sources.clock() - began)
            # Of many nodes it takes as long again to write down what they say.
            gated = candidate.uid in ledger.gated
            return await asyncio.to_thread(explained, told, candidate, request, form, gated=gated)

    async def decisions(self, request: web.Request) -> web.StreamResponse:
        """Return what was decided last."""
        return await self._list(request, views.decided(self._sources.records))

    async def snapshot(self, request: web.Request) -> web.StreamResponse:
        """Return the cluster as manifests, as the simulation reads them."""
        form = form_of(request)
        async with self._places:
            try:
                async with self._turn, contextlib.aclosing(self._sources.snapshot()) as found:
                    pieces = await long_answers.pieces(found, form)
            except errors.ClientError as error:
                raise Mistake(
                    f"The cluster cannot be listed: {error}.", status=http.HTTPStatus.SERVICE_UNAVAILABLE
                ) from error
            return await long_answers.send(request, long_answers.kubernetes_list(pieces, form), form)

    async def _list(self, request: web.Request, found: Iterable[views.Fields]) -> web.StreamResponse:
        """Answer with a list."""
        form = form_of(request)
        async with self._places:
            async with self._turn:
                pieces = await long_answers.pieces(long_answers.some_at_a_time(found), form)
            return await long_answers.send(request, long_answers.listed(pieces, form), form)


def explained(
    told: views.Why, candidate: queued_pods.Candidate, request: web.Request, form: str, *, gated: bool
) -> web.Response:
    """Write down why a pod does not fit, or where it would, in the form that was asked for."""
    if form == "text":
        return web.Response(text=views.why_in_text(told, candidate, gated=gated))
    return written(request, views.why_in_fields(told, candidate, gated=gated))


def check_parameters(request: web.Request, known: Sequence[str]) -> None:
    """Refuse a parameter that the page does not have, for a misspelt one would go unnoticed."""
    for name in request.query:
        if name not in known:
            what = "parameters are" if len(known) > 1 else "only parameter is"
            raise Mistake(f"There is no parameter {name}: the {what} {' and '.join(known)}.")


def form_of(request: web.Request, *, usual: str = "json") -> str:
    """Read in which form an answer is wanted."""
    form = request.query.get("format", usual)
    possible = [one for one in long_answers.FORMATS if one in {usual, "json", "yaml"}]
    if form not in possible:
        raise Mistake(f"There is no format {form}: it is one of {', '.join(possible)}.")
    return form


def written(request: web.Request, values: Any) -> web.Response:
    """Write values that are few in the form that was asked for."""
    form = form_of(request)
    body = long_answers.encoded(values, form)
    return web.Response(body=body, content_type=long_answers.FORMATS[form], charset="utf-8")
