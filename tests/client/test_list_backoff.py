"""The pauses before lists: they grow until a watch has been useful, and outlast those who cannot wait."""

import asyncio
import random
from collections.abc import Callable

import pytest

from berth_crds.client import errors, list_backoff
from support import timeless

AWAY = errors.Unavailable(503, "starting")
BUSY = errors.Throttled(429, "too many requests", retry_after=30.0)


@pytest.fixture
def backoff(monkeypatch: pytest.MonkeyPatch) -> list_backoff.ListBackoff:
    """Return pauses of exactly 1, 2 and 4 seconds."""
    monkeypatch.setattr(list_backoff, "BACKOFF_SECONDS", (1.0, 2.0, 4.0))
    monkeypatch.setattr(random, "uniform", lambda *_: 1.0)
    return list_backoff.ListBackoff("pods")


async def seconds_of_wait(backoff: list_backoff.ListBackoff) -> float:
    """Return for how long the next list is to wait."""
    started = timeless.clock()()
    await backoff.wait()
    return timeless.clock()() - started


@timeless.scenario
async def test_pauses_grow_until_a_watch_is_useful(backoff: list_backoff.ListBackoff) -> None:
    """The list that others may wait for comes at once, each after that later than the one before."""
    found = []
    for useful in (False, False, False, False, False, True, False):
        found.append(await seconds_of_wait(backoff))
        backoff.listed()
        if useful:
            backoff.watched()

    assert found == [0.0, 0.0, 1.0, 2.0, 4.0, 4.0, 0.0]


@timeless.scenario
async def test_pauses_grow_while_lists_fail(
    backoff: list_backoff.ListBackoff, caplog: pytest.LogCaptureFixture
) -> None:
    """They begin anew after a list that was read, and a long failure is logged now and then."""
    found = []
    for _ in range(10):
        backoff.failed(AWAY)
        found.append(await seconds_of_wait(backoff))
    backoff.listed()
    backoff.failed(AWAY)

    assert found == [1.0, 2.0, *[4.0] * 8]
    assert await seconds_of_wait(backoff) == 1.0
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "pods cannot be listed (attempt 1)",
        "pods cannot be listed (attempt 10)",
        "pods cannot be listed (attempt 1)",
    ]


@timeless.scenario
async def test_a_pause_that_is_interrupted_goes_on(backoff: list_backoff.ListBackoff) -> None:
    """Who is cancelled while it waits does not list sooner for that."""
    backoff.failed(BUSY)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(backoff.wait(), 10.0)

    assert await seconds_of_wait(backoff) == 20.0


@pytest.mark.parametrize(
    ("shortened", "after_useless_watches", "after_a_failure"),
    [
        pytest.param(list_backoff.ListBackoff.wanted, 0.0, 1.0, id="somebody waits for a list"),
        pytest.param(list_backoff.ListBackoff.restored, 2.0, 0.0, id="the server is back"),
    ],
)
def test_who_wants_a_list_shortens_what_is_ours(
    backoff: list_backoff.ListBackoff,
    shortened: Callable[[list_backoff.ListBackoff], None],
    after_useless_watches: float,
    after_a_failure: float,
) -> None:
    """Each only the pause whose reason does not count for it, and never one that the server asked for."""

    @timeless.scenario
    async def run() -> None:
        backoff.failed(AWAY)
        shortened(backoff)
        assert await seconds_of_wait(backoff) == after_a_failure

        for _ in range(3):
            backoff.listed()
        shortened(backoff)
        assert await seconds_of_wait(backoff) == after_useless_watches

        backoff.failed(BUSY)
        shortened(backoff)
        assert await seconds_of_wait(backoff) == 30.0

    run()


@timeless.scenario
async def test_watches_wait_as_long_as_the_server_asks(backoff: list_backoff.ListBackoff) -> None:
    """A refused watch is opened then, or after our own pause where that is longer; no list comes before."""
    backoff.refused(BUSY)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(backoff.wait_to_watch(3), 10.0)
    assert await seconds_of_wait(backoff) == 20.0

    started = timeless.clock()()
    backoff.refused(AWAY)
    await backoff.wait_to_watch(3)

    assert timeless.clock()() - started == 4.0
