"""Answers of many megabytes take the memory of a few, however many ask and however slowly they read."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from aiohttp import web

from berth_operator.http_api import long_answers, pages
from http_api import desks


async def test_long_answers_are_made_one_after_the_other() -> None:
    """However many ask, the memory that answers take while they are made is that of one."""
    desk, making, most = desks.desk(), 0, 0

    async def slowly() -> AsyncGenerator[list[dict[str, Any]]]:
        nonlocal making, most
        making += 1
        most = max(most, making)
        await asyncio.sleep(0.02)
        yield [{"kind": "Node"}]
        making -= 1

    desk.snapshot = slowly  # type: ignore[method-assign]
    async with desk.client() as client:
        answers = await asyncio.gather(*(client.get("/debug/snapshot") for _ in range(5)))

    assert [answer.status for answer in answers] == [200] * 5
    assert most == 1


async def test_few_long_answers_wait_to_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slowly clients read, the memory of their answers is that of a few."""
    desk, kept, most, full, read_now = desks.desk(), 0, 0, asyncio.Event(), asyncio.Event()
    send = long_answers.send

    async def slowly(*given: Any) -> web.StreamResponse:
        nonlocal kept, most
        kept += 1
        most = max(most, kept)
        if kept == pages.LONG_ANSWERS:
            full.set()
        await read_now.wait()
        kept -= 1
        return await send(*given)

    monkeypatch.setattr(long_answers, "send", slowly)
    async with desk.client() as client, asyncio.timeout(20):
        asked = [asyncio.create_task(client.get("/debug/backlog")) for _ in range(3 * pages.LONG_ANSWERS)]
        await full.wait()
        read_now.set()
        answers = [await one for one in asked]

    assert {answer.status for answer in answers} == {200}
    assert most == pages.LONG_ANSWERS
