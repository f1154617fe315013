"""Time without waiting: an event loop that jumps to the next moment when nothing is left to do.

    @timeless.scenario
    async def test_something() -> None:
        clock = timeless.clock()

Sleeping costs nothing, moments are exact, and the order of what happens is the same on
every machine. A scenario in which nothing can ever happen again fails at once instead of
hanging.
"""

import asyncio
import contextlib
import functools
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final, ParamSpec

P = ParamSpec("P")
TURNS: Final = 5


class Stuck(Exception):
    """Everybody waits, and nobody for time to pass."""


class _Jumping(selectors.DefaultSelector):
    """A selector that lets time pass instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Look once; where nothing has come, jump by as much as would have been waited."""
        if timeout is None:
            raise Stuck("nothing can ever happen again")
        found = super().select(0)
        if not found:
            self.now += timeout
        return found


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose time is its own."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Tell the time, in seconds since the loop was made."""
        return self._jumping.now

    def stall(self, seconds: float) -> None:
        """Let time pass though there is something to do."""
        self._jumping.now += seconds


def clock() -> Callable[[], float]:
    """Return the clock of the running loop."""
    return asyncio.get_running_loop().time


def scenario(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Have a test run in a loop of this kind."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(test(*args, **kwargs))

    return run


@contextlib.asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Have something run beside the block; it must not have failed, and ends with it."""
    task = asyncio.create_task(work)
    try:
        yield task
        assert not task.done(), "it ended by itself"
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(holds: Callable[[], object], *, most: float = 100.0, every: float = 0.001) -> None:
    """Let time pass until something holds, which is asked `every` so often; fail when it takes too long."""
    now = clock()
    latest = now() + most
    while not holds():
        assert now() < latest, "it never came to be"
        await asyncio.sleep(every)


async def at(moment: float) -> None:
    """Let time pass until this moment."""
    await asyncio.sleep(max(0.0, moment - clock()()))


def stall(seconds: float) -> None:
    """Let time pass in the midst of a turn, as it does for a process that gets no processor."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    loop.stall(seconds)


async def passing(seconds: float) -> None:
    """Let time pass, and whoever is due then have some turns."""
    await asyncio.sleep(seconds)
    for _ in range(TURNS):
        await asyncio.sleep(0)
