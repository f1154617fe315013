"""The keeper's log where the API refuses it; what it does where the API obliges is tried on a real server."""

import asyncio
import datetime as dt
import logging
from typing import Any

import pytest

from berth_crds.client import errors
from berth_operator.admission import certificate_keeper
from testbed import waiting


class Refusing:
    """A session in which each read is refused with the next of some errors, and the last one stays."""

    def __init__(self, *refusals: Exception) -> None:
        self.refusals = list(refusals)
        self.reads = 0

    async def get(self, *_: Any, **__: Any) -> Any:
        """Refuse."""
        self.reads += 1
        raise self.refusals.pop(0) if len(self.refusals) > 1 else self.refusals[0]


async def test_what_is_in_the_way_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And again when it is something else; nothing of it ends the operator."""
    monkeypatch.setattr(certificate_keeper, "SETTLE_SECONDS", 0.0)
    missing = errors.NotFound(404, 'secrets "berth-webhook" not found')
    session: Any = Refusing(missing, missing, missing, errors.Unreachable("no route"))
    keeper = certificate_keeper.CertificateKeeper(
        session, lambda _: None, wall=lambda: dt.datetime.now(dt.UTC)
    )

    with caplog.at_level(logging.INFO):
        running = asyncio.create_task(keeper.run())
        await waiting.eventually(lambda: session.reads > 6, what="some looks")
        running.cancel()

    assert [one.getMessage() for one in caplog.records] == [
        'the certificate of the webhook cannot be kept: 404: secrets "berth-webhook" not found',
        "the certificate of the webhook cannot be kept: no route",
    ]
