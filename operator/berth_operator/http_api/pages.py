"""The pages under /debug: read-only, for people and programs that examine an incident.

Each page takes its values from `views` and encodes them as JSON or YAML, or as text where that is
more readable. An invalid request is answered with one sentence. For any number of clients, one
long answer is made after the other (`long_answers`), so that pods are bound meanwhile, and few
are held at a time, so that memory is limited.
"""

import asyncio
import contextlib
import dataclasses
import functools
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
DEFAULT_PARAMETERS: Final = ("format",)
LONG_ANSWERS: Final = 4  # Made and not yet read, of half a cluster each.

Page = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PageError(Exception):
    """A request that cannot be answered, with a sentence for the client."""

    def __init__(self, sentence: str, *, status: http.HTTPStatus = http.HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(text.line(sentence))
        self.status = status


@dataclasses.dataclass(frozen=True, slots=True)
class Pages:
    """The pages about the ledger, and what they read.

    `snapshot` lists the cluster anew, some objects at a time.
    """

    ledger: Ledger
    records: decision_records.DecisionRecords
    clock: Callable[[], float]
    ready: Callable[[], bool]
    reason_of: views.ReasonOf
    snapshot: Callable[[], AsyncGenerator[list[dict[str, Any]]]]
    _encoding: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)
    _answers_held: asyncio.Semaphore = dataclasses.field(
        default_factory=functools.partial(asyncio.Semaphore, LONG_ANSWERS)
    )
    _explaining: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)

    def routes(self, guard: auth.Guard) -> list[web.RouteDef]:
        """Return the routes of all pages, each behind the guard, and of their public list."""
        found: dict[str, Page] = {
            "backlog": self.show_backlog,
            "ledger": self.show_ledger,
            "explain": self.explain,
            "decisions": self.show_decisions,
            "snapshot": self.show_snapshot,
        }
        guarded = [guard.protect(f"/debug/{name}", self._handler(name, page)) for name, page in found.items()]
        return [*guarded, *(http_server.listing(path, ABOUT) for path in ("/debug", "/debug/"))]

    def _handler(self, name: str, page: Page) -> Page:
        """Return the handler of a page, which answers a PageError with its sentence."""

        async def answer(request: web.Request) -> web.StreamResponse:
            try:
                check_parameters(request, PARAMETERS.get(name, DEFAULT_PARAMETERS))
                self._check_ready()
                return await page(request)
            except PageError as error:
                return web.Response(text=f"{error}\n", status=error.status)

        return answer

    def _check_ready(self) -> None:
        if not self.ready():
            raise PageError(
                "The picture of the cluster is not complete yet.", status=http.HTTPStatus.SERVICE_UNAVAILABLE
            )

    async def show_backlog(self, request: web.Request) -> web.StreamResponse:
        """Return the pods that are not placed."""
        return await self._list(request, views.unplaced_pods(self.ledger, self.clock(), self.reason_of))

    async def show_ledger(self, request: web.Request) -> web.StreamResponse:
        """Return the devices and their holders, on one node or on all."""
        ledger = self.ledger
        if (name := request.query.get("node")) is None:
            return await self._list(request, views.nodes(ledger))
        if (info := ledger.inventory.node(name)) is None:
            raise PageError(f"There is no node {name}.", status=http.HTTPStatus.NOT_FOUND)
        return response(request, views.node(ledger, info))

    async def explain(self, request: web.Request) -> web.StreamResponse:
        """Report why a pod does not fit, or where it would."""
        ledger, title = self.ledger, request.query.get("pod", "")
        if not all(title.partition("/")):
            raise PageError("Say which pod: /debug/explain?pod=NAMESPACE/NAME.")
        form = requested_format(request, default="text")
        if (pod_info := views.find(ledger, title)) is None:
            raise PageError(views.whereabouts(ledger, title), status=http.HTTPStatus.NOT_FOUND)
        async with self._explaining:
            began = self.clock()
            explanation = views.explanation(ledger, pod_info, self.clock)
            # For any number of clients, half of the time is for other tasks.
            await asyncio.sleep(self.clock() - began)
            # Of many nodes, encoding takes as long again.
            return await asyncio.to_thread(
                explanation_response,
                explanation,
                pod_info,
                request,
                form,
                gated=pod_info.uid in ledger.gated,
            )

    async def show_decisions(self, request: web.Request) -> web.StreamResponse:
        """Return the last decisions."""
        return await self._list(request, views.decisions_made(self.records))

    async def show_snapshot(self, request: web.Request) -> web.StreamResponse:
        """Return the cluster as manifests, as the simulation reads them."""
        form = requested_format(request)
        async with self._answers_held:
            try:
                async with self._encoding, contextlib.aclosing(self.snapshot()) as found:
                    pieces = await long_answers.pieces(found, form)
            except errors.ClientError as error:
                raise PageError(
                    f"The cluster cannot be listed: {error}.", status=http.HTTPStatus.SERVICE_UNAVAILABLE
                ) from error
            return await long_answers.send(request, long_answers.kubernetes_list(pieces, form), form)

    async def _list(self, request: web.Request, found: Iterable[views.Fields]) -> web.StreamResponse:
        """Return a list as a long answer."""
        form = requested_format(request)
        async with self._answers_held:
            async with self._encoding:
                pieces = await long_answers.pieces(long_answers.in_portions(found), form)
            return await long_answers.send(request, long_answers.listed(pieces, form), form)


def explanation_response(
    explanation: views.Answer,
    pod_info: queued_pods.PodInfo,
    request: web.Request,
    form: str,
    *,
    gated: bool,
) -> web.Response:
    """Return an explanation in the requested format."""
    if form == "text":
        return web.Response(text=views.explanation_text(explanation, pod_info, gated=gated))
    return response(request, views.explanation_fields(explanation, pod_info, gated=gated))


def check_parameters(request: web.Request, known: Sequence[str]) -> None:
    """Raise PageError for an unknown parameter, for a misspelt one would go unnoticed."""
    for name in request.query:
        if name not in known:
            what = "parameters are" if len(known) > 1 else "only parameter is"
            raise PageError(f"There is no parameter {name}: the {what} {' and '.join(known)}.")


def requested_format(request: web.Request, *, default: str = "json") -> str:
    """Return the requested format."""
    form = request.query.get("format", default)
    possible = [one for one in long_answers.FORMATS if one in {default, "json", "yaml"}]
    if form not in possible:
        raise PageError(f"There is no format {form}: it is one of {', '.join(possible)}.")
    return form


def response(request: web.Request, values: Any) -> web.Response:
    """Return a short answer in the requested format."""
    form = requested_format(request)
    return web.Response(
        body=long_answers.encoded(values, form), content_type=long_answers.FORMATS[form], charset="utf-8"
    )
