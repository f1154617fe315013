"""Turns come evenly and no faster than allowed, and a rest stops everybody."""

import asyncio

import pytest

from berth_operator.engine import rate_limiter
from support import timeless


async def moments(rhythm: rate_limiter.RateLimiter, count: int) -> list[float]:
    """Have so many wait for their turn at once, and tell when each had it."""
    now = timeless.clock()

    async def one() -> float:
        await rhythm.acquire()
        return round(now(), 3)

    return sorted(await asyncio.gather(*(one() for _ in range(count))))


@timeless.scenario
async def test_turns_are_even() -> None:
    """The first goes at once and each other after its share of a second, however many wait."""
    assert await moments(rate_limiter.RateLimiter(timeless.clock(), rate_limiter.constant(4)), 5) == [
        0,
        0.25,
        0.5,
        0.75,
        1.0,
    ]


@timeless.scenario
async def test_a_pause_earns_nothing() -> None:
    """Whoever comes after a quiet time does not get what was not used before, all at once."""
    rhythm = rate_limiter.RateLimiter(timeless.clock(), rate_limiter.constant(4))
    await rhythm.acquire()
    await timeless.at(10.0)

    assert await moments(rhythm, 3) == [10.0, 10.25, 10.5]


@timeless.scenario
async def test_no_limit() -> None:
    """Without a limit all go at once."""
    assert await moments(rate_limiter.unlimited(), 100) == [0.0] * 100


@timeless.scenario
async def test_rest_stops_who_waits_and_who_comes() -> None:
    """During a rest nobody goes, and a shorter one does not shorten it."""
    rhythm = rate_limiter.RateLimiter(timeless.clock(), rate_limiter.constant(rate_limiter.UNLIMITED))
    rhythm.back_off(3.0)
    rhythm.back_off(1.0)

    assert await moments(rhythm, 2) == [3.0, 3.0]
    assert await moments(rhythm, 1) == [3.0]


@timeless.scenario
async def test_rest_is_lengthened_while_somebody_waits() -> None:
    """Who waits out a rest waits on when it is lengthened meanwhile."""
    rhythm = rate_limiter.RateLimiter(timeless.clock(), rate_limiter.constant(rate_limiter.UNLIMITED))
    rhythm.back_off(1.0)
    asyncio.get_running_loop().call_later(0.5, rhythm.back_off, 2.0)

    assert await moments(rhythm, 1) == [2.5]


@timeless.scenario
async def test_nobody_rests_for_ever() -> None:
    """A server that asks for a day is asked again after a minute."""
    rhythm = rate_limiter.RateLimiter(timeless.clock(), rate_limiter.constant(rate_limiter.UNLIMITED))
    rhythm.back_off(86_400.0)

    assert await moments(rhythm, 1) == [rate_limiter.LONGEST_BACKOFF_SECONDS]


@timeless.scenario
async def test_making_way() -> None:
    """The rate is the lower one for as long as something more important is under way."""
    busy = True
    rhythm = rate_limiter.RateLimiter(
        timeless.clock(), rate_limiter.lower_while_busy(lambda: busy, meanwhile=1.0, otherwise=10.0)
    )
    assert await moments(rhythm, 3) == [0.0, 1.0, 2.0]

    busy = False

    assert await moments(rhythm, 3) == pytest.approx([3.0, 3.1, 3.2])
