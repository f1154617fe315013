"""Turns come evenly and no faster than allowed, and a rest stops everybody."""

import asyncio

import pytest

from berth_operator.engine import rate_limiter
from support import timeless


def limited(a_second: float) -> rate_limiter.RateLimiter:
    """Return a limiter of so many turns a second."""
    return rate_limiter.RateLimiter(timeless.clock(), lambda: a_second)


async def moments(limiter: rate_limiter.RateLimiter, count: int) -> list[float]:
    """Have so many wait for their turn at once, and tell when each had it."""
    now = timeless.clock()

    async def one() -> float:
        await limiter.acquire()
        return round(now(), 3)

    return sorted(await asyncio.gather(*(one() for _ in range(count))))


@timeless.scenario
async def test_turns_are_even_and_a_pause_earns_nothing() -> None:
    """The first goes at once and each other after its share of a second, after a quiet time too."""
    limiter = limited(4)

    assert await moments(limiter, 5) == [0, 0.25, 0.5, 0.75, 1.0]
    await timeless.at(10.0)
    assert await moments(limiter, 3) == [10.0, 10.25, 10.5]


@timeless.scenario
async def test_no_limit() -> None:
    """Without a limit all go at once."""
    assert await moments(rate_limiter.RateLimiter(float, lambda: rate_limiter.UNLIMITED), 100) == [0.0] * 100


@pytest.mark.parametrize(
    ("rests", "until"),
    [
        pytest.param([3.0, 1.0], 3.0, id="a shorter one does not shorten it"),
        pytest.param([86_400.0], rate_limiter.LONGEST_BACKOFF_SECONDS, id="nobody rests for ever"),
    ],
)
@timeless.scenario
async def test_rest_stops_who_waits_and_who_comes(rests: list[float], until: float) -> None:
    """During a rest nobody goes, and after it all do."""
    limiter = limited(rate_limiter.UNLIMITED)
    for seconds in rests:
        limiter.back_off(seconds)

    assert await moments(limiter, 2) == [until] * 2
    assert await moments(limiter, 1) == [until]


@timeless.scenario
async def test_rest_is_lengthened_while_somebody_waits() -> None:
    """Who waits out a rest waits on when it is lengthened meanwhile."""
    limiter = limited(rate_limiter.UNLIMITED)
    limiter.back_off(1.0)
    asyncio.get_running_loop().call_later(0.5, limiter.back_off, 2.0)

    assert await moments(limiter, 1) == [2.5]


@timeless.scenario
async def test_the_rate_is_lower_while_something_more_important_is_under_way() -> None:
    """And the other one as soon as that is over."""
    now = timeless.clock()
    rate = rate_limiter.lower_while_busy(lambda: now() < 2.0, meanwhile=1.0, otherwise=10.0)
    limiter = rate_limiter.RateLimiter(now, rate)

    assert await moments(limiter, 3) == [0.0, 1.0, 2.0]
    assert await moments(limiter, 3) == pytest.approx([3.0, 3.1, 3.2])
