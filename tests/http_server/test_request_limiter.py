"""However much a crowd asks at once, whatever else the loop is for has its turns in between."""

import asyncio
import collections

from aiohttp import web

from berth_crds import http_server, request_limiter
from http_server import clients
from support import timeless
from support.other_task import OtherTask

CROWD = 100
AT_ONCE = 20  # Requests that a client sends without waiting for an answer.


async def test_few_requests_are_answered_in_one_turn_of_the_loop() -> None:
    """A crowd that sends many requests at once is answered bit by bit, and a newcomer in its turn."""
    other, answered = OtherTask(), collections.Counter[int]()  # In each turn of another task.

    async def page(_: web.Request) -> web.Response:
        answered[other.turns] += 1
        return web.Response(text="alive\n")

    async with (
        http_server.serving("127.0.0.1:0", [web.get("/healthz", page)]) as address,
        timeless.beside(other.run()),
        clients.connected(address, CROWD) as crowd,
    ):
        for client in crowd:
            await client.send(clients.REQUEST % b"/healthz" * AT_ONCE)
        assert await clients.ask(address) == "200 OK"

        assert answered.total() < CROWD * AT_ONCE, "it need not wait for all that the others asked"
    assert max(answered.values()) < 2 * request_limiter.BURST


@timeless.scenario
async def test_the_first_pass_at_once_and_the_rest_at_a_pace() -> None:
    """Who comes now and then never waits; a crowd goes one after another, the first first."""
    clock, limiter, passed = timeless.clock(), request_limiter.RequestLimiter(), list[tuple[float, int]]()
    await timeless.passing(1)

    async def acquire(number: int) -> None:
        await limiter.acquire()
        passed.append((clock(), number))

    await asyncio.gather(*map(acquire, range(1032)))

    assert [number for _, number in passed] == list(range(1032))
    assert passed[request_limiter.BURST - 1][0] == 1.0
    assert 2.9 < passed[-1][0] < 3.1

    await timeless.passing(1)
    began = clock()
    await limiter.acquire()
    assert clock() == began


@timeless.scenario
async def test_a_process_that_was_paused_does_not_make_up_for_it_in_one_turn() -> None:
    """However long each takes, as where others have the processor, the loop has turns for all else."""
    clock, limiter, passed = timeless.clock(), request_limiter.RequestLimiter(), list[float]()

    def work() -> bool:
        timeless.stall(1)
        passed.append(clock())
        return True

    for _ in range(100):
        limiter.submit(work)

    assert len(passed) == request_limiter.BURST
    await timeless.passing(1000)
    assert len(passed) == 100


@timeless.scenario
async def test_who_has_gone_takes_no_turn() -> None:
    """A crowd that comes, asks and goes keeps nobody waiting."""
    clock, limiter = timeless.clock(), request_limiter.RequestLimiter()
    crowd = [asyncio.create_task(limiter.acquire()) for _ in range(10_000)]
    await timeless.passing(0.1)
    for task in crowd:
        task.cancel()
    began = clock()

    await limiter.acquire()

    assert clock() - began < 0.01
