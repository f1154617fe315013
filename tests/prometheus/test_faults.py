"""What keeps loads from coming from Prometheus: one sentence for each fault, and nothing else changes.

The server speaks HTTP and answers as a test says, for a real Prometheus shows no such faults.
"""

import asyncio
import logging
from typing import Any, Final

import pytest

from berth_crds import card_load
from berth_operator.prometheus import client, queries
from prometheus import polling
from prometheus.polling import INTERVAL_SECONDS, NODE, Polling
from support import stub

ERROR: Final = {"status": "error", "errorType": "execution", "error": "too many samples\nin one query"}
MATRIX: Final = {"status": "success", "data": {"resultType": "matrix", "result": []}}
NO_ANSWER: Final = "what it answers is not what Prometheus' API answers: "
TOO_MANY: Final = "it refuses the query: execution: too many samples in one query"
EMPTY: Final = {"status": "success", "data": {"resultType": "vector", "result": []}}
FAULTS: Final = {
    "nobody answers": (stub.reset(), "it cannot be asked: Server disconnected"),
    "no token": (
        stub.raw(b"", code=401),
        "it wants credentials (401), and --prometheus-token-file is not set",
    ),
    "a redirect": (
        stub.raw(b"", code=302, headers={"Location": "http://169.254.169.254/?state=secret"}),
        (
            "it redirects to 'http://169.254.169.254/' (302), and redirects are not followed: "
            "name the address behind it"
        ),
    ),
    "another server": (
        stub.raw(b"<html>", code=404),
        "it serves no /api/v1/query (404): is the path before that missing?",
    ),
    "a proxy": (stub.raw(b"<html>bad gateway</html>", code=502), "it answers with 502"),
    "no JSON": (stub.raw(b"<html>"), NO_ANSWER + "JSON is malformed: invalid character (byte 0)"),
    "other JSON": (stub.thing({"kind": "Status"}), NO_ANSWER + "Object missing required field `status`"),
    "a refused query": (stub.thing(ERROR, code=422), TOO_MANY),
    "an error that looks like success": (stub.thing(ERROR), TOO_MANY),
    "a matrix": (stub.thing(MATRIX), "its answer has the result type 'matrix' in place of vector"),
    "an encoded answer": (
        stub.raw(b"x", headers={"Content-Encoding": "br"}),
        "its answer is encoded (br), though nobody asked for that",
    ),
    "nothing scraped": (
        stub.thing(EMPTY),
        (
            "it has no sample of DCGM_FI_DEV_GPU_UTIL or the other metrics: see that it scrapes the "
            "exporter, and spec.load.prometheus.metrics"
        ),
    ),
}


@pytest.mark.parametrize(("answer", "why"), FAULTS.values(), ids=FAULTS.keys())
async def test_a_fault_is_one_sentence_however_often_it_comes(
    cards: Polling, caplog: pytest.LogCaptureFixture, answer: stub.Answer, why: str
) -> None:
    """It is counted each time, shown as long as it lasts, and logged when it comes and when it is over."""
    caplog.set_level(logging.INFO, polling.LOG.name)
    cards.prometheus.scrape_node(NODE, 95)
    cards.server.on("GET", queries.PATH, answer)
    for _ in range(3):
        await cards.step(INTERVAL_SECONDS)

    at = cards.server.link.server
    fault = f"no loads of cards from Prometheus at {at}: {why}"
    assert cards.poller.fault == fault
    assert cards.failures() == 3
    cards.prometheus.series.clear()
    cards.prometheus.scrape_node(NODE, 95)
    cards.server.on("GET", queries.PATH, cards.prometheus.answer)
    await cards.step(INTERVAL_SECONDS)

    assert [record.getMessage() for record in caplog.records] == [
        f"{fault}. What was measured counts until it is too old; then promises do",
        f"the loads of cards come from Prometheus at {at}",
    ]
    assert (cards.poller.fault, cards.failures(), cards.utilization(cards=1)) == ("", 3, [95])


async def test_a_fault_that_changes_with_each_look_is_not_logged_each_time(
    cards: Polling, caplog: pytest.LogCaptureFixture
) -> None:
    """But after a while, for it may be another one by then; what is shown is always the last."""
    caplog.set_level(logging.INFO, polling.LOG.name)
    codes = range(500, 580)
    cards.server.on("GET", queries.PATH, *(stub.raw(b"", code=code) for code in codes))
    for _ in codes:
        await cards.step(INTERVAL_SECONDS)

    logged = [record.getMessage().partition(". ")[0].rpartition(": ")[2] for record in caplog.records]
    assert logged == ["it answers with 500", "it answers with 540"]
    assert cards.poller.fault.endswith("it answers with 579")


async def test_one_query_that_is_refused_costs_only_its_metric(cards: Polling) -> None:
    """The others are asked all the same, and count."""
    cards.prometheus.scrape_node(NODE, 95)
    cards.prometheus.scrape_node(NODE, 64, name="DCGM_FI_DEV_FB_FREE")

    async def answer(request: Any) -> Any:
        refused = "ENC_UTIL" in request.query["query"]
        return await (stub.thing(ERROR, code=422) if refused else cards.prometheus.answer)(request)

    cards.server.on("GET", queries.PATH, answer)
    await cards.step()

    assert cards.ledger.loads.of(NODE)[0] == card_load.CardLoad(utilization=95, free_memory=64 << 20)
    assert cards.poller.fault.endswith("it refuses the query: execution: too many samples in one query")


async def test_an_answer_without_end_is_not_read_to_the_end(
    cards: Polling, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes no more memory than the limit."""
    monkeypatch.setattr(client, "LONGEST_ANSWER", 1 << 20)
    cards.server.on("GET", queries.PATH, stub.raw(b" " * ((1 << 20) + 1)))

    await cards.step()

    assert cards.poller.fault.endswith("its answer has more than 1 MiB")


async def test_a_server_that_does_not_answer_is_not_waited_for(
    cards: Polling, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look ends after a few seconds, with one query."""
    monkeypatch.setattr(client, "DEADLINE_SECONDS", 0.2)
    cards.server.on("GET", queries.PATH, stub.later(asyncio.Event(), stub.raw(b"")))

    await cards.step()

    assert cards.poller.fault.endswith("no whole answer came within 0.2 s")
    assert len(cards.server.requests) == 1


async def test_a_server_that_is_not_there_is_named(cards: Polling) -> None:
    """With what the system says of it."""
    cards.use(url="http://127.0.0.1:1")

    await cards.step()

    assert cards.poller.fault == (
        "no loads of cards from Prometheus at http://127.0.0.1:1: it cannot be reached: Connection refused"
    )
