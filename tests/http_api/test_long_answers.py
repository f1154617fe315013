"""Answers of many megabytes take the memory of a few, however many ask and however slow they read."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from aiohttp import web

from berth_operator.http_api import long_answers, pages
from http_api import served_pages


async def test_long_answers_are_made_one_after_the_other() -> None:
    """However many ask, the memory that answers take while they are made is that of one."""
    served, making, most = served_pages.serve(), 0, 0

    async def slow() -> AsyncGenerator[list[dict[str, Any]]]:
        nonlocal making, most
        making += 1
        most = max(most, making)
        await asyncio.sleep(0.02)
        yield [{"kind": "Node"}]
        making -= 1

    served.snapshot = slow  # type: ignore[method-assign]
    async with served.client() as client:
        answers = await asyncio.gather(*(client.get("/debug/snapshot") for _ in range(5)))

    assert [answer.status for answer in answers] == [200] * 5
    assert most == 1


async def test_few_long_answers_wait_to_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow clients read, the memory of their answers is that of a few."""
    served, kept, most = served_pages.serve(), 0, 0
    full, read_now = asyncio.Event(), asyncio.Event()
    send = long_answers.send

    async def slow(*given: Any) -> web.StreamResponse:
        nonlocal kept, most
        kept += 1
        most = max(most, kept)
        if kept == pages.LONG_ANSWERS:
            full.set()
        await read_now.wait()
        kept -= 1
        return await send(*given)

    monkeypatch.setattr(long_answers, "send", slow)
    async with served.client() as client, asyncio.timeout(20):
        asked = [asyncio.create_task(client.get("/debug/backlog")) for _ in range(3 * pages.LONG_ANSWERS)]
        await full.wait()
        read_now.set()
        answers = [await one for one in asked]

    assert {answer.status for answer in answers} == {200}
    assert most == pages.LONG_ANSWERS
