"""The pages of an operator in memory: a ledger, a reviewer of tokens, and a client that asks."""

import contextlib
import dataclasses
import datetime as dt
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from aiohttp import test_utils, web

from berth_crds.client import errors
from berth_operator import metrics
from berth_operator.engine import bind_sender, decision_records, decision_reporter, loop
from berth_operator.engine.ledger import Ledger
from berth_operator.http_api import auth, pages, server
from support import clock, ledgers, writers

NOON = dt.datetime(2025, 1, 1, 12, tzinfo=dt.UTC)


class Reviewer:
    """Knows some tokens, and what each may get."""

    def __init__(self, **rights: set[str]) -> None:
        self.rights = rights
        self.asked: list[tuple[str, str]] = []
        self.trouble: errors.ClientError | None = None

    async def review(self, token: str, path: str) -> tuple[str, bool] | None:
        """Return whose token it is and what they may."""
        self.asked.append((token, path))
        if self.trouble is not None:
            raise self.trouble
        found = self.rights.get(token)
        return None if found is None else (f"user-{token}", path in found)


@dataclasses.dataclass
class ServedPages:
    """What an operator has behind its pages, and a client of them."""

    ledger: Ledger
    now: clock.Clock = dataclasses.field(default_factory=clock.Clock)
    reviewer: Reviewer = dataclasses.field(default_factory=Reviewer)
    measured: metrics.Metrics = dataclasses.field(default_factory=metrics.Metrics)
    local: bool = True
    ready: bool = True
    metrics_guarded: bool = False
    listed: list[dict[str, Any]] | errors.ClientError = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the loop, which decides only when it is called."""
        self.records = decision_records.DecisionRecords(self.measured.scheduling, wall=lambda: NOON)
        writer = writers.Writer(self.now)
        self.loop = loop.Loop(
            self.ledger,
            writer,
            decision_reporter.DecisionReporter(
                self.ledger, writers.PodStatusWriter(), clock=self.now, cpu_clock=self.now
            ),
            clock=self.now,
            bind_limits=bind_sender.Limits(),
            records=self.records,
        )

    def application(self) -> web.Application:
        """Return all that is served."""
        guard = auth.Guard(self.reviewer.review, clock=self.now, local=self.local)
        shown = pages.Pages(
            ledger=self.ledger,
            records=self.records,
            clock=self.now,
            ready=lambda: self.ready,
            reason_of=self.loop.reporter.reasons.last_message,
            snapshot=self.snapshot,
        )
        measured = server.metrics_route(self.measured, guard if self.metrics_guarded else None)
        more = [measured, *shown.routes(guard)]
        application = web.Application()
        application.add_routes(server.all_routes(lambda: self.ready, lambda: "leading", more))
        return application

    async def snapshot(self) -> AsyncGenerator[list[dict[str, Any]]]:
        """List the cluster, or begin to and fail."""
        if isinstance(self.listed, errors.ClientError):
            yield [{"kind": "Node"}]
            raise self.listed
        yield self.listed

    @contextlib.asynccontextmanager
    async def client(
        self, token: str = ""
    ) -> AsyncIterator[test_utils.TestClient[web.Request, web.Application]]:
        """Serve, and lend a client that shows a token."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        served = test_utils.TestServer(self.application())
        async with test_utils.TestClient(served, headers=headers) as client:
            yield client

    async def ask(self, path: str) -> tuple[int, str]:
        """Ask once, and return the status and the text."""
        async with self.client() as client:
            answer = await client.get(path)
            return answer.status, await answer.text()

    async def read(self, path: str) -> Any:
        """Read a page as JSON."""
        status, text = await self.ask(path)
        assert status == 200, text
        return json.loads(text)


def serve(nodes: int = 1, cards: int = 2, **fields: Any) -> ServedPages:
    """Return the pages of a ledger with some nodes."""
    return ServedPages(ledgers.with_nodes(nodes, cards), **fields)
