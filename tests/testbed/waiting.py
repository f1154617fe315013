"""Waits for conditions, never for time.

A test that sleeps is either slow or flaky. Here every wait names what it waits for, ends as soon as the
condition holds, and when its deadline passes says what was missing. `until` serves plain code, `eventually`
serves coroutines, where the condition may be one as well.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")

SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 0.5
OF_THE_WAIT = 0.1  # A pause is at most so much of the wait before it: few questions, and hardly any delay.


class TimedOut(AssertionError):
    """A condition did not become true before its deadline."""


def until(
    condition: Callable[[], T | None],
    *,
    what: str,
    seconds: float = 15.0,
    instead: Callable[[], object] | None = None,
) -> T:
    """Call `condition` until it returns something true, and return that; `instead` tells what was there."""
    start = time.monotonic()
    while True:
        if result := condition():
            return result
        if (waited := time.monotonic() - start) > seconds:
            raise TimedOut(_sentence(what, seconds, instead))
        time.sleep(_pause(waited))


@overload
async def eventually(
    condition: Callable[[], Awaitable[T | None]],
    *,
    what: str,
    seconds: float = 15.0,
    instead: Callable[[], object] | None = None,
) -> T: ...


@overload
async def eventually(
    condition: Callable[[], T | None],
    *,
    what: str,
    seconds: float = 15.0,
    instead: Callable[[], object] | None = None,
) -> T: ...


async def eventually(
    condition: Callable[[], object],
    *,
    what: str,
    seconds: float = 15.0,
    instead: Callable[[], object] | None = None,
) -> object:
    """Ask `condition` until the answer is something true, and return that; `instead` tells what was there."""
    start = time.monotonic()
    while True:
        result = condition()
        if inspect.isawaitable(result):
            result = await result
        if result:
            return result
        if (waited := time.monotonic() - start) > seconds:
            raise TimedOut(_sentence(what, seconds, instead))
        await asyncio.sleep(_pause(waited))


def _pause(waited: float) -> float:
    return min(LONGEST_PAUSE, max(SHORTEST_PAUSE, OF_THE_WAIT * waited))


def _sentence(what: str, seconds: float, instead: Callable[[], object] | None) -> str:
    return f"waited {seconds:g} s in vain for {what}" + (f"; there was {instead()}" if instead else "")
