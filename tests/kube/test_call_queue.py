"""Calls from another thread are made in the loop, in order, and never all at once."""

import asyncio
import functools
import logging
import threading

import pytest

from berth_operator.kube import call_queue
from kube import eventually


async def test_calls_of_another_thread_are_made_in_order() -> None:
    """All come, in the thread of the loop."""
    made: list[tuple[int, int]] = []
    queue = call_queue.CallQueue(asyncio.get_running_loop())

    def record(number: int) -> None:
        made.append((number, threading.get_ident()))

    def send() -> None:
        for number in range(1000):
            queue.send(functools.partial(record, number))

    await asyncio.to_thread(send)
    await eventually.holds(lambda: len(made) == 1000, "all calls")

    assert made == [(number, threading.get_ident()) for number in range(1000)]


async def test_the_loop_has_other_turns_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits already is applied a few at a time."""
    monkeypatch.setattr(call_queue, "MOST_AT_ONCE", 10)
    made: list[int] = []
    queue = call_queue.CallQueue(asyncio.get_running_loop())

    for number in range(25):
        queue.send(functools.partial(made.append, number))
    seen = []
    while len(made) < 25:
        await asyncio.sleep(0)
        seen.append(len(made))

    assert max(later - earlier for earlier, later in zip([0, *seen], seen, strict=False)) == 10


def failing() -> None:
    """Fail."""
    raise ValueError("a fault of ours")


async def test_a_call_that_fails_keeps_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the next one is made."""
    made: list[str] = []
    queue = call_queue.CallQueue(asyncio.get_running_loop())

    queue.send(failing)
    queue.send(lambda: made.append("next"))
    await eventually.holds(lambda: made, "the next call")

    (record,) = caplog.record_tuples
    assert record[1:] == (logging.ERROR, "an event of Kopf cannot be applied")


async def test_a_loop_that_is_closed() -> None:
    """A thread that goes on after the end of the other one fails at nothing."""
    loop = asyncio.new_event_loop()
    loop.close()

    call_queue.CallQueue(loop).send(lambda: None)
