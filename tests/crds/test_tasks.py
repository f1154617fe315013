"""Work that fails is told of and begins again, and ends with whoever runs it."""

import asyncio

import pytest

from berth_crds import tasks


async def test_work_that_fails_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a pause, as often as it fails; its errors are told in their order."""
    monkeypatch.setattr(tasks, "PAUSE_SECONDS", (0.0,))
    errors = [ValueError("first"), KeyError("second")]
    told = list[Exception]()
    runs = asyncio.Event()

    async def work() -> None:
        if len(told) < len(errors):
            raise errors[len(told)]
        runs.set()
        await asyncio.Event().wait()

    async with tasks.running(tasks.keep_running(work, told.append)) as (running,):
        await asyncio.wait_for(runs.wait(), 10)
        assert told == errors
        assert not running.done()
    assert running.cancelled()


async def test_the_pauses_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the last one, so that a fault that stays costs little."""
    paused = list[float]()

    async def sleep(seconds: float) -> None:
        paused.append(seconds)
        if len(paused) > len(tasks.PAUSE_SECONDS):
            raise asyncio.CancelledError

    async def work() -> None:
        raise ValueError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await tasks.keep_running(work, lambda _: None)
    assert paused == [*tasks.PAUSE_SECONDS, tasks.PAUSE_SECONDS[-1]]
